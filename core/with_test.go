package ratelimit_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

func with(t *testing.T, l *ratelimit.Limiter, limit ratelimit.Limit, further ...ratelimit.Limit) *ratelimit.Limiter {
	t.Helper()
	l, err := l.With(limit, further...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestWithKeepsAllButTheLimits(t *testing.T) {
	t.Parallel()
	store, seen := newFlakyStore(), &observed{}
	base := newLimiter(t, store, ratelimit.PerDay(2), ratelimit.WithLimit(ratelimit.PerHour(1)), ratelimit.FailClosed(), ratelimit.WithObserver(seen))
	plan := with(t, base, ratelimit.PerDay(5).WithBurst(4))
	if plan.Name() != base.Name() {
		t.Errorf("name is %q", plan.Name())
	}
	if n := admitted(t, 10, plan, "k"); n != 4 {
		t.Errorf("%d calls pass, want 4: neither of the old limits holds", n)
	}
	if n := admitted(t, 10, base, "k"); n != 1 {
		t.Errorf("%d calls pass the limiter that With was called on, want 1", n)
	}
	if len(seen.decisions) != 20 {
		t.Errorf("%d decisions are observed, want 20", len(seen.decisions))
	}
	store.fail(errLost)
	if _, err := plan.Allow(t.Context(), "k"); !errors.Is(err, ratelimit.ErrUnavailable) {
		t.Errorf("it does not fail closed: %v", err)
	}
}

func TestACallerWhosePlanChangesKeepsWhatWasSpent(t *testing.T) {
	t.Parallel()
	free := newLimiter(t, memstore.New(), ratelimit.PerDay(10))
	paid := with(t, free, ratelimit.PerDay(100))
	allowN(t, free, "k", 10)
	if res, err := paid.Peek(t.Context(), "k"); err != nil || res.Allowed {
		t.Errorf("a plan of the same time to full starts full: %+v, %v", res, err)
	}
	burst := with(t, free, ratelimit.PerDay(10).WithBurst(20))
	if res, err := burst.Peek(t.Context(), "k"); err != nil || res.Remaining != 20 {
		t.Errorf("a plan of another time to full does not start full: %+v, %v", res, err)
	}
}

func TestLimitsOfWhichOneNeverDecidesAreRefused(t *testing.T) {
	t.Parallel()
	_, err := ratelimit.New(memstore.New(), "api", ratelimit.PerSecond(10), ratelimit.WithLimit(ratelimit.PerHour(5)), ratelimit.WithLimit(ratelimit.PerSecond(20)))
	if err == nil || !strings.HasPrefix(err.Error(), `ratelimit: limits "10/s burst 10" and "20/s burst 20" fill in the same time`) {
		t.Errorf("error is %v", err)
	}
	base := newLimiter(t, memstore.New(), ratelimit.PerSecond(1))
	if _, err := base.With(ratelimit.PerSecond(10), ratelimit.PerSecond(10)); err == nil {
		t.Error("With accepts a limit twice")
	}
	// Stores tell capacities apart by whole milliseconds.
	if _, err := base.With(ratelimit.Per(1, 10001*time.Microsecond), ratelimit.Per(1, 10999*time.Microsecond)); err == nil {
		t.Error("With accepts limits whose times to full are one to a store")
	}
}

func TestSeveralLimitsAdmitOrChargeNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		second, hour := ratelimit.PerSecond(10).WithBurst(10), ratelimit.PerHour(36).WithBurst(15)
		l := newLimiter(t, memstore.New(), second, ratelimit.WithLimit(hour))

		res := allowN(t, l, "k", 10)
		want := []ratelimit.LimitResult{
			{Limit: second, Remaining: 0, ResetAfter: time.Second},
			{Limit: hour, Remaining: 5, ResetAfter: 1000 * time.Second},
		}
		if !res.Allowed || !slices.Equal(res.Limits, want) || tightest(res) != want[0] {
			t.Errorf("%+v\nwant %+v, and the first as the tightest", res, want)
		}

		res = allow(t, l, "k")
		want[0].RetryAfter = 100 * time.Millisecond
		if res.Allowed || !slices.Equal(res.Limits, want) || tightest(res) != want[0] {
			t.Errorf("denied by the first: %+v\nwant %+v", res, want)
		}

		time.Sleep(time.Second)
		res = allowN(t, l, "k", 6)
		want = []ratelimit.LimitResult{
			{Limit: second, Remaining: 10},
			{Limit: hour, Remaining: 5, RetryAfter: 99 * time.Second, ResetAfter: 999 * time.Second},
		}
		if res.Allowed || !slices.Equal(res.Limits, want) || tightest(res) != want[1] {
			t.Errorf("denied by the second, and nothing charged to the first: %+v\nwant %+v", res, want)
		}

		res = allowN(t, l, "k", 5)
		if !res.Allowed || tightest(res) != res.Limits[1] || res.Remaining != 0 || res.Limits[0].Remaining != 5 {
			t.Errorf("allowed, with fewer left of the second: %+v", res)
		}
	})
}

// tightest is what the flat fields of a result say.
func tightest(res ratelimit.Result) ratelimit.LimitResult {
	return ratelimit.LimitResult{Limit: res.Limit, Remaining: res.Remaining, RetryAfter: res.RetryAfter, ResetAfter: res.ResetAfter}
}

func TestOfTwoLimitsThatDenyTheLongerWaitCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, memstore.New(), ratelimit.PerMinute(3), ratelimit.WithLimit(ratelimit.PerHour(3)))
		allowN(t, l, "k", 3)
		res := allow(t, l, "k")
		if res.RetryAfter != 20*time.Minute || res.Limit.Period != time.Hour || res.Limits[0].RetryAfter != 20*time.Second {
			t.Errorf("%+v", res)
		}
		time.Sleep(res.RetryAfter)
		if !allow(t, l, "k").Allowed {
			t.Error("denied after RetryAfter")
		}
	})
}

func TestSeveralLimitsArePeekedRefundedAndResetTogether(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, memstore.New(), ratelimit.PerDay(5), ratelimit.WithLimit(ratelimit.PerHour(10)))
	remaining := func() [2]int {
		res, err := l.Peek(t.Context(), "k")
		if err != nil || len(res.Limits) != 2 {
			t.Fatalf("%+v, %v", res, err)
		}
		return [2]int{res.Limits[0].Remaining, res.Limits[1].Remaining}
	}
	allowN(t, l, "k", 4)
	if got := remaining(); got != [2]int{1, 6} {
		t.Errorf("after a call of 4: %v", got)
	}
	if err := l.Refund(t.Context(), "k", 2); err != nil || remaining() != [2]int{3, 8} {
		t.Errorf("after a refund of 2: %v, %v", remaining(), err)
	}
	if err := l.Reset(t.Context(), "k"); err != nil || remaining() != [2]int{5, 10} {
		t.Errorf("after a reset: %v, %v", remaining(), err)
	}
}

func TestWithIsCheapEnoughForEachRequest(t *testing.T) {
	base := newLimiter(t, memstore.New(), ratelimit.PerSecond(10))
	allocs := testing.AllocsPerRun(100, func() { _, _ = base.With(ratelimit.PerSecond(20)) })
	if allocs > 4 {
		t.Errorf("With allocates %v times", allocs)
	}
}
