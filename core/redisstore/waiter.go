package redisstore

import (
	"context"
	"sync"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// waiter is one caller who waits for the answer to a call.
type waiter struct {
	call *call

	// ready receives once, after the other fields are set.
	ready chan struct{}
	err   error // the call has no answer
	place int64 // among the call's waiters, from 0
}

// waiters saves making a channel for each decision.
var waiters = sync.Pool{New: func() any { return &waiter{ready: make(chan struct{}, 1)} }}

// release makes w fit for another caller. Only a waiter whose call has let go
// of it may be released.
func (w *waiter) release() {
	w.call, w.err = nil, nil
	waiters.Put(w)
}

// await waits until w is ready, or ctx ends. Its lane sees to it that w is ready
// before the budget has passed.
func (w *waiter) await(ctx context.Context) error {
	if ctx.Done() == nil { // half the price of a select
		<-w.ready
		return w.err
	}
	select {
	case <-w.ready:
		return w.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// allowed reports whether w is among those who were granted.
func (w *waiter) allowed() bool { return w.place < w.call.granted }

// settle sets the deficits that w's caller has left behind. Grants go out in
// the order of arrival, each on top of the ones before.
func (w *waiter) settle(buckets []ratelimit.Bucket) {
	if w.call.op == reset {
		return
	}
	charges := min(w.place+1, w.call.granted)
	if w.call.op == peek {
		charges = 0
	}
	for i := range buckets {
		buckets[i].Deficit = w.call.found[i] + charges*buckets[i].Charge
	}
}
