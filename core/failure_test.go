package ratelimit_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

// lostStore is a store that fails every call.
func lostStore() *flakyStore {
	store := newFlakyStore()
	store.fail(errLost)
	return store
}

func TestWithoutItsStoreALimiterFailsOpenByDefault(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]ratelimit.Option{
		"default":        nil,
		"FailOpen":       {ratelimit.FailOpen()},
		"the last wins":  {ratelimit.FailClosed(), ratelimit.FailOpen()},
		"several limits": {ratelimit.WithLimit(ratelimit.PerHour(5))},
	} {
		l := newLimiter(t, lostStore(), ratelimit.PerDay(2), opts...)
		want := ratelimit.Result{Allowed: true, Name: "api", Key: "k", Cost: 2, Source: ratelimit.SourcePolicy, Cause: errLost}
		for range 3 {
			if res := allowN(t, l, "k", 2); !same(res, want) {
				t.Errorf("%s: %+v, want %+v", name, res, want)
			}
		}
	}
}

func TestALimiterThatFailsClosedSaysWhy(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, lostStore(), ratelimit.PerDay(2), ratelimit.FailClosed())
	res, err := l.AllowN(context.Background(), "k", 2)
	if !errors.Is(err, ratelimit.ErrUnavailable) || !errors.Is(err, errLost) || err.Error() != "ratelimit: store is unavailable: store is on fire" {
		t.Errorf("error is %v", err)
	}
	want := ratelimit.Result{Name: "api", Key: "k", Cost: 2, Source: ratelimit.SourcePolicy, Cause: errLost}
	if !same(res, want) {
		t.Errorf("%+v, want %+v", res, want)
	}
}

func TestAStoreThatDecidesIsNotOverruled(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]ratelimit.Option{
		"open":   ratelimit.FailOpen(),
		"closed": ratelimit.FailClosed(),
		"local":  ratelimit.FailLocal(lostStore(), 1),
	} {
		l := newLimiter(t, memstore.New(), ratelimit.PerDay(2), policy)
		if n := admitted(t, 5, l, "k"); n != 2 {
			t.Errorf("%s: %d calls pass, want 2", name, n)
		}
	}
}

func TestALocalDecisionIsASharesAndSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := ratelimit.PerSecond(10).WithBurst(20)
		l := newLimiter(t, lostStore(), limit, ratelimit.FailLocal(memstore.New(), 0.25))
		res := allowN(t, l, "k", 2) // of 5, which refill at 2.5/s
		want := ratelimit.Result{
			Allowed: true, Name: "api", Key: "k", Cost: 2, Limit: limit, Remaining: 3,
			ResetAfter: 800 * time.Millisecond, Source: ratelimit.SourceLocal, Cause: errLost,
		}
		if !same(res, want) {
			t.Errorf("%+v\nwant %+v", res, want)
		}
		res = allowN(t, l, "k", 5)
		want = ratelimit.Result{
			Name: "api", Key: "k", Cost: 5, Limit: limit, Remaining: 3,
			RetryAfter: 800 * time.Millisecond, ResetAfter: 800 * time.Millisecond, Source: ratelimit.SourceLocal, Cause: errLost,
		}
		if !same(res, want) {
			t.Errorf("%+v\nwant %+v", res, want)
		}
		time.Sleep(res.RetryAfter)
		if n := admitted(t, 10, l, "k"); n != 5 {
			t.Errorf("%d calls pass after RetryAfter, want 5", n)
		}
	})
}

