package storetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

var concurrencyChecks = []Check{
	{"callers at the same time share exactly one burst", burstIsShared},
	{"lists in any order at the same time are each all or none", listsInAnyOrder},
	{"refunds among calls lose and win nothing", refundsAmongCalls},
}

const callers = 32

// together runs f for each caller at the same time, and fails the check with
// the first error.
func (s subject) together(f func(caller int) error) {
	s.Helper()
	start := make(chan struct{})
	errs := make(chan error, callers)
	for caller := range callers {
		go func() {
			<-start
			errs <- f(caller)
		}()
	}
	close(start)
	var first error
	for range callers {
		if err := <-errs; first == nil {
			first = err
		}
	}
	if first != nil {
		s.Fatalf("%v", first)
	}
}

// burstIsShared also checks that every admitted caller was told another number
// of remaining tokens: the calls have one order.
func burstIsShared(s subject) {
	s.Helper()
	const burst = 200
	var limiters []*ratelimit.Limiter
	for _, store := range s.stores() {
		peer := s
		peer.Store = store
		limiters = append(limiters, peer.limiter("shared", ratelimit.PerDay(1).WithBurst(burst)))
	}
	keys := []string{"a", "b", "c"}
	var mu sync.Mutex
	told := make(map[string]int)
	s.together(func(caller int) error {
		for i := range 3 * burst / callers * len(keys) {
			key := keys[i%len(keys)]
			res, err := limiters[(caller+i)%len(limiters)].Allow(context.Background(), key)
			if err != nil {
				return fmt.Errorf("calling Allow: %w", err)
			}
			if res.Allowed {
				mu.Lock()
				told[fmt.Sprint(key, res.Remaining)]++
				mu.Unlock()
			}
		}
		return nil
	})
	for _, key := range keys {
		for remaining := range burst {
			if n := told[fmt.Sprint(key, remaining)]; n != 1 {
				s.Fatalf("key %s: %d callers are told that %d tokens remain, want 1", key, n, remaining)
			}
		}
	}
	if len(told) != burst*len(keys) {
		s.Fatalf("%d calls are admitted, want %d", len(told), burst*len(keys))
	}
}

func listsInAnyOrder(s subject) {
	s.Helper()
	a, b, c := s.list()[0], s.list()[1], s.list()[2]
	for _, bucket := range []*ratelimit.Bucket{&a, &b, &c} {
		bucket.Capacity *= 10
	}
	lists := [][]ratelimit.Bucket{{a, b}, {b, a}, {b, c}, {c, a}, {a, b, c}, {c, b, a}, {c}}
	var mu sync.Mutex
	charged := make(map[int64]int64) // by capacity, which tells them apart
	s.together(func(caller int) error {
		for i := range 60 {
			list := append([]ratelimit.Bucket(nil), lists[(caller+i)%len(lists)]...)
			decision, err := s.Store.Take(context.Background(), list)
			if err != nil {
				return fmt.Errorf("calling Take: %w", err)
			}
			if decision.Allowed {
				mu.Lock()
				for _, bucket := range list {
					charged[bucket.Capacity] += bucket.Charge
				}
				mu.Unlock()
			}
		}
		return nil
	})
	for _, bucket := range []ratelimit.Bucket{a, b, c} {
		s.holds(bucket, micros(charged[bucket.Capacity]))
	}
	for _, list := range lists {
		if s.peek(list...) {
			s.Fatalf("calls were denied that would have fitted: %v", list)
		}
	}
}

func refundsAmongCalls(s subject) {
	s.Helper()
	b := bucketOf("refunds", "k", 1000*time.Hour, 10*time.Hour)
	var mu sync.Mutex
	kept := 0
	s.together(func(caller int) error {
		for i := range 40 {
			list := []ratelimit.Bucket{b}
			decision, err := s.Store.Take(context.Background(), list)
			if err == nil && decision.Allowed && (caller+i)%8 != 0 {
				err = s.Store.Refund(context.Background(), list)
				decision.Allowed = false
			}
			if err != nil {
				return err
			}
			if decision.Allowed {
				mu.Lock()
				kept++
				mu.Unlock()
			}
		}
		return nil
	})
	s.holds(b, time.Duration(kept)*10*time.Hour)
}
