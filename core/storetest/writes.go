package storetest

import (
	"context"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

var writeChecks = []Check{
	{"a look decides as a call would and writes nothing", peekWritesNothing},
	{"a refund gives back what it says", refundGivesBack},
	{"a refund never makes a bucket more than full", refundIsBounded},
	{"a refund or reset is seen by the next call", refundIsSeenAtOnce},
	{"a reset makes a bucket full, and no other", resetFills},
	{"a store that can decide says so", pings},
}

func peekWritesNothing(s subject) {
	s.Helper()
	b := day("k", 8*time.Hour)
	for taken := range 3 {
		s.writesNothing("Peek", func() {
			for range 10 {
				if !s.peek(b) {
					s.Fatalf("after %d of 3 calls, Peek denies", taken)
				}
			}
		})
		s.holds(b, time.Duration(taken)*8*time.Hour)
		if !s.take(b) {
			s.Fatalf("Take denies what Peek admitted")
		}
	}
	s.writesNothing("Peek", func() {
		if s.peek(b) {
			s.Fatalf("Peek admits a call that does not fit")
		}
	})
}

func refundGivesBack(s subject) {
	s.Helper()
	b, half := day("k", 8*time.Hour), day("k", 4*time.Hour)
	s.take(b)
	s.take(b)
	s.refund(half)
	s.holds(b, 12*time.Hour)
	s.refund(b)
	s.holds(b, 4*time.Hour)

	list := s.list()
	s.take(list...)
	s.take(list...)
	s.refund(list...)
	for _, b := range list {
		s.holds(b, micros(b.Charge))
	}
}

func refundIsBounded(s subject) {
	s.Helper()
	l := s.limiter("refund", ratelimit.PerDay(5))
	refund := func(cost int) {
		s.Helper()
		if err := l.Refund(context.Background(), "k", cost); err != nil {
			s.Fatalf("Refund: %v", err)
		}
	}
	refund(5) // of a bucket never used
	s.admitsExactly(5, l, "k")
	refund(3)
	s.admitsExactly(3, l, "k")
	for range 20 {
		refund(4)
	}
	s.admitsExactly(5, l, "k")
	refund(1_000_000)
	s.admitsExactly(5, l, "k")
}

func refundIsSeenAtOnce(s subject) {
	s.Helper()
	l := s.limiter("seen", ratelimit.PerDay(5))
	for range 3 {
		s.drain(l, "k", 1)
		if err := l.Refund(context.Background(), "k", 2); err != nil {
			s.Fatalf("Refund: %v", err)
		}
		s.admitsExactly(2, l, "k")
		if err := l.Reset(context.Background(), "k"); err != nil {
			s.Fatalf("Reset: %v", err)
		}
		s.admitsExactly(5, l, "k")
	}
}

func resetFills(s subject) {
	s.Helper()
	same, otherKey := day("k", 24*time.Hour), day("other", 24*time.Hour)
	otherName := bucketOf("other", "k", 24*time.Hour, 24*time.Hour)
	otherCapacity := bucketOf("api", "k", 48*time.Hour, 48*time.Hour)
	for _, b := range []ratelimit.Bucket{same, otherKey, otherName, otherCapacity} {
		s.take(b)
	}
	s.reset(same)
	s.reset(day("unknown", time.Hour))
	s.holds(otherKey, 24*time.Hour)
	s.holds(otherName, 24*time.Hour)
	s.holds(otherCapacity, 48*time.Hour)
	if !s.take(same) || s.take(same) {
		s.Fatalf("after a reset the bucket is not exactly full")
	}
	list := s.list()
	s.take(list...)
	s.reset(list...)
	for _, b := range list {
		if got := s.deficit(b); got != 0 {
			s.Fatalf("after a reset of a list the bucket of %v lacks %v", micros(b.Capacity), got)
		}
	}
}

func pings(s subject) {
	s.Helper()
	s.writesNothing("Ping", func() {
		if err := s.Store.Ping(context.Background()); err != nil {
			s.Fatalf("Ping: %v", err)
		}
	})
}
