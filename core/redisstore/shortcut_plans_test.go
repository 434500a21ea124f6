package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

// A cheaper call that is admitted after a denial leaves less than the denial told
// of.
func TestADenialFromMemoryKnowsOfCheaperCallsAdmittedSince(t *testing.T) {
	t.Parallel()
	limiter := newLimiter(t, newStore(t, clientOf(t, redistest.Start(t).Addr())), ratelimit.Per(1, time.Hour).WithBurst(10))
	take := func(cost int) ratelimit.Result {
		res, err := limiter.AllowN(t.Context(), "k", cost)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for _, call := range []struct {
		cost    int
		allowed bool
	}{{5, true}, {8, false}, {2, true}} {
		if res := take(call.cost); res.Allowed != call.allowed {
			t.Fatalf("a call of cost %d is allowed: %t, want %t", call.cost, res.Allowed, call.allowed)
		}
	}
	// 3 tokens are left, and 5 missing.
	if res := take(8); res.Allowed || res.Remaining != 3 || res.RetryAfter < 4*time.Hour || res.RetryAfter > 5*time.Hour {
		t.Errorf("the %v says allowed: %t, %d tokens left, retry after %v; want denied, 3 and 5 h", res.Source, res.Allowed, res.Remaining, res.RetryAfter)
	}
}

// Capacities that lie in the same millisecond are of the same bucket: those of
// these two limits are 1,000,002 and 1,000,998 microseconds.
func TestADenialHasAWaitWhenAnotherPlanOnTheSameBucketWasDenied(t *testing.T) {
	t.Parallel()
	few := newLimiter(t, newStore(t, clientOf(t, redistest.Start(t).Addr())), ratelimit.PerSecond(3))
	many, err := few.With(ratelimit.PerSecond(999))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		key := fmt.Sprint(i)
		if _, err := few.AllowN(t.Context(), key, 3); err != nil {
			t.Fatal(err)
		}
		for res := allow(t, many, key); !res.Allowed; res = allow(t, many, key) {
			if res.RetryAfter <= 0 {
				t.Fatalf("denied by the %v with a RetryAfter of %v", res.Source, res.RetryAfter)
			}
		}
	}
}

func TestADenialFromMemoryExceedsNoPlansCapacity(t *testing.T) {
	t.Parallel()
	few := newLimiter(t, newStore(t, clientOf(t, redistest.Start(t).Addr())), ratelimit.PerSecond(3))
	many, err := few.With(ratelimit.PerSecond(999)) // has the larger capacity
	if err != nil {
		t.Fatal(err)
	}
	const capacity = 1_000_002 * time.Microsecond
	for i := range 300 {
		key := fmt.Sprint(i)
		if _, err := many.AllowN(t.Context(), key, 999); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if res := allow(t, few, key); res.ResetAfter > capacity {
				t.Fatalf("the %v says that a bucket of %v is full in %v", res.Source, capacity, res.ResetAfter)
			}
		}
	}
}
