package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// defaultBudget is how long a decision may take.
const defaultBudget = 100 * time.Millisecond

// Option changes a Store from its defaults.
type Option func(*settings) error

// settings are what the options set.
type settings struct {
	prefix   string
	budget   time.Duration
	shortcut *shortcut // nil without shortcut
	batch    bool
}

// WithPrefix puts prefix before every key, so that two services can use limiters
// of the same name on one Redis. Braces are not allowed, because they would
// choose the hash slot. The default is no prefix.
func WithPrefix(prefix string) Option {
	return func(s *settings) error {
		if strings.ContainsAny(prefix, "{}") {
			return fmt.Errorf("redisstore: prefix %q must not contain braces", prefix)
		}
		s.prefix = prefix
		return nil
	}
}

// WithBudget bounds the time of a decision, from the call to its end. At least
// 1 ms; the default is 100 ms. A budget shorter than Redis usually takes turns
// every decision over to the failure policy.
func WithBudget(budget time.Duration) Option {
	return func(s *settings) error {
		if budget < time.Millisecond {
			return fmt.Errorf("redisstore: budget is %v, must be at least 1ms", budget)
		}
		s.budget = budget
		return nil
	}
}

// WithoutShortcut asks Redis for every denial too. By default a denial whose
// bucket is known to be empty is given from memory, for at most a second.
func WithoutShortcut() Option {
	return func(s *settings) error {
		s.shortcut = nil
		return nil
	}
}

// WithoutBatch sends a command of its own for each call. By default calls that
// arrive while others are on their way share commands and pipelines.
func WithoutBatch() Option {
	return func(s *settings) error {
		s.batch = false
		return nil
	}
}

func newSettings(opts []Option) (settings, error) {
	s := settings{budget: defaultBudget, shortcut: newShortcut(), batch: true}
	for _, opt := range opts {
		if opt == nil {
			return settings{}, errors.New("redisstore: an option is nil")
		}
		if err := opt(&s); err != nil {
			return settings{}, err
		}
	}
	return s, nil
}
