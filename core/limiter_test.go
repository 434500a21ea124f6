package ratelimit_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

func TestANameThatWouldNeedEscapingIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "0", "api", "api.v1", "a-b_c.d", strings.Repeat("a", 64)} {
		l, err := ratelimit.New(memstore.New(), name, ratelimit.PerSecond(1))
		if err != nil || l.Name() != name {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", " ", "A", "Api", ".a", "-a", "_a", "a b", "a:b", "a/b", "{a}", "a\n", "\na", "a\x00", "é", strings.Repeat("a", 65)} {
		_, err := ratelimit.New(memstore.New(), name, ratelimit.PerSecond(1))
		if err == nil || !strings.HasPrefix(err.Error(), "ratelimit: name ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error is %v", name, err)
		}
	}
}

func TestNewSaysWhichArgumentIsMissing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		opt  ratelimit.Option
		want string
	}{
		{nil, "an option is nil"},
		{ratelimit.WithObserver(nil), "WithObserver: observer is nil"},
		{ratelimit.WithLogger(nil), "WithLogger: logger is nil; use slog.New(slog.DiscardHandler) for silence"},
		{ratelimit.FailLocal(nil, 1), "FailLocal: store is nil"},
	} {
		_, err := ratelimit.New(memstore.New(), "api", ratelimit.PerSecond(1), tt.opt)
		if err == nil || err.Error() != "ratelimit: "+tt.want {
			t.Errorf("error is %v, want %s", err, tt.want)
		}
	}
	if _, err := ratelimit.New(nil, "api", ratelimit.PerSecond(1)); err == nil || err.Error() != "ratelimit: store is nil" {
		t.Errorf("without a store: %v", err)
	}
}

func TestNewDoesNotAskTheStore(t *testing.T) {
	t.Parallel()
	store := newFlakyStore()
	store.fail(errLost)
	l := newLimiter(t, store, ratelimit.PerSecond(1))
	if _, err := l.With(ratelimit.PerSecond(2)); err != nil || store.calls() != 0 {
		t.Errorf("error is %v, the store was asked %d times", err, store.calls())
	}
}

