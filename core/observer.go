package ratelimit

import (
	"context"
	"time"
)

// Observer is told what a Limiter does, for metrics and traces. Its methods run
// on the goroutine of the call they report, so they must be quick, and may be
// called concurrently. They must not use the limiter.
//
// Keys and causes are often personal or without bound: do not make metric
// labels of them.
type Observer interface {
	// ObserveDecision is called once for each Allow and AllowN that was decided:
	// by the store, locally or by a policy. A call that fails closed is reported
	// with Allowed false and SourcePolicy. took is the time the decision took.
	// Calls that end without a decision (invalid arguments, ctx ended) are not
	// reported, nor is Peek.
	ObserveDecision(ctx context.Context, res Result, took time.Duration)

	// ObserveRefund is called once for each Refund that reached the store, with
	// the store's error or nil.
	ObserveRefund(ctx context.Context, name, key string, cost int, err error)
}
