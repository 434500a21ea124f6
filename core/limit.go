package ratelimit

import (
	"fmt"
	"time"

	"github.com/atomicbucket/ratelimit/core/internal/bucket"
)

const (
	minPeriod   = time.Millisecond
	maxCapacity = 365 * 24 * time.Hour
)

// Limit is a rate, Tokens per Period, and a Burst: the number of tokens a
// bucket holds and so the most that can be spent at once.
//
// The zero Limit is invalid; [New] refuses it. A Burst of 0 means Tokens.
// Limits are plain values: compare, copy and share them freely.
//
// Tokens refill one by one, every Period / Tokens rounded up to a whole
// microsecond, so rates above 10,000/s are approximate and never too high:
// 30,000/s is served as 29,411/s.
//
// New accepts at most 1,000,000 tokens per second, periods of at least 1 ms,
// and bursts that refill from empty within 365 days.
type Limit struct {
	// Tokens refill per Period. At least 1.
	Tokens int
	// Period in which Tokens refill. At least 1 ms.
	Period time.Duration
	// Burst is the capacity of a bucket in tokens. 0 means Tokens.
	Burst int
}

// Per returns a Limit of n tokens per period with a burst of n.
func Per(n int, period time.Duration) Limit { return Limit{Tokens: n, Period: period} }

// PerSecond returns a Limit of n tokens per second with a burst of n.
func PerSecond(n int) Limit { return Per(n, time.Second) }

// PerMinute returns a Limit of n tokens per minute with a burst of n.
func PerMinute(n int) Limit { return Per(n, time.Minute) }

// PerHour returns a Limit of n tokens per hour with a burst of n.
func PerHour(n int) Limit { return Per(n, time.Hour) }

// PerDay returns a Limit of n tokens per 24 hours with a burst of n.
func PerDay(n int) Limit { return Per(n, 24*time.Hour) }

// WithBurst returns l with a burst of n tokens. 0 means Tokens.
func (l Limit) WithBurst(n int) Limit {
	l.Burst = n
	return l
}

// validate says what has to change in l, one message per field.
func (l Limit) validate() error {
	switch {
	case l.Tokens < 1:
		return fmt.Errorf("ratelimit: limit %q: tokens is %d, must be at least 1", l, l.Tokens)
	case l.Period < minPeriod:
		return fmt.Errorf("ratelimit: limit %q: period is %v, must be at least %v", l, l.Period, minPeriod)
	case int64(l.Tokens) > l.Period.Microseconds():
		return fmt.Errorf("ratelimit: limit %q: rate is above 1,000,000 tokens per second", l)
	case l.Burst < 0:
		return fmt.Errorf("ratelimit: limit %q: burst is %d, must be at least 1, or 0 for %d (tokens)", l, l.Burst, l.Tokens)
	}
	// Compared by division: burst * interval may not fit an int64.
	if l.interval() > maxCapacity.Microseconds()/int64(l.burst()) {
		return fmt.Errorf("ratelimit: limit %q: a burst of %d takes more than 365 days to refill", l, l.burst())
	}
	return nil
}

// burst is the effective burst in tokens.
func (l Limit) burst() int {
	if l.Burst == 0 {
		return l.Tokens
	}
	return l.Burst
}

// interval is the whole microseconds in which one token refills.
func (l Limit) interval() int64 { return bucket.Interval(l.Tokens, l.Period) }

// rule is a validated limit, with what a decision needs worked out once.
type rule struct {
	limit    Limit // Burst is never 0
	interval int64 // microseconds per token
	capacity int64 // microseconds from empty to full
}

func newRule(l Limit) (rule, error) {
	if err := l.validate(); err != nil {
		return rule{}, err
	}
	l.Burst = l.burst()
	interval := l.interval()
	return rule{limit: l, interval: interval, capacity: int64(l.Burst) * interval}, nil
}

// newRules validates limits that are to hold at the same time. Two that fill
// in the same time are one bucket to a store, and the slower of them is always
// the tighter, so the other would never decide.
func newRules(limit Limit, further []Limit) ([]rule, error) {
	rules := make([]rule, 0, 1+len(further))
	for _, l := range append([]Limit{limit}, further...) {
		r, err := newRule(l)
		if err != nil {
			return nil, err
		}
		for _, other := range rules {
			if bucket.Millis(other.capacity) == bucket.Millis(r.capacity) {
				return nil, fmt.Errorf("ratelimit: limits %q and %q fill in the same time, so only the lower one would ever decide: drop the other", other.limit, r.limit)
			}
		}
		rules = append(rules, r)
	}
	return rules, nil
}
