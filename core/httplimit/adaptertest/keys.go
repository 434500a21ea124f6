package adaptertest

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

func (s suite[C, H]) testDefaults(t *testing.T) {
	t.Run("each address has a bucket without any Config", func(t *testing.T) {
		t.Parallel()
		var handler seen
		client := s.start(t, s.route("/", handler.ok(), limiter(t, newStore(), "api", ratelimit.PerHour(2))))
		for _, remaining := range []string{"1", "0"} {
			res := client.expect(200, "/", "X-Forwarded-For", remaining, "X-Real-IP", "203.0.113.7")
			res.wantHeader(t, "X-RateLimit-Limit", "2")
			res.wantHeader(t, "X-RateLimit-Remaining", remaining)
			res.wantHeader(t, "Retry-After", "")
			res.wantHeader(t, "Cache-Control", "")
		}
		if res, ok := handler.last(t); !ok || res.Key != "a:127.0.0.1" || !res.Allowed || res.Name != "api" {
			t.Errorf("ResultFrom: %+v, %v", res, ok)
		}
		denied := client.expect(429, "/", "X-Forwarded-For", "198.51.100.1")
		denied.wantHeader(t, "X-RateLimit-Remaining", "0")
		denied.wantHeader(t, "Cache-Control", "no-store")
		if wait, err := strconv.Atoi(denied.get("Retry-After")); err != nil || wait < 1 || wait > 1800 {
			t.Errorf("Retry-After: %q, want up to 1800", denied.get("Retry-After"))
		}
		if handler.count() != 2 {
			t.Errorf("the handler has run %d times, want 2", handler.count())
		}
	})
	t.Run("concurrent requests are admitted exactly up to the burst", func(t *testing.T) {
		t.Parallel()
		var handler seen
		client := s.start(t, s.route("/", handler.ok(), limiter(t, newStore(), "api", ratelimit.PerHour(10))))
		client.http.Transport.(*http.Transport).MaxConnsPerHost = 8
		var requests sync.WaitGroup
		for range 40 {
			requests.Go(func() { _, _ = client.try(http.MethodGet, "/") })
		}
		requests.Wait()
		if handler.count() != 10 {
			t.Errorf("admitted %d of 40, want 10", handler.count())
		}
	})
}

func (s suite[C, H]) testKeys(t *testing.T) {
	t.Run("a key and an address never meet", s.testTags)
	t.Run("without its header, a key falls back to the address", s.testMissingHeader)
	t.Run("a header's value does not reach the store", s.testHashedHeader)
	t.Run("keys that the framework's memory is behind stay as they were", s.testKeptKeys)
	t.Run("Route is the pattern, and HEAD counts as GET", s.testRouteKey)
	t.Run("a key's error is answered as unavailable", s.testKeyError)
}

func (s suite[C, H]) testTags(t *testing.T) {
	t.Parallel()
	var handler seen
	config := httplimit.Config[C, H]{Key: s.native}
	client := s.start(t, s.route("/", handler.ok(), limiter(t, newStore(), "api", ratelimit.PerHour(1)), config))
	for _, user := range []string{"", "127.0.0.1", "a:127.0.0.1", "*", "k:*"} {
		client.expect(200, "/", "X-User", user)
		client.expect(429, "/", "X-User", user)
	}
}

func (s suite[C, H]) testMissingHeader(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]httplimit.Key[C]{
		"Header":  s.By(httplimit.Header("X-User")),
		"FirstOf": httplimit.FirstOf(s.native, s.By(httplimit.ClientIP())),
		"Join":    httplimit.Join(s.native, s.By(httplimit.Route)),
	} {
		var handler seen
		config := httplimit.Config[C, H]{Key: key}
		client := s.start(t, s.route("/", handler.ok(), limiter(t, newStore(), "api", ratelimit.PerHour(1)), config))
		client.expect(200, "/", "X-Other", "1")
		if res := client.get("/", "X-Other", "2"); res.status != 429 {
			t.Errorf("%s: a second request without the header got %d, want 429", name, res.status)
		}
		client.expect(200, "/", "X-User", "alice")
	}
}

