package storetest

import (
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

const twoDays = 48 * time.Hour

var clockChecks = []Check{
	{"a clock set back gives no tokens and locks nobody out", clockSetBack},
	{"a clock set back is healed in every bucket of a list", clockSetBackInAList},
	{"a step back that is undone changes nothing", clockStepUndone},
}

func clockSetBack(s subject) {
	s.Helper()
	s.needsClock()
	l := s.limiter("clock", ratelimit.PerSecond(10).WithBurst(20))
	for range 15 {
		s.allow(l, "k")
	}
	s.Advance(-twoDays)
	if res := s.allow(l, "k"); res.Allowed || res.RetryAfter > 100*time.Millisecond || res.ResetAfter > 2*time.Second {
		s.Fatalf("at once: %+v, want a denial as by an empty bucket", res)
	}
	s.Advance(100 * time.Millisecond) // the denial has healed the bucket: it refills
	s.admitsExactly(1, l, "k")
	s.Advance(2 * time.Second)
	s.admitsExactly(20, l, "k")
	s.Advance(twoDays)
	s.admitsExactly(20, l, "k")
}

func clockSetBackInAList(s subject) {
	s.Helper()
	s.needsClock()
	first := bucketOf("clock", "k", time.Minute, time.Second)
	second := bucketOf("clock", "k", time.Hour, time.Minute)
	if !s.take(first, second) {
		s.Fatalf("the first call is denied")
	}
	s.Advance(-twoDays)
	if s.take(first, second) {
		s.Fatalf("a call is admitted right after the step back")
	}
	s.Advance(time.Minute)
	s.holds(first, 0)
	s.holds(second, 59*time.Minute)
	if !s.take(first, second) {
		s.Fatalf("a call is denied after a minute")
	}
}

func clockStepUndone(s subject) {
	s.Helper()
	s.needsClock()
	l := s.limiter("undone", ratelimit.PerSecond(10).WithBurst(20))
	s.admitsExactly(20, l, "k")
	s.Advance(-500 * time.Millisecond)
	s.writesNothing("a denial after a step of half a second", func() {
		s.admitsExactly(0, l, "k")
	})
	s.Advance(500 * time.Millisecond)
	s.admitsExactly(0, l, "k")
	s.Advance(100 * time.Millisecond)
	s.admitsExactly(1, l, "k")

	s.Advance(-twoDays)
	s.writesNothing("a look at the bucket after a step of two days", func() {
		if got := s.deficit(bucketOf("undone", "k", 2*time.Second, 100*time.Millisecond)); got != 2*time.Second {
			s.Fatalf("after a step of two days the deficit is %v, want the capacity, 2s", got)
		}
	})
	s.Advance(twoDays + 200*time.Millisecond)
	s.admitsExactly(2, l, "k")
}
