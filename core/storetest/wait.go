package storetest

import (
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

var waitChecks = []Check{
	{"who waits exactly RetryAfter is admitted", retryAfterAdmits},
	{"who waits a microsecond less is denied", retryAfterIsTight},
	{"tokens come back one by one", refillsSteadily},
	{"polling does not slow the refill", pollingIsHarmless},
	{"idle time fills a bucket to its burst and no further", idleFills},
	{"ResetAfter is the time to full", resetAfterIsExact},
}

func retryAfterAdmits(s subject) {
	s.Helper()
	l := s.limiter("wait", ratelimit.Per(1, 20*time.Millisecond).WithBurst(5))
	for round := range 2 {
		for cost := 1; cost <= 5; cost++ {
			res := s.drain(l, "k", cost)
			s.wait(res.RetryAfter)
			if res := s.allowN(l, "k", cost); !res.Allowed {
				s.Fatalf("round %d, cost %d: denied after RetryAfter: %+v", round, cost, res)
			}
		}
	}
}

func retryAfterIsTight(s subject) {
	s.Helper()
	s.needsClock()
	for _, limit := range []ratelimit.Limit{
		ratelimit.PerSecond(1).WithBurst(1),
		ratelimit.PerSecond(3).WithBurst(10),
		ratelimit.PerSecond(7919).WithBurst(40),
		ratelimit.PerDay(7).WithBurst(7),
	} {
		l := s.limiter("tight", limit)
		for cost := 1; cost <= limit.Burst; cost += 3 {
			res := s.drain(l, "k", cost)
			s.Advance(res.RetryAfter - time.Microsecond)
			if last := s.allowN(l, "k", cost); last.Allowed || last.RetryAfter != time.Microsecond {
				s.Fatalf("%v, cost %d: a microsecond before RetryAfter: %+v", limit, cost, last)
			}
			s.Advance(time.Microsecond)
			if last := s.allowN(l, "k", cost); !last.Allowed {
				s.Fatalf("%v, cost %d: at RetryAfter: %+v", limit, cost, last)
			}
		}
	}
}

func refillsSteadily(s subject) {
	s.Helper()
	s.needsClock()
	l := s.limiter("steady", ratelimit.PerSecond(10).WithBurst(20))
	s.admitsExactly(20, l, "k")
	s.Advance(50 * time.Millisecond) // half a token does not pass
	s.admitsExactly(0, l, "k")
	s.Advance(50 * time.Millisecond)
	s.admitsExactly(1, l, "k")
	for range 30 {
		s.Advance(100 * time.Millisecond)
		s.admitsExactly(1, l, "k")
	}
	s.Advance(250 * time.Millisecond)
	s.admitsExactly(2, l, "k")
	s.Advance(50 * time.Millisecond) // the half that was left over counts
	s.admitsExactly(1, l, "k")
}

func pollingIsHarmless(s subject) {
	s.Helper()
	s.needsClock()
	l := s.limiter("poll", ratelimit.Per(1, 10*time.Second))
	s.admitsExactly(1, l, "k")
	for second := 1; second <= 100; second++ {
		s.Advance(time.Second)
		if res := s.allow(l, "k"); res.Allowed != (second%10 == 0) {
			s.Fatalf("second %d: %+v", second, res)
		}
	}
}

func idleFills(s subject) {
	s.Helper()
	s.needsClock()
	l := s.limiter("idle", ratelimit.PerSecond(5).WithBurst(8))
	for range 3 {
		s.admitsExactly(8, l, "k")
		s.Advance(time.Hour)
	}
}

func resetAfterIsExact(s subject) {
	s.Helper()
	s.needsClock()
	l := s.limiter("full", ratelimit.PerSecond(3).WithBurst(10))
	var res ratelimit.Result
	for range 4 {
		res = s.allow(l, "k")
	}
	if want := 4 * 333334 * time.Microsecond; res.ResetAfter != want {
		s.Fatalf("after 4 calls: %+v, want it full in %v", res, want)
	}
	s.Advance(res.ResetAfter)
	s.admitsExactly(10, l, "k")
}