func (s suite[C, H]) testHashedHeader(t *testing.T) {
	t.Parallel()
	var handler seen
	store := newStore()
	config := httplimit.Config[C, H]{Key: s.By(httplimit.Header("Authorization"))}
	client := s.start(t, s.route("/", handler.ok(), limiter(t, store, "api", ratelimit.PerHour(9)), config))
	client.expect(200, "/", "Authorization", "Bearer secret")
	client.expect(200, "/", "Authorization", "Bearer secret")
	client.expect(200, "/", "Authorization", "Bearer other")
	keys := store.takes()
	if keys[0] != keys[1] || keys[0] == keys[2] || strings.Contains(keys[0], "secret") || !strings.HasPrefix(keys[0], "k:") {
		t.Errorf("keys %q: want two alike and one other, hashed", keys)
	}
}

func (s suite[C, H]) testKeptKeys(t *testing.T) {
	t.Parallel()
	var handler seen
	store := newStore()
	config := httplimit.Config[C, H]{Key: s.native}
	client := s.start(t, s.route("/", handler.ok(), limiter(t, store, "api", ratelimit.PerHour(5)), config))
	var want []string
	for round := range 5 {
		for _, user := range []string{"alice", "bobby"} {
			res := client.expect(200, "/", "X-User", user)
			res.wantHeader(t, "X-RateLimit-Remaining", strconv.Itoa(4-round))
			want = append(want, "k:"+user)
		}
	}
	client.expect(429, "/", "X-User", "alice")
	client.expect(200, "/", "X-User", "carol")
	client.expect(429, "/", "X-User", "bobby")
	want = append(want, "k:alice", "k:carol", "k:bobby")
	if keys := store.takes(); !slices.Equal(keys, want) {
		t.Errorf("keys in the store: %q, want %q", keys, want)
	}
}

func (s suite[C, H]) testRouteKey(t *testing.T) {
	t.Parallel()
	var handler seen
	store := newStore()
	config := httplimit.Config[C, H]{Key: s.By(httplimit.Route)}
	client := s.start(t, s.route("/items/{id}", handler.ok(), limiter(t, store, "api", ratelimit.PerHour(9)), config))
	client.expect(200, "/items/1")
	client.expect(200, "/items/2")
	client.do(http.MethodHead, "/items/3")
	client.do(http.MethodPost, "/items/1")
	keys := store.takes()
	if len(keys) != 4 || keys[0] != keys[1] || keys[0] != keys[2] || keys[0] == keys[3] {
		t.Fatalf("keys %q: want three alike and one other", keys)
	}
	if !strings.HasPrefix(keys[0], "k:GET ") || !strings.Contains(keys[0], "id") {
		t.Errorf("key %q: want method and pattern", keys[0])
	}
}

func (s suite[C, H]) testKeyError(t *testing.T) {
	t.Parallel()
	var handler seen
	store := newStore()
	config := httplimit.Config[C, H]{Key: func(C) (string, error) { return "alice", errBroken }}
	client := s.start(t, s.route("/", handler.ok(), limiter(t, store, "api", ratelimit.PerHour(9)), config))
	client.expect(503, "/").wantHeader(t, "Retry-After", "1")
	if handler.count() != 0 || len(store.takes()) != 0 {
		t.Error("the handler has run or the store was asked")
	}
}

