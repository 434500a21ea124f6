// Package bucket is the arithmetic of one token bucket: pure functions on
// whole microseconds, with no clock and no state of their own.
//
// A bucket is one number, full_at: the instant at which it is full again. Its
// deficit is the time from now to full_at, between 0 (full) and capacity
// (empty). Taking a token moves full_at one interval ahead; waiting needs no
// bookkeeping at all. This is the token bucket exactly, because the level and
// the time of the last refill follow from full_at.
//
// redisstore's script does the same steps in Lua, and memstore does them here;
// the tests drive both beside each other.
package bucket

import "time"

// skew is how far beyond one capacity full_at may lie before it is taken for
// the work of a clock that stepped back: one second, in microseconds.
const skew = int64(time.Second / time.Microsecond)

// Interval returns the whole microseconds in which one token refills at
// tokens per period. It is rounded up, so that the rate served is never above
// the rate asked for. tokens must be positive.
func Interval(tokens int, period time.Duration) int64 {
	return divideUp(divideUp(int64(period), int64(tokens)), int64(time.Microsecond))
}

// Millis returns a capacity in whole milliseconds, rounded up. Buckets of one
// name and key are the same bucket when it is equal.
func Millis(capacity int64) int64 { return divideUp(capacity, 1000) }

// divideUp is n / by, rounded up. It does not add before it divides: periods
// may be as long as an int64 holds.
func divideUp(n, by int64) int64 {
	quotient := n / by
	if n%by > 0 {
		quotient++
	}
	return quotient
}

// Deficit returns how far the bucket is from full: full_at - now, held between
// 0 and capacity.
func Deficit(fullAt, now, capacity int64) int64 {
	return min(max(fullAt-now, 0), capacity)
}

// Skewed reports whether full_at lies further ahead than any charge can have
// put it, which only a clock that stepped back explains. Such a full_at is
// replaced by now + capacity even when the call is denied; otherwise the key
// would be locked out for as long as the clock stepped.
func Skewed(fullAt, now, capacity int64) bool {
	return fullAt-now > capacity+skew
}

// Fits returns how many calls of charge each the bucket can still admit.
// charge must be positive.
func Fits(deficit, capacity, charge int64) int64 {
	return (capacity - deficit) / charge
}

// Wait returns the time until a call of charge is admitted if nobody else
// takes anything; 0 if it would be admitted now.
func Wait(deficit, capacity, charge int64) int64 {
	return max(deficit+charge-capacity, 0)
}
