package adaptertest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

// problem is a body of application/problem+json.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Violated []string `json:"violated-policies"`
}

func (s suite[C, H]) testAnswers(t *testing.T) {
	t.Run("HEAD and GET share a bucket and a connection", s.testSharedConnection)
	t.Run("a problem in JSON, or plain text if the client takes none", s.testBodies)
}

func (s suite[C, H]) testBodies(t *testing.T) {
	if s.RendersErrors {
		t.Skip("not applicable: the app's error handler renders the body")
	}
	var handler seen
	denying := limiter(t, level{newStore().Store, time.Minute}, "api", ratelimit.PerMinute(1), ratelimit.WithLimit(ratelimit.PerHour(1000)))
	failing := newStore()
	failing.fail(errBroken)
	client := s.start(t,
		s.route("/denied", handler.ok(), denying),
		s.route("/costly", handler.ok(), denying, httplimit.Config[C, H]{Cost: func(C) int { return 2 }}),
		s.route("/failing", handler.ok(), limiter(t, failing, "api", ratelimit.PerHour(1), ratelimit.FailClosed())),
	)
	for _, accept := range [][]string{
		nil,
		{"Accept", "*/*"},
		{"Accept", "application/json"},
		{"Accept", "application/problem+json"},
		{"Accept", "application/*;q=0.1"},
		{"Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"},
		{"Accept", "text/html", "Accept", "application/json"},
	} {
		wantProblem(t, client.expect(429, "/denied", accept...), problem{"quota-exceeded", "", 429, []string{"api"}})
		wantProblem(t, client.expect(429, "/costly", accept...), problem{"quota-exceeded", "", 429, []string{"api"}})
		wantProblem(t, client.expect(503, "/failing", accept...), problem{"temporary-reduced-capacity", "", 503, nil})
	}
	for _, accept := range []string{"text/plain", "text/html, image/*", "application/json;q=0", "application/json;q=0, */*", "application/xml"} {
		for path, status := range map[string]int{"/denied": 429, "/costly": 429, "/failing": 503} {
			res := client.expect(status, path, "Accept", accept)
			if kind := res.get("Content-Type"); !strings.HasPrefix(kind, "text/plain") || res.body == "" || strings.Contains(res.body, "{") {
				t.Errorf("Accept %q: %s %q, want plain text", accept, kind, res.body)
			}
		}
	}
	if handler.count() != 0 {
		t.Error("the handler has run")
	}
}

func wantProblem(t *testing.T, res response, want problem) {
	t.Helper()
	var got problem
	if err := json.Unmarshal([]byte(res.body), &got); err != nil {
		t.Errorf("body %q: %v", res.body, err)
		return
	}
	res.wantHeader(t, "Content-Type", "application/problem+json")
	const types = "https://iana.org/assignments/http-problem-types#"
	if got.Type != types+want.Type || got.Status != want.Status || got.Title == "" || !slices.Equal(got.Violated, want.Violated) {
		t.Errorf("problem %+v, want %+v", got, want)
	}
}

func (s suite[C, H]) testOwnAnswers(t *testing.T) {
	var handler, denied, unavailable seen
	failing := newStore()
	failing.fail(errDown{7 * time.Second})
	config := httplimit.Config[C, H]{Denied: s.Handler(denied.status(418)), Unavailable: s.Handler(unavailable.status(504))}
	client := s.start(t,
		s.route("/denied", handler.ok(), limiter(t, newStore(), "api", ratelimit.PerHour(1)), config),
		s.route("/failing", handler.ok(), limiter(t, failing, "api", ratelimit.PerHour(1), ratelimit.FailClosed()), config),
	)
	client.expect(200, "/denied")
	res := client.expect(418, "/denied")
	res.wantHeader(t, "X-RateLimit-Remaining", "0")
	res.wantHeader(t, "Cache-Control", "no-store")
	if wait, err := strconv.Atoi(res.get("Retry-After")); err != nil || wait < 1 || res.body != "body" {
		t.Errorf("Retry-After %q, body %q", res.get("Retry-After"), res.body)
	}
	if result, ok := denied.last(t); !ok || result.Allowed || result.RetryAfter <= 0 {
		t.Errorf("ResultFrom in Denied: %+v, %v", result, ok)
	}
	client.expect(504, "/failing").wantHeader(t, "Retry-After", "7")
	if result, ok := unavailable.last(t); !ok || result.Source != ratelimit.SourcePolicy || result.Cause == nil {
		t.Errorf("ResultFrom in Unavailable: %+v, %v", result, ok)
	}
	if handler.count() != 1 || denied.count() != 1 || unavailable.count() != 1 {
		t.Errorf("handlers ran %d, %d, %d times, want once each", handler.count(), denied.count(), unavailable.count())
	}
}

func (s suite[C, H]) testFailingStore(t *testing.T) {
	t.Run("fail open admits, and sends no quota headers", func(t *testing.T) {
		t.Parallel()
		var handler seen
		store := newStore()
		client := s.start(t, s.route("/", handler.ok(), limiter(t, store, "api", ratelimit.PerHour(1)), httplimit.Config[C, H]{Headers: both}))
		store.fail(errBroken)
		for range 3 {
			noQuota(t, client.expect(200, "/"))
		}
		if res, ok := handler.last(t); !ok || !res.Allowed || res.Source != ratelimit.SourcePolicy {
			t.Errorf("ResultFrom: %+v, %v", res, ok)
		}
		store.fail(nil)
		client.expect(200, "/").wantHeader(t, "X-RateLimit-Remaining", "0")
		client.expect(429, "/")
	})
	t.Run("fail closed answers 503, not 429", func(t *testing.T) {
		t.Parallel()
		var handler seen
		store := newStore()
		client := s.start(t, s.route("/", handler.ok(), limiter(t, store, "api", ratelimit.PerHour(1), ratelimit.FailClosed()), httplimit.Config[C, H]{Headers: both}))
		for _, c := range []struct {
			cause error
			wait  string
		}{{errBroken, "1"}, {errDown{0}, "1"}, {errDown{-time.Hour}, "1"}, {errDown{6001 * time.Millisecond}, "7"}} {
			store.fail(c.cause)
			res := client.expect(503, "/")
			noQuota(t, res)
			res.wantHeader(t, "Retry-After", c.wait)
			if res := client.do(http.MethodHead, "/"); res.status != 503 {
				t.Errorf("HEAD: status %d, want 503", res.status)
			}
		}
		if handler.count() != 0 {
			t.Error("the handler has run")
		}
	})
	t.Run("fail local keeps sending quota headers", func(t *testing.T) {
		t.Parallel()
		var handler seen
		store := newStore()
		store.fail(errBroken)
		l := limiter(t, store, "api", ratelimit.PerHour(4), ratelimit.FailLocal(newStore(), 0.5))
		client := s.start(t, s.route("/", handler.ok(), l))
		client.expect(200, "/").wantHeader(t, "X-RateLimit-Limit", "4")
		client.expect(200, "/")
		client.expect(429, "/")
	})
}

func noQuota(t *testing.T, res response) {
	t.Helper()
	for _, name := range quotaHeaders {
		res.wantHeader(t, name, "")
	}
}