func TestACostAboveTheShareIsUnavailable(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, lostStore(), ratelimit.PerDay(20), ratelimit.FailLocal(memstore.New(), 0.25), ratelimit.WithLimit(ratelimit.PerHour(100)))
	res, err := l.AllowN(context.Background(), "k", 6)
	if !errors.Is(err, ratelimit.ErrUnavailable) || !errors.Is(err, errLost) || !strings.Contains(err.Error(), `cost 6 is above the local share of limit "20/d burst 20"`) {
		t.Errorf("error is %v", err)
	}
	if res.Allowed || res.Source != ratelimit.SourcePolicy || !errors.Is(res.Cause, errLost) || res.Limits != nil {
		t.Errorf("%+v", res)
	}
	if n := admitted(t, 10, l, "k"); n != 5 {
		t.Errorf("then %d calls pass, want 5", n)
	}
	// So high that its charge does not fit an int64.
	far := newLimiter(t, lostStore(), ratelimit.Per(1, 30*time.Second).WithBurst(1_000_000), ratelimit.FailLocal(memstore.New(), 1e-6))
	if res, err := far.AllowN(context.Background(), "k", 1_000_000); !errors.Is(err, ratelimit.ErrUnavailable) || res.Allowed {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestAShareThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	local := memstore.New()
	for _, tt := range []struct {
		limit ratelimit.Limit
		share float64
		want  string // "" for a share that works
	}{
		{ratelimit.PerSecond(10), 0, "share is 0, must be above 0 and at most 1"},
		{ratelimit.PerSecond(10), -0.5, "share is -0.5, must be above 0 and at most 1"},
		{ratelimit.PerSecond(10), 1.01, "share is 1.01, must be above 0 and at most 1"},
		{ratelimit.PerSecond(10), math.NaN(), "share is NaN, must be above 0 and at most 1"},
		{ratelimit.PerSecond(10), math.Inf(1), "share is +Inf, must be above 0 and at most 1"},
		{ratelimit.PerSecond(10), 0.0999, `a share of 0.0999 of limit "10/s burst 10" holds less than one token`},
		{ratelimit.PerSecond(10).WithBurst(1), 0.5, `a share of 0.5 of limit "10/s burst 1" holds less than one token`},
		{ratelimit.PerSecond(10), 1e-300, `a share of 1e-300 of limit "10/s burst 10" holds less than one token`},
		{ratelimit.Per(1, year), math.SmallestNonzeroFloat64, `a share of 5e-324 of limit "1/8760h0m0s burst 1" holds less than one token`},
		{ratelimit.PerSecond(10), 0.1, ""},
		{ratelimit.PerSecond(10), 1, ""},
		{ratelimit.PerSecond(10).WithBurst(2), 0.5, ""},
		{ratelimit.PerSecond(1_000_000).WithBurst(1_000_000_000), 1e-9, ""},
	} {
		_, err := ratelimit.New(memstore.New(), "api", tt.limit, ratelimit.FailLocal(local, tt.share))
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%v of %v: %v", tt.share, tt.limit, err)
		case tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "ratelimit: FailLocal: "+tt.want)):
			t.Errorf("%v of %v: %v, want %s", tt.share, tt.limit, err, tt.want)
		}
	}
	base := newLimiter(t, memstore.New(), ratelimit.PerSecond(10), ratelimit.FailLocal(local, 0.1))
	if _, err := base.With(ratelimit.PerSecond(9)); err == nil {
		t.Error("With accepts a limit of which the share holds no token")
	}
}

// An equal share of a burst of n is one token for each of n instances, for
// every n, though 1.0/n is rarely a number that a float64 holds.
func TestOneNthOfNTokensIsOneToken(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 200; n++ {
		l := newLimiter(t, lostStore(), ratelimit.PerDay(86400).WithBurst(n), ratelimit.FailLocal(memstore.New(), 1/float64(n)))
		if passed := admitted(t, 3, l, "k"); passed != 1 {
			t.Errorf("%d calls pass on 1/%d of %d tokens", passed, n, n)
		}
	}
}

func TestThreeInstancesWithAThirdEachAdmitTogetherAtMostTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := ratelimit.PerSecond(10).WithBurst(20)
		var instances []*ratelimit.Limiter
		for range 3 {
			instances = append(instances, newLimiter(t, lostStore(), limit, ratelimit.FailLocal(memstore.New(), 1.0/3)))
		}
		passed := 0
		const tick, ticks = 7 * time.Millisecond, 10_000 // 70 s
		for i := range ticks {
			if i > 0 {
				time.Sleep(tick)
			}
			for _, instance := range instances {
				passed += admitted(t, 2, instance, "k")
			}
			most := 20 + int(time.Duration(i)*tick/(100*time.Millisecond))
			if passed > most {
				t.Fatalf("after %v %d calls have passed, the limit is %d", time.Duration(i)*tick, passed, most)
			}
		}
		if least := 700 * 95 / 100; passed < least {
			t.Errorf("%d calls pass in 70s, want nearly 720", passed)
		}
	})
}