func TestArgumentsThatCannotSucceedAreRefusedBeforeTheStoreIsAsked(t *testing.T) {
	t.Parallel()
	store := newFlakyStore()
	l := newLimiter(t, store, ratelimit.PerMinute(300), ratelimit.WithLimit(ratelimit.PerHour(500)))
	ctx := context.Background()
	for _, call := range []struct {
		key  string
		cost int
		want error
		text string
	}{
		{"", 1, ratelimit.ErrInvalidKey, "ratelimit: key is empty"},
		{"k", 0, ratelimit.ErrInvalidCost, "ratelimit: cost must be at least 1, is 0"},
		{"k", math.MinInt, ratelimit.ErrInvalidCost, "ratelimit: cost must be at least 1, is -9223372036854775808"},
		{"k", 301, ratelimit.ErrCostExceedsBurst, `ratelimit: cost exceeds burst, the call can never be admitted: cost 301, limit "300/min burst 300" of limiter "api"`},
		{"k", math.MaxInt, ratelimit.ErrCostExceedsBurst, `ratelimit: cost exceeds burst, the call can never be admitted: cost 9223372036854775807, limit "300/min burst 300" of limiter "api"`},
	} {
		res, err := l.AllowN(ctx, call.key, call.cost)
		if !errors.Is(err, call.want) || err.Error() != call.text || res.Allowed || res.Source != 0 {
			t.Errorf("AllowN(%q, %d): %+v, %v", call.key, call.cost, res, err)
		}
	}
	for what, err := range map[string]error{
		"Peek of no key":      errorOf(l.Peek(ctx, "")),
		"Refund of no key":    l.Refund(ctx, "", 1),
		"Reset of no key":     l.Reset(ctx, ""),
		"Refund of no tokens": l.Refund(ctx, "k", 0),
	} {
		if !errors.Is(err, ratelimit.ErrInvalidKey) && !errors.Is(err, ratelimit.ErrInvalidCost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := store.calls(); n != 0 {
		t.Errorf("the store was asked %d times", n)
	}
}

func errorOf(_ ratelimit.Result, err error) error { return err }

func TestAResultSaysHowTheBucketStands(t *testing.T) {
	t.Parallel()
	limit := ratelimit.PerHour(4).WithBurst(3) // a token each 15 minutes
	l := newLimiter(t, memstore.New(), ratelimit.PerHour(4).WithBurst(3))
	near := func(got, want time.Duration) bool { return got <= want && got > want-time.Minute }

	res := allowN(t, l, "k", 2)
	resetAfter := res.ResetAfter
	res.ResetAfter = 0
	want := ratelimit.Result{Allowed: true, Name: "api", Key: "k", Cost: 2, Limit: limit, Remaining: 1, Source: ratelimit.SourceStore}
	if !same(res, want) || !near(resetAfter, 30*time.Minute) {
		t.Errorf("allowed: %+v, full in %v\nwant %+v, full in 30m", res, resetAfter, want)
	}

	res = allowN(t, l, "k", 3)
	retryAfter, resetAfter := res.RetryAfter, res.ResetAfter
	res.RetryAfter, res.ResetAfter = 0, 0
	want = ratelimit.Result{Name: "api", Key: "k", Cost: 3, Limit: limit, Remaining: 1, Source: ratelimit.SourceStore}
	if !same(res, want) || !near(retryAfter, 30*time.Minute) || !near(resetAfter, 30*time.Minute) {
		t.Errorf("denied: %+v, retry in %v, full in %v\nwant %+v, both in 30m", res, retryAfter, resetAfter, want)
	}
}

// same compares results of one limit.
func same(a, b ratelimit.Result) bool {
	causes := errors.Is(a.Cause, b.Cause) && errors.Is(b.Cause, a.Cause)
	noLimits := a.Limits == nil && b.Limits == nil
	return causes && noLimits && a.Allowed == b.Allowed && a.Name == b.Name && a.Key == b.Key && a.Cost == b.Cost &&
		a.Limit == b.Limit && a.Remaining == b.Remaining && a.RetryAfter == b.RetryAfter && a.ResetAfter == b.ResetAfter && a.Source == b.Source
}

func TestPeekTellsWhatACallOfOneWouldGet(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, memstore.New(), ratelimit.PerDay(2))
	for spent := range 3 {
		for range 3 {
			res, err := l.Peek(context.Background(), "k")
			if err != nil || res.Allowed != (spent < 2) || res.Remaining != 2-spent || res.Cost != 1 || res.Source != ratelimit.SourceStore || (res.RetryAfter > 0) == res.Allowed {
				t.Errorf("after %d calls: %+v, %v", spent, res, err)
			}
		}
		allow(t, l, "k")
	}
}

func TestARefundOfMoreThanTheBurstFillsTheBucket(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, memstore.New(), ratelimit.PerDay(3))
	allowN(t, l, "k", 3)
	if err := l.Refund(context.Background(), "k", math.MaxInt); err != nil {
		t.Fatal(err)
	}
	if n := admitted(t, 10, l, "k"); n != 3 {
		t.Errorf("%d calls pass, want 3", n)
	}
}

func TestOnlyAllowAppliesAPolicy(t *testing.T) {
	t.Parallel()
	store := newFlakyStore()
	store.fail(errLost)
	ctx := context.Background()
	for name, policy := range map[string]ratelimit.Option{
		"open":   ratelimit.FailOpen(),
		"closed": ratelimit.FailClosed(),
		"local":  ratelimit.FailLocal(memstore.New(), 1),
	} {
		l := newLimiter(t, store, ratelimit.PerSecond(1), policy)
		res, err := l.Peek(ctx, "k")
		if !errors.Is(err, errLost) || res.Allowed || res.Source != 0 {
			t.Errorf("%s: Peek: %+v, %v", name, res, err)
		}
		for call, err := range map[string]error{
			"Refund": l.Refund(ctx, "k", 1),
			"Reset":  l.Reset(ctx, "k"),
			"Ping":   l.Ping(ctx),
		} {
			if !errors.Is(err, errLost) || errors.Is(err, ratelimit.ErrUnavailable) {
				t.Errorf("%s: %s: %v", name, call, err)
			}
		}
	}
}

// answering is a store that gives one answer.
type answering struct {
	ratelimit.Store

	decision ratelimit.Decision
}

func (a answering) Take(context.Context, []ratelimit.Bucket) (ratelimit.Decision, error) {
	return a.decision, nil
}

