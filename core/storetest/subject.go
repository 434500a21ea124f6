package storetest

import (
	"context"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// subject is a harness in the course of a check. Its methods fail the check on
// errors that the store has no reason to return.
type subject struct {
	TB
	Harness
}

// limiter is a limiter on the store that hides no error of it.
func (s subject) limiter(name string, limit ratelimit.Limit, opts ...ratelimit.Option) *ratelimit.Limiter {
	s.Helper()
	l, err := ratelimit.New(s.Store, name, limit, append(opts, ratelimit.FailClosed())...)
	if err != nil {
		s.Fatalf("New: %v", err)
	}
	return l
}

func (s subject) with(l *ratelimit.Limiter, limit ratelimit.Limit) *ratelimit.Limiter {
	s.Helper()
	l, err := l.With(limit)
	if err != nil {
		s.Fatalf("With: %v", err)
	}
	return l
}

func (s subject) allow(l *ratelimit.Limiter, key string) ratelimit.Result {
	s.Helper()
	return s.allowN(l, key, 1)
}

func (s subject) allowN(l *ratelimit.Limiter, key string, cost int) ratelimit.Result {
	s.Helper()
	res, err := l.AllowN(context.Background(), key, cost)
	if err != nil {
		s.Fatalf("AllowN(%.40q, %d): %v", key, cost, err)
	}
	return res
}

// admitsExactly checks that n calls pass, and that one more does not. It
// returns the denial.
func (s subject) admitsExactly(n int, l *ratelimit.Limiter, key string) ratelimit.Result {
	s.Helper()
	for i := range n {
		if res := s.allow(l, key); !res.Allowed {
			s.Fatalf("%s, key %.40q: call %d of %d is denied: %+v", l.Name(), key, i+1, n, res)
		}
	}
	res := s.allow(l, key)
	if res.Allowed {
		s.Fatalf("%s, key %.40q: call %d is allowed, want %d to pass: %+v", l.Name(), key, n+1, n, res)
	}
	return res
}

// drain spends what key has, in calls of cost, and returns the denial.
func (s subject) drain(l *ratelimit.Limiter, key string, cost int) ratelimit.Result {
	s.Helper()
	for range 10_000 { // far above any burst here
		if res := s.allowN(l, key, cost); !res.Allowed {
			return res
		}
	}
	s.Fatalf("%s, key %.40q: no end of calls is allowed", l.Name(), key)
	return ratelimit.Result{}
}

func (s subject) take(buckets ...ratelimit.Bucket) bool {
	s.Helper()
	decision, err := s.Store.Take(context.Background(), buckets)
	if err != nil {
		s.Fatalf("Take: %v", err)
	}
	return decision.Allowed
}

func (s subject) peek(buckets ...ratelimit.Bucket) bool {
	s.Helper()
	decision, err := s.Store.Peek(context.Background(), buckets)
	if err != nil {
		s.Fatalf("Peek: %v", err)
	}
	return decision.Allowed
}

func (s subject) refund(buckets ...ratelimit.Bucket) {
	s.Helper()
	if err := s.Store.Refund(context.Background(), buckets); err != nil {
		s.Fatalf("Refund: %v", err)
	}
}

func (s subject) reset(buckets ...ratelimit.Bucket) {
	s.Helper()
	if err := s.Store.Reset(context.Background(), buckets); err != nil {
		s.Fatalf("Reset: %v", err)
	}
}

// deficit is how far a bucket is from full now.
func (s subject) deficit(b ratelimit.Bucket) time.Duration {
	s.Helper()
	buckets := []ratelimit.Bucket{b}
	s.peek(buckets...)
	return micros(buckets[0].Deficit)
}

// holds checks a bucket's deficit: to the microsecond if the clock stands
// still, else that it is at most so much less as the bucket may have refilled
// during the check, for which an hour is granted.
func (s subject) holds(b ratelimit.Bucket, want time.Duration) {
	s.Helper()
	slack := time.Hour
	if s.Advance != nil {
		slack = 0
	}
	if got := s.deficit(b); got > want || got < max(want-slack, 0) {
		s.Fatalf("bucket %s/%.40q of capacity %v: deficit is %v, want %v", b.Name, b.Key, micros(b.Capacity), got, want)
	}
}

// needsClock skips checks that depend on a clock that stands still.
func (s subject) needsClock() {
	s.Helper()
	if s.Advance == nil {
		s.Skipf("not applicable: the harness cannot set the store's clock")
	}
}

// wait lets d pass.
func (s subject) wait(d time.Duration) {
	if s.Advance == nil {
		time.Sleep(d)
		return
	}
	s.Advance(d)
}

// writesNothing checks that f changes nothing in the store, if that is known.
func (s subject) writesNothing(what string, f func()) {
	s.Helper()
	dump := s.Dump
	if dump == nil {
		dump = func() string { return "" }
	}
	before := dump()
	f()
	if after := dump(); after != before {
		s.Fatalf("%s: the store held\n%s\nand now holds\n%s", what, before, after)
	}
}

// stores are the store and its peers.
func (s subject) stores() []ratelimit.Store {
	return append([]ratelimit.Store{s.Store}, s.Peers...)
}

// day is a bucket that holds tokens for a day, of which a call takes charge. It
// refills so slowly that a check need not mind.
func day(key string, charge time.Duration) ratelimit.Bucket {
	return bucketOf("api", key, 24*time.Hour, charge)
}

func bucketOf(name, key string, capacity, charge time.Duration) ratelimit.Bucket {
	return ratelimit.Bucket{Name: name, Key: key, Capacity: capacity.Microseconds(), Charge: charge.Microseconds()}
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
