package storetest

import (
	"slices"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

var listChecks = []Check{
	{"a list is charged as a whole", listsAreCharged},
	{"a list is denied as a whole", listsAreDenied},
	{"a list may be used again at once", listsAreReleased},
	{"limits that must hold at the same time all hold", limitsHoldTogether},
}

// list is three buckets: of one key, or of several where the store takes that.
func (s subject) list() []ratelimit.Bucket {
	list := []ratelimit.Bucket{
		bucketOf("list", "k", 100*time.Hour, 10*time.Hour),
		bucketOf("list", "k", 200*time.Hour, 30*time.Hour),
		bucketOf("list", "k", 300*time.Hour, 20*time.Hour),
	}
	if !s.OneKey {
		list[1].Name, list[2].Key = "other", "other"
	}
	return list
}

func listsAreCharged(s subject) {
	s.Helper()
	list := s.list()
	if !s.peek(list...) || !s.take(list...) || !s.take(list...) {
		s.Fatalf("a call is denied by full buckets")
	}
	for i, b := range list {
		want := 2 * micros(b.Charge)
		if got := micros(b.Deficit); got > want || got < want-time.Hour {
			s.Fatalf("bucket %d: Take reports a deficit of %v, want %v", i, got, want)
		}
		s.holds(b, want)
	}
}

func listsAreDenied(s subject) {
	s.Helper()
	for empty := range s.list() {
		list := s.list()
		s.reset(list...)
		for range 3 { // 30, 90 and 60 hours
			s.take(list...)
		}
		list[empty].Charge = list[empty].Capacity // does not fit any more
		orders := [][]ratelimit.Bucket{slices.Clone(list), slices.Clone(list)}
		slices.Reverse(orders[1])
		for _, order := range orders {
			s.writesNothing("a denied list", func() {
				if s.peek(order...) || s.take(order...) {
					s.Fatalf("a call is admitted though bucket %d has no room", empty)
				}
			})
			for _, b := range order {
				if got := micros(b.Deficit); got > 90*time.Hour || got < 29*time.Hour {
					s.Fatalf("denied, capacity %v: Take reports a deficit of %v", micros(b.Capacity), got)
				}
			}
		}
		for i, want := range []time.Duration{30 * time.Hour, 90 * time.Hour, 60 * time.Hour} {
			s.holds(list[i], want)
		}
	}
}

func listsAreReleased(s subject) {
	s.Helper()
	list := []ratelimit.Bucket{day("", 24*time.Hour)}
	for _, key := range []string{"a", "b", "c"} {
		list[0].Key = key
		if !s.take(list...) {
			s.Fatalf("key %q is denied its first call", key)
		}
	}
	for _, key := range []string{"a", "b", "c"} {
		s.holds(day(key, time.Hour), 24*time.Hour)
	}
}

func limitsHoldTogether(s subject) {
	s.Helper()
	l := s.limiter("both", ratelimit.PerHour(1).WithBurst(3), ratelimit.WithLimit(ratelimit.PerDay(5)))
	res := s.admitsExactly(3, l, "k")
	if res.Limit.Burst != 3 || len(res.Limits) != 2 || res.Limits[1].Remaining != 2 {
		s.Fatalf("denied by the hourly limit: %+v", res)
	}
	if s.Advance == nil {
		return
	}
	s.Advance(3 * time.Hour)
	// Three hours have brought 3 tokens of the one, and a fraction of the other.
	if res = s.admitsExactly(2, l, "k"); res.Limit.Burst != 5 || res.Limits[0].Remaining != 1 {
		s.Fatalf("denied by the daily limit: %+v", res)
	}
}
