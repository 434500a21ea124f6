package adaptertest

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

// statuses notes the statuses that Refund is asked about.
type statuses struct{ asked chan int }

func newStatuses() statuses { return statuses{make(chan int, 100)} }

// next is the next status that was asked about, 0 if there was none.
func (s statuses) next() int {
	select {
	case status := <-s.asked:
		return status
	default:
		return 0
	}
}

// refundSuccesses is a Config that makes failures alone count.
func refundSuccesses[C, H any](asked statuses) httplimit.Config[C, H] {
	return httplimit.Config[C, H]{Refund: func(_ C, status int) bool {
		asked.asked <- status
		return status < 400
	}}
}

func (s suite[C, H]) testRefund(t *testing.T) {
	t.Run("the status decides", s.testRefundStatus)
	t.Run("an error or a panic counts as 500", s.testRefundFailure)
	t.Run("what was charged is given back, and nothing else", s.testRefundAmount)
	t.Run("nothing is given back that was not charged", s.testRefundUncharged)
	t.Run("it happens although the client has gone", s.testRefundClientGone)
}

func (s suite[C, H]) testRefundStatus(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 204, 302, 401, 404, 500, 503} {
		asked := newStatuses()
		var handler seen
		store := newStore()
		client := s.start(t, s.route("/", handler.status(status), limiter(t, store, "login", ratelimit.PerHour(2)), refundSuccesses[C, H](asked)))
		client.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		for range 2 {
			client.expect(status, "/")
			if got := asked.next(); got != status {
				t.Errorf("Refund was asked about %d, want %d", got, status)
			}
		}
		want := status
		if status >= 400 {
			want = 429
		}
		client.expect(want, "/")
	}
}

func (s suite[C, H]) testRefundFailure(t *testing.T) {
	t.Parallel()
	replies := []Reply{{Panic: true}}
	if s.ReturnsErrors {
		replies = append(replies, Reply{Err: errBroken})
	}
	for _, reply := range replies {
		asked := newStatuses()
		var handler seen
		reply.Seen = handler.note
		client := s.start(t, s.route("/", reply, limiter(t, newStore(), "login", ratelimit.PerHour(2)), refundSuccesses[C, H](asked)))
		for range 2 {
			if res, err := client.try(http.MethodPost, "/"); err == nil && res.status != 500 {
				t.Errorf("%+v: status %d, want 500 or none", reply, res.status)
			}
			if got := asked.next(); got != 500 {
				t.Errorf("%+v: Refund was asked about %d, want 500", reply, got)
			}
		}
		client.expect(429, "/")
		if handler.count() != 2 {
			t.Errorf("the handler has run %d times, want 2", handler.count())
		}
	}
}

func (s suite[C, H]) testRefundAmount(t *testing.T) {
	t.Parallel()
	var handler seen
	base, other := newStore(), newStore()
	chosen := limiter(t, other, "chosen", ratelimit.PerHour(10))
	config := refundSuccesses[C, H](newStatuses())
	config.Cost = func(C) int { return 4 }
	config.Key = s.native
	config.Limiter = func(C) (*ratelimit.Limiter, error) { return chosen, nil }
	client := s.start(t, s.route("/", handler.ok(), limiter(t, base, "base", ratelimit.PerHour(10)), config))
	for range 4 {
		client.expect(200, "/", "X-User", "alice").wantHeader(t, "X-RateLimit-Remaining", "6")
	}
	if got := base.refunded(); len(got) != 0 {
		t.Errorf("refunded to the wrong store: %v", got)
	}
	want := refund{key: "k:alice", charge: 4 * (time.Hour / 10).Microseconds()}
	if got := other.refunded(); len(got) != 4 || got[0] != want || got[3] != want {
		t.Errorf("refunded %v, want 4 times %v", got, want)
	}
}

