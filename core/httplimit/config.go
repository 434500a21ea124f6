package httplimit

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// Config is the configuration of all adapters. C is the context that the
// framework hands to a handler, H its type of handler. Each adapter has an alias
// for its own: ginlimit.Config is Config[*gin.Context, gin.HandlerFunc].
//
// The zero Config is safe: by the address of the TCP peer, one token per
// request, X-RateLimit headers, default answers. An adapter's New panics at
// registration on a Config that cannot work, with a sentence that says what to
// change.
type Config[C, H any] struct {
	// Key says whose bucket the request spends from. Nil, or an empty key, means
	// the address of the TCP peer. Behind a proxy that is the proxy's, and all
	// clients share one bucket: see [ClientIP]. An error is answered as
	// unavailable. A panic in it, as in any function here, is not caught: it goes
	// where a handler's goes.
	Key Key[C]

	// Limiter chooses the limiter for a request, for callers on different plans
	// and routes of different weight. Nil, or a nil result, means the limiter
	// given to New. An error is answered as unavailable: an unknown plan is never
	// unlimited.
	Limiter func(C) (*ratelimit.Limiter, error)

	// Cost is the number of tokens that a request spends. Nil means 1. A request
	// of cost 0 is free: it is admitted without asking anyone. A cost above the
	// burst is answered 429 without Retry-After, and a negative cost as
	// unavailable.
	Cost func(C) int

	// Skip admits the requests for which it holds, before anything else is
	// looked at, without headers and without asking the store. Nil means none.
	// See When for ready predicates.
	Skip func(C) bool

	// Denied answers a request that was denied, instead of the default answer.
	// The quota headers, Retry-After and Cache-Control are set before it runs;
	// status and body are its own. ResultFrom tells it the details.
	Denied H

	// Unavailable answers a request that nobody could decide on, instead of the
	// default answer. Retry-After is set before it runs.
	Unavailable H

	// Refund says whether a request gets its tokens back, given the status that
	// its handler has answered with. A handler's error counts as its status, 500
	// if it has none, and so does a panic. Nil means never.
	//
	// With return status < 400 only failures count, if failures are answered with
	// 400 and above. A login form that answers a wrong password by a redirect or
	// by itself, with 303 or 200, would get every failure back: decide there by
	// something that only a success sets. Whoever has no token left is denied,
	// success or not, and a request holds its token until it is answered.
	//
	// It is not called for a request that was charged nothing, or that became
	// another protocol (101).
	Refund func(c C, status int) bool

	// Headers are the quota headers to send. 0 means XRateLimit.
	Headers Headers

	// RetryJitter spreads clients that all wait for the same moment: each
	// Retry-After is longer by a random time below it. 0 means none.
	RetryJitter time.Duration

	// Shadow decides and reports, but admits everything, and sends no headers.
	// The observer and ResultFrom tell what would have happened. Tokens are spent
	// as they would be, and never refunded.
	Shadow bool
}

// check says what has to change in a Config.
func (c Config[C, H]) check(limiter *ratelimit.Limiter) error {
	switch {
	case limiter == nil && c.Limiter == nil:
		return errors.New("httplimit: the limiter is nil: give New a limiter, or set Config.Limiter")
	case c.RetryJitter < 0:
		return fmt.Errorf("httplimit: Config.RetryJitter is %v: it must not be negative", c.RetryJitter)
	}
	return c.Headers.check()
}

// isSet reports whether a field of a framework's own type is set.
func isSet[H any](handler H) bool {
	return !reflect.ValueOf(&handler).Elem().IsZero()
}