func TestTheSourceIsTheStoresWord(t *testing.T) {
	t.Parallel()
	for said, want := range map[ratelimit.Source]ratelimit.Source{
		0:                        ratelimit.SourceStore,
		ratelimit.SourceStore:    ratelimit.SourceStore,
		ratelimit.SourceShortcut: ratelimit.SourceShortcut,
	} {
		l := newLimiter(t, answering{memstore.New(), ratelimit.Decision{Source: said}}, ratelimit.PerSecond(1))
		if got := allow(t, l, "k").Source; got != want {
			t.Errorf("the store says %v: %v, want %v", said, got, want)
		}
	}
	names := map[ratelimit.Source]string{
		0: "none", ratelimit.SourceStore: "store", ratelimit.SourceShortcut: "shortcut",
		ratelimit.SourceLocal: "local", ratelimit.SourcePolicy: "policy", 99: "none",
	}
	for source, want := range names {
		if got := source.String(); got != want {
			t.Errorf("Source %d is %q, want %q", source, got, want)
		}
	}
}

// blocking is a store that answers only when ctx ends.
type blocking struct {
	ratelimit.Store

	asked chan struct{}
}

func (b blocking) wait(ctx context.Context) error {
	b.asked <- struct{}{}
	<-ctx.Done()
	return errors.Join(errLost, ctx.Err())
}

func (b blocking) Take(ctx context.Context, _ []ratelimit.Bucket) (ratelimit.Decision, error) {
	return ratelimit.Decision{}, b.wait(ctx)
}

func (b blocking) Peek(ctx context.Context, _ []ratelimit.Bucket) (ratelimit.Decision, error) {
	return ratelimit.Decision{}, b.wait(ctx)
}

func (b blocking) Refund(ctx context.Context, _ []ratelimit.Bucket) error { return b.wait(ctx) }
func (b blocking) Reset(ctx context.Context, _ []ratelimit.Bucket) error  { return b.wait(ctx) }
func (b blocking) Ping(ctx context.Context) error                         { return b.wait(ctx) }

// A caller that leaves is no fault of the store: it gets its ctx's error, and
// nothing else happens.
func TestACallWhoseCtxEndsReturnsItsErrorAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]ratelimit.Option{
		"open":   ratelimit.FailOpen(),
		"closed": ratelimit.FailClosed(),
		"local":  ratelimit.FailLocal(memstore.New(), 1),
	} {
		log, seen := &logged{}, &observed{}
		store := blocking{memstore.New(), make(chan struct{})}
		l := newLimiter(t, store, ratelimit.PerSecond(1), policy, ratelimit.WithLogger(log.logger()), ratelimit.WithObserver(seen))
		for call, err := range endingCalls(l, store.asked) {
			if !errors.Is(err, context.Canceled) || errors.Is(err, errLost) {
				t.Errorf("%s: %s: error is %v", name, call, err)
			}
		}
		if lines := log.lines(); len(lines) > 0 {
			t.Errorf("%s: logged %v", name, lines)
		}
		if len(seen.decisions) > 0 {
			t.Errorf("%s: observed %+v", name, seen.decisions)
		}
	}
}

// endingCalls makes each call twice: with a ctx that has ended, and with one
// that ends while the store is being asked.
func endingCalls(l *ratelimit.Limiter, asked <-chan struct{}) map[string]error {
	calls := map[string]func(context.Context) error{
		"Allow":  func(ctx context.Context) error { return errorOf(l.Allow(ctx, "k")) },
		"Peek":   func(ctx context.Context) error { return errorOf(l.Peek(ctx, "k")) },
		"Refund": func(ctx context.Context) error { return l.Refund(ctx, "k", 1) },
		"Reset":  func(ctx context.Context) error { return l.Reset(ctx, "k") },
	}
	errs := make(map[string]error)
	for name, call := range calls {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		errs[name+" after"] = call(ended)
	}
	calls["Ping"] = l.Ping
	for name, call := range calls {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-asked
			cancel()
		}()
		errs[name+" during"] = call(ctx)
	}
	return errs
}

func TestADeadlineThatHasPassedIsTheCallersError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	l := newLimiter(t, memstore.New(), ratelimit.PerSecond(1))
	if res, err := l.Allow(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) || res.Allowed {
		t.Errorf("%+v, %v", res, err)
	}
}

// An answer is an answer, even if the caller has left meanwhile.
func TestADecisionThatArrivesAfterCtxHasEndedStands(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	l := newLimiter(t, leaving{memstore.New(), cancel}, ratelimit.PerDay(1))
	if res, err := l.Allow(ctx, "k"); err != nil || !res.Allowed {
		t.Errorf("%+v, %v", res, err)
	}
}

// leaving is a store whose caller leaves just before it answers.
type leaving struct {
	ratelimit.Store

	leave func()
}

func (l leaving) Take(ctx context.Context, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	defer l.leave()
	return l.Store.Take(ctx, buckets)
}