func (s suite[C, H]) testRefundUncharged(t *testing.T) {
	t.Parallel()
	always := func(C, int) bool { return true }
	failing, store, local := newStore(), newStore(), newStore()
	failing.fail(errBroken)
	var handler seen
	broken := httplimit.Config[C, H]{Refund: always, Key: func(C) (string, error) { return "", errBroken }}
	client := s.start(t,
		s.route("/open", handler.ok(), limiter(t, failing, "api", ratelimit.PerHour(1)), httplimit.Config[C, H]{Refund: always}),
		s.route("/closed", handler.ok(), limiter(t, failing, "api", ratelimit.PerHour(1), ratelimit.FailClosed()), httplimit.Config[C, H]{Refund: always}),
		s.route("/local", handler.ok(), limiter(t, failing, "api", ratelimit.PerHour(1), ratelimit.FailLocal(local, 1)), httplimit.Config[C, H]{Refund: always}),
		s.route("/denied", handler.ok(), limiter(t, level{store.Store, time.Hour}, "api", ratelimit.PerHour(1)), httplimit.Config[C, H]{Refund: always}),
		s.route("/skipped", handler.ok(), limiter(t, store, "api", ratelimit.PerHour(1)), httplimit.Config[C, H]{Refund: always, Skip: func(C) bool { return true }}),
		s.route("/free", handler.ok(), limiter(t, store, "api", ratelimit.PerHour(1)), httplimit.Config[C, H]{Refund: always, Cost: func(C) int { return 0 }}),
		s.route("/shadow", handler.ok(), limiter(t, store, "api", ratelimit.PerHour(1)), httplimit.Config[C, H]{Refund: always, Shadow: true}),
		s.route("/broken", handler.ok(), limiter(t, store, "api", ratelimit.PerHour(1)), broken),
	)
	for path, status := range map[string]int{"/open": 200, "/closed": 503, "/local": 200, "/denied": 429, "/skipped": 200, "/free": 200, "/shadow": 200, "/broken": 503} {
		client.expect(status, path)
	}
	if got := slices.Concat(failing.refunded(), store.refunded()); len(got) != 0 {
		t.Errorf("refunded %v, want nothing", got)
	}
	if got := local.refunded(); len(got) != 1 {
		t.Errorf("refunded %v to the local store that was charged, want one", got)
	}
}

func (s suite[C, H]) testRefundClientGone(t *testing.T) {
	t.Parallel()
	var handler seen
	store, gate := newStore(), make(chan struct{})
	reply := Reply{Seen: func(res ratelimit.Result, ok bool) { handler.note(res, ok); <-gate }, Status: 200}
	contexts := make(chan context.Context, 1)
	config := refundSuccesses[C, H](newStatuses())
	config.Key = s.By(func(r httplimit.Request) (string, error) { contexts <- r.Context; return "alice", nil })
	client := s.start(t, s.route("/", reply, limiter(t, store, "login", ratelimit.PerHour(2)), config))
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	request := client.request(ctx, http.MethodGet, "/")
	go func() {
		res, err := client.http.Do(request)
		if err == nil {
			_ = res.Body.Close()
		}
		left <- err
	}()
	eventually(t, "the handler runs", func() bool { return handler.count() == 1 })
	leave()
	if err := <-left; err == nil {
		t.Error("the client has got a response, so it had not gone")
	}
	if ctx := <-contexts; !s.IgnoresClients {
		eventually(t, "the server knows", func() bool { return ctx.Err() != nil })
	}
	close(gate)
	eventually(t, "the tokens are given back", func() bool { return len(store.refunded()) == 1 })
	if got := store.refunded()[0]; got.ctxErr != nil {
		t.Errorf("the refund's context had ended: %v", got.ctxErr)
	}
}

func (s suite[C, H]) testShadow(t *testing.T) {
	var handler seen
	store := newStore()
	shadow := httplimit.Config[C, H]{Shadow: true, Headers: both}
	broken := shadow
	broken.Key = func(C) (string, error) { return "", errBroken }
	costly := shadow
	costly.Cost = func(C) int { return 9 }
	failing := newStore()
	failing.fail(errBroken)
	client := s.start(t,
		s.route("/", handler.ok(), limiter(t, store, "api", ratelimit.PerHour(1)), shadow),
		s.route("/broken", handler.ok(), limiter(t, store, "api", ratelimit.PerHour(1)), broken),
		s.route("/costly", handler.ok(), limiter(t, store, "api", ratelimit.PerHour(1)), costly),
		s.route("/failing", handler.ok(), limiter(t, failing, "api", ratelimit.PerHour(1), ratelimit.FailClosed()), shadow),
	)
	for i, path := range []string{"/", "/", "/", "/broken", "/costly", "/failing"} {
		res := client.expect(200, path)
		noQuota(t, res)
		res.wantHeader(t, "Retry-After", "")
		res.wantHeader(t, "Cache-Control", "")
		if result, ok := handler.last(t); path == "/" && (!ok || result.Allowed != (i == 0)) {
			t.Errorf("request %d: ResultFrom %+v, %v; want what would have been decided", i, result, ok)
		}
	}
	if takes := store.takes(); len(takes) != 3 {
		t.Errorf("the store was asked %d times, want 3", len(takes))
	}
}