func TestNoShareOfAnyLimitAdmitsMoreThanItsPart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		limit := ratelimit.PerHour(rapid.IntRange(1, 1000).Draw(rt, "tokens")).WithBurst(rapid.IntRange(1, 100).Draw(rt, "burst"))
		share := rapid.Float64Range(1e-6, 1).Draw(rt, "share")
		l, err := ratelimit.New(lostStore(), "api", limit, ratelimit.FailLocal(memstore.New(), share), ratelimit.WithLogger(quiet))
		most := share * float64(limit.Burst)
		if err != nil {
			if most >= 1.001 {
				rt.Fatalf("%v of %v is refused: %v", share, limit, err)
			}
			return
		}
		passed := 0
		for range limit.Burst + 1 {
			if res, err := l.Allow(context.Background(), "k"); err == nil && res.Allowed {
				passed++
			}
		}
		if float64(passed) > most+1e-9 || float64(passed) < math.Floor(most-1e-3) {
			rt.Fatalf("%d calls pass on %v of %v", passed, share, limit)
		}
	})
}

func TestTheLocalStoreOutlivesFlaps(t *testing.T) {
	t.Parallel()
	store := newFlakyStore()
	l := newLimiter(t, store, ratelimit.PerDay(10), ratelimit.FailLocal(memstore.New(), 0.5))
	local, shared := 0, 0
	for range 20 {
		store.fail(errLost)
		local += admitted(t, 2, l, "k")
		store.fail(nil)
		shared += admitted(t, 2, l, "k")
	}
	if local != 5 || shared != 10 {
		t.Errorf("%d calls pass locally and %d in the store, want 5 and 10", local, shared)
	}
}

func TestSeveralLimitsHoldLocallyToo(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, lostStore(), ratelimit.PerDay(20), ratelimit.WithLimit(ratelimit.PerHour(8)), ratelimit.FailLocal(memstore.New(), 0.5))
	var res ratelimit.Result
	passed := 0
	for range 10 {
		if res = allow(t, l, "k"); res.Allowed {
			passed++
		}
	}
	if passed != 4 || res.Limit != ratelimit.PerHour(8).WithBurst(8) || len(res.Limits) != 2 || res.Limits[0].Remaining != 6 || res.Limits[1].Remaining != 0 {
		t.Errorf("%d calls pass, want 4; then %+v", passed, res)
	}
}

func TestWhenTheLocalStoreFailsTooTheCallIsUnavailable(t *testing.T) {
	t.Parallel()
	errLocal := errors.New("so is the other")
	local := newFlakyStore()
	local.fail(errLocal)
	l := newLimiter(t, lostStore(), ratelimit.PerDay(2), ratelimit.FailLocal(local, 1))
	res, err := l.Allow(context.Background(), "k")
	for _, want := range []error{ratelimit.ErrUnavailable, errLost, errLocal} {
		if !errors.Is(err, want) {
			t.Errorf("error is %v, want it to wrap %v", err, want)
		}
	}
	if res.Allowed || res.Source != ratelimit.SourcePolicy || !errors.Is(res.Cause, errLost) {
		t.Errorf("%+v", res)
	}
}

func TestACtxThatEndsInTheLocalStoreIsTheCallersError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	local, seen := blocking{memstore.New(), make(chan struct{})}, &observed{}
	l := newLimiter(t, lostStore(), ratelimit.PerDay(2), ratelimit.FailLocal(local, 1), ratelimit.WithObserver(seen))
	go func() {
		<-local.asked
		cancel()
	}()
	if res, err := l.Allow(ctx, "k"); !errors.Is(err, context.Canceled) || errors.Is(err, ratelimit.ErrUnavailable) || res.Source != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	if len(seen.decisions) > 0 {
		t.Errorf("observed %+v", seen.decisions)
	}
}

func TestAResultIsGivenBackToTheStoreThatChargedIt(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := newFlakyStore()
	limiter, err := ratelimit.New(store, "api", ratelimit.PerHour(2), ratelimit.FailLocal(memstore.New(), 0.5), ratelimit.WithLogger(quiet))
	if err != nil {
		t.Fatal(err)
	}
	// The store has room for two calls and the local one for one, so each would
	// run out if anything went back to the other.
	for range 5 {
		for source, fault := range map[ratelimit.Source]error{ratelimit.SourceStore: nil, ratelimit.SourceLocal: errLost} {
			store.fail(fault)
			res, err := limiter.Allow(ctx, "k")
			if err != nil || !res.Allowed || res.Source != source {
				t.Fatalf("Allow: %+v, %v; want allowed by %v", res, err, source)
			}
			if err := limiter.RefundResult(ctx, res); err != nil {
				t.Fatal(err)
			}
		}
	}
	store.fail(nil)
	if res, err := limiter.Peek(ctx, "k"); err != nil || res.Remaining != 2 {
		t.Errorf("%d tokens remain (%v), want all 2", res.Remaining, err)
	}
}