func (s suite[C, H]) testLimiters(t *testing.T) {
	free := limiter(t, newStore(), "api", ratelimit.PerHour(2))
	paid, err := free.With(ratelimit.PerHour(100))
	if err != nil {
		t.Fatal(err)
	}
	plan := func(c C) (*ratelimit.Limiter, error) {
		switch s.Header(c, "X-Plan") {
		case "":
			return nil, nil
		case "paid":
			return paid, nil
		default:
			return nil, errors.New("unknown plan")
		}
	}
	var handler seen
	config := httplimit.Config[C, H]{Limiter: plan, Key: s.native}
	client := s.start(t,
		s.route("/base", handler.ok(), free, config),
		s.route("/no-base", handler.ok(), nil, config),
	)
	client.expect(200, "/base", "X-User", "a").wantHeader(t, "X-RateLimit-Limit", "2")
	client.expect(200, "/base", "X-User", "a", "X-Plan", "paid").wantHeader(t, "X-RateLimit-Limit", "100")
	client.expect(503, "/base", "X-User", "a", "X-Plan", "other")
	client.expect(200, "/no-base", "X-User", "b", "X-Plan", "paid")
	client.expect(503, "/no-base", "X-User", "b")
}

func (s suite[C, H]) testCosts(t *testing.T) {
	var handler seen
	store := newStore()
	cost := func(c C) int { n, _ := strconv.Atoi(s.Header(c, "X-Cost")); return n }
	config := httplimit.Config[C, H]{Cost: cost}
	client := s.start(t, s.route("/", handler.ok(), limiter(t, store, "api", ratelimit.PerHour(10)), config))

	free := client.expect(200, "/", "X-Cost", "0")
	free.wantHeader(t, "X-RateLimit-Limit", "")
	if _, ok := handler.last(t); ok || len(store.takes()) != 0 {
		t.Error("a free request has a result, or the store was asked")
	}
	client.expect(200, "/", "X-Cost", "6").wantHeader(t, "X-RateLimit-Remaining", "4")
	denied := client.expect(429, "/", "X-Cost", "5")
	denied.wantHeader(t, "X-RateLimit-Remaining", "4")
	never := client.expect(429, "/", "X-Cost", "11")
	never.wantHeader(t, "Retry-After", "")
	never.wantHeader(t, "Cache-Control", "no-store")
	client.expect(503, "/", "X-Cost", "-1")
	client.expect(200, "/", "X-Cost", "4").wantHeader(t, "X-RateLimit-Remaining", "0")
	client.expect(200, "/", "X-Cost", "0")
}

func (s suite[C, H]) testSkip(t *testing.T) {
	var handler seen
	store := newStore()
	l := limiter(t, store, "api", ratelimit.PerHour(1))
	config := httplimit.Config[C, H]{Skip: httplimit.When(s.By, httplimit.Preflight, httplimit.Path("/healthz"))}
	client := s.start(t, s.route("/", handler.ok(), l, config), s.route("/healthz", handler.ok(), l, config))
	for range 3 {
		client.expect(200, "/healthz").wantHeader(t, "X-RateLimit-Limit", "")
		preflight := client.do(http.MethodOptions, "/", "Origin", "https://a.test", "Access-Control-Request-Method", "PUT")
		if preflight.status != 200 {
			t.Errorf("preflight: status %d, want 200", preflight.status)
		}
	}
	if _, ok := handler.last(t); ok || len(store.takes()) != 0 {
		t.Error("a skipped request has a result, or the store was asked")
	}
	client.do(http.MethodOptions, "/")
	client.expect(429, "/")
}

func (s suite[C, H]) testSharedBucket(t *testing.T) {
	logged := captureLog(t)
	var handler seen
	l := limiter(t, newStore(), "api", ratelimit.PerHour(3))
	config := httplimit.Config[C, H]{Key: s.native}
	client := s.startUnix(t, s.route("/", handler.ok(), l, config))
	client.expect(200, "/", "X-User", "alice")
	if logged.Len() > 0 {
		t.Errorf("logged although there is a key: %s", logged)
	}
	for range 3 {
		client.expect(200, "/", "X-Forwarded-For", "203.0.113.7")
	}
	client.expect(429, "/")
	if res, _ := handler.last(t); res.Key != "*" {
		t.Errorf("key %q, want *", res.Key)
	}
	if n := strings.Count(logged.String(), "level=WARN"); n != 1 {
		t.Errorf("logged %d warnings, want 1: %s", n, logged)
	}
}
