package ratelimit

import (
	"errors"
	"fmt"
	"log/slog"
)

// Option changes a Limiter from its defaults. Options are applied in order.
type Option interface {
	apply(*settings) error
}

type optionFunc func(*settings) error

func (f optionFunc) apply(s *settings) error { return f(s) }

// settings are what the options set.
type settings struct {
	further  []Limit
	failure  failure
	observer Observer
	logger   *slog.Logger
}

// FailOpen admits every call that the store cannot decide. This is the default:
// a limiter protects a service and must not be what takes it down.
func FailOpen() Option {
	return optionFunc(func(s *settings) error {
		s.failure = failure{mode: failOpen}
		return nil
	})
}

// FailClosed refuses every call that the store cannot decide, with
// [ErrUnavailable]. It is for limits that guard secrets, such as attempts at a
// password.
func FailClosed() Option {
	return optionFunc(func(s *settings) error {
		s.failure = failure{mode: failClosed}
		return nil
	})
}

// FailLocal lets store, usually a memstore, decide what the limiter's own store
// cannot, on a share of the limit: the rate and the burst are multiplied by
// share. With n instances and a share of 1/n they admit together at most the
// limit.
//
// share is above 0 and at most 1, and share * burst must hold at least one
// token; New refuses others, and a nil store. A call whose cost is above share *
// burst, or that the local store cannot decide either, gets [ErrUnavailable]. The
// local store is not emptied when the limiter's own store comes back, so that a
// store that comes and goes does not open the limit; each change from one to the
// other admits at most one burst more.
func FailLocal(store Store, share float64) Option {
	return optionFunc(func(s *settings) error {
		if store == nil {
			return errors.New("ratelimit: FailLocal: store is nil")
		}
		if !(share > 0 && share <= 1) {
			return fmt.Errorf("ratelimit: FailLocal: share is %v, must be above 0 and at most 1", share)
		}
		s.failure = failure{mode: failLocal, local: store, share: share}
		return nil
	})
}

// WithLimit adds a limit that must hold at the same time, such as 1000/h beside
// 10/s. A call is admitted by all limits or charged to none. It may be given
// several times; the limits must differ in the time in which they refill.
func WithLimit(limit Limit) Option {
	return optionFunc(func(s *settings) error {
		s.further = append(s.further, limit)
		return nil
	})
}

// WithObserver reports every decision to o. The default is to report to nobody.
// New refuses a nil Observer.
func WithObserver(o Observer) Option {
	return optionFunc(func(s *settings) error {
		if o == nil {
			return errors.New("ratelimit: WithObserver: observer is nil")
		}
		s.observer = o
		return nil
	})
}

// WithLogger sets where the limiter says that its store is lost, back or
// misconfigured. The default is [slog.Default] at the time of the message. To
// silence it, pass slog.New(slog.DiscardHandler): New refuses a nil logger.
func WithLogger(logger *slog.Logger) Option {
	return optionFunc(func(s *settings) error {
		if logger == nil {
			return errors.New("ratelimit: WithLogger: logger is nil; use slog.New(slog.DiscardHandler) for silence")
		}
		s.logger = logger
		return nil
	})
}
