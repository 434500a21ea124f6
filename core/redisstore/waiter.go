package redisstore

import (
	"context"
	"sync"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// waiter is one caller who waits for the answer to a call.
type waiter struct {
	call  *call
	place int64         // among the call's waiters, from 0
	ready chan struct{} // receives once, when the call has its answer
	timer *time.Timer
}

// waiters saves making a channel and a timer for each decision.
var waiters = sync.Pool{New: func() any {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &waiter{ready: make(chan struct{}, 1), timer: timer}
}}

// release makes w fit for another caller. Only a waiter whose call has let go
// of it may be released.
func (w *waiter) release() {
	w.call = nil
	waiters.Put(w)
}

// await returns nil when w's call has its answer, and an error as soon as ctx
// or the budget ends. The answer may then still come.
func (w *waiter) await(ctx context.Context, budget time.Duration) error {
	w.timer.Reset(budget)
	defer w.timer.Stop()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.timer.C:
		return &budgetError{budget}
	}
}

// allowed reports whether w is among those who were granted.
func (w *waiter) allowed() bool { return w.place < w.call.granted }

// settle sets the deficits that w's caller has left behind. Grants go out in
// the order of arrival, each on top of the ones before.
func (w *waiter) settle(buckets []ratelimit.Bucket) {
	charges := min(w.place+1, w.call.granted)
	if w.call.op == peek {
		charges = 0
	}
	for i := range buckets {
		buckets[i].Deficit = w.call.found[i] + charges*buckets[i].Charge
	}
}
