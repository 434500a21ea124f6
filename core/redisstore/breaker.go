package redisstore

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	// tripAfter is how many failures in a row open the breaker, each of something
	// that was sent after the one before was known: one stall of Redis fails all
	// that is on its way, and counts once.
	tripAfter = 3
	// trialEvery is how long the breaker stays open before a trial.
	trialEvery = 500 * time.Millisecond
)

// errUncounted is an outcome that says nothing of the node, or nothing new, and
// counts neither way.
var errUncounted = errors.New("redisstore: this outcome does not count")

// breaker keeps calls from a node that fails. It is closed at first; tripAfter
// failures in a row open it; trialEvery later one trial is let through, and
// closes it or leaves it open for as long again.
type breaker struct {
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]
	tripped atomic.Bool           // not closed
	opened  atomic.Int64          // Unix nanoseconds
	failed  atomic.Int64          // last counted failure, Unix nanoseconds
	cause   atomic.Pointer[error] // last failure
}

func newBreaker() *breaker {
	b := &breaker{}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1,
		Timeout:      trialEvery,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tripAfter },
		IsSuccessful: func(err error) bool { return !isFailure(err) },
		IsExcluded:   func(err error) bool { return err == errUncounted }, //nolint:errorlint // never wrapped
		OnStateChange: func(_ string, _, to gobreaker.State) {
			b.tripped.Store(to != gobreaker.StateClosed)
			if to == gobreaker.StateOpen {
				b.opened.Store(time.Now().UnixNano())
			}
		},
	})
	return b
}

// closed reports whether calls may be sent without further ado.
func (b *breaker) closed() bool { return !b.tripped.Load() }

// open returns an error while no call may be sent, and nil when the breaker is
// closed or due for a trial.
func (b *breaker) open() error {
	if b.closed() || b.circuit.State() != gobreaker.StateOpen {
		return nil
	}
	return b.refusal()
}

// allow returns the function that takes the outcome of what is sent now, once.
// It returns an error if nothing may be sent.
func (b *breaker) allow() (outcome func(error), err error) {
	outcome, err = b.circuit.Allow()
	if err != nil {
		return nil, b.refusal()
	}
	return outcome, nil
}

// counts reports whether the failure of something sent at that time is one more,
// and if so remembers it, to tell those who are refused.
func (b *breaker) counts(failure error, sent time.Time) bool {
	last := b.failed.Load()
	if sent.UnixNano() <= last || !b.failed.CompareAndSwap(last, time.Now().UnixNano()) {
		return false
	}
	b.cause.Store(&failure)
	return true
}

func (b *breaker) refusal() error {
	trial := time.Unix(0, b.opened.Load()).Add(trialEvery)
	refusal := &openError{retryAfter: max(time.Until(trial), 0)}
	if cause := b.cause.Load(); cause != nil {
		refusal.cause = *cause
	}
	return refusal
}
