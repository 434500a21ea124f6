package storetest

import (
	"context"
	"errors"
	"math"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

var burstChecks = []Check{
	{"an idle bucket admits exactly its burst", admitsItsBurst},
	{"a burst is whole where a token takes a fraction of a microsecond more", admitsAFractionalBurst},
	{"a call spends its cost or nothing", spendsItsCost},
	{"a denial costs nothing and extends no wait", denialsAreFree},
	{"arguments that cannot succeed leave the bucket untouched", invalidArguments},
	{"the smallest and the largest bucket work", extremes},
}

func admitsItsBurst(s subject) {
	s.Helper()
	for _, burst := range []int{1, 5, 300} {
		l := s.limiter("burst", ratelimit.PerDay(1).WithBurst(burst))
		for i := range burst {
			res := s.allow(l, "idle")
			if want := burst - i - 1; !res.Allowed || res.Remaining != want || res.RetryAfter != 0 {
				s.Fatalf("burst %d, call %d: %+v, want it allowed with %d remaining", burst, i+1, res, want)
			}
		}
		res := s.allow(l, "idle")
		if res.Allowed || res.Remaining != 0 || res.RetryAfter <= 0 || res.RetryAfter > 24*time.Hour {
			s.Fatalf("burst %d, one call more: %+v, want it denied for at most a day", burst, res)
		}
		if full := time.Duration(burst) * 24 * time.Hour; res.ResetAfter > full || res.ResetAfter <= full-time.Hour {
			s.Fatalf("burst %d, one call more: %+v, want it full in %v", burst, res, full)
		}
	}
}

func admitsAFractionalBurst(s subject) {
	s.Helper()
	s.admitsExactly(10, s.limiter("fraction", ratelimit.PerDay(7).WithBurst(10)), "k")
}

func spendsItsCost(s subject) {
	s.Helper()
	l := s.limiter("cost", ratelimit.PerDay(10))
	for _, step := range []struct {
		cost      int
		allowed   bool
		remaining int
	}{{3, true, 7}, {4, true, 3}, {4, false, 3}, {10, false, 3}, {2, true, 1}, {2, false, 1}, {1, true, 0}, {1, false, 0}} {
		res := s.allowN(l, "k", step.cost)
		if res.Allowed != step.allowed || res.Remaining != step.remaining || res.Cost != step.cost {
			s.Fatalf("cost %d: %+v, want allowed %v with %d remaining", step.cost, res, step.allowed, step.remaining)
		}
	}
}

func denialsAreFree(s subject) {
	s.Helper()
	l := s.limiter("denials", ratelimit.PerDay(2))
	s.admitsExactly(2, l, "k")
	s.deniedFor(12*time.Hour, l, "k")
	if s.Advance == nil {
		return
	}
	s.Advance(7 * time.Hour)
	s.deniedFor(5*time.Hour, l, "k")
	s.Advance(5 * time.Hour)
	s.admitsExactly(1, l, "k")
}

// deniedFor checks that calls are denied, and by no denial for longer than wait.
func (s subject) deniedFor(wait time.Duration, l *ratelimit.Limiter, key string) {
	s.Helper()
	s.writesNothing("denials", func() {
		for range 100 {
			if res := s.allow(l, key); res.Allowed || res.RetryAfter > wait {
				s.Fatalf("want a denial for at most %v: %+v", wait, res)
			}
		}
	})
}

func invalidArguments(s subject) {
	s.Helper()
	l := s.limiter("arguments", ratelimit.PerDay(300))
	s.writesNothing("invalid arguments", func() {
		for _, call := range []struct {
			key  string
			cost int
			want error
		}{
			{"k", 0, ratelimit.ErrInvalidCost},
			{"k", -1, ratelimit.ErrInvalidCost},
			{"k", math.MinInt, ratelimit.ErrInvalidCost},
			{"k", 301, ratelimit.ErrCostExceedsBurst},
			{"k", math.MaxInt, ratelimit.ErrCostExceedsBurst},
			{"", 1, ratelimit.ErrInvalidKey},
		} {
			res, err := l.AllowN(context.Background(), call.key, call.cost)
			if !errors.Is(err, call.want) || res.Allowed || res.RetryAfter != 0 {
				s.Fatalf("AllowN(%q, %d): %+v, %v, want %v", call.key, call.cost, res, err, call.want)
			}
		}
	})
	if res := s.allowN(l, "k", 300); !res.Allowed {
		s.Fatalf("the bucket is not full afterwards: %+v", res)
	}
}

func extremes(s subject) {
	s.Helper()
	const year = 365 * 24 * time.Hour
	for _, charge := range []time.Duration{year, year / 2} {
		b := bucketOf("year", charge.String(), year, charge)
		for range year / charge {
			if !s.take(b) {
				s.Fatalf("a call of %v is denied by a bucket of a year", charge)
			}
		}
		if s.take(b) {
			s.Fatalf("a call of %v is admitted by an empty bucket of a year", charge)
		}
		s.holds(b, year)
	}
	tiny := bucketOf("tiny", "k", time.Microsecond, time.Microsecond)
	if !s.take(tiny) {
		s.Fatalf("a bucket of a microsecond denies its first call")
	}
	s.wait(time.Microsecond)
	if !s.take(tiny) {
		s.Fatalf("a bucket of a microsecond denies a call after a microsecond")
	}
}
