package ratelimit

import (
	"time"

	"github.com/atomicbucket/ratelimit/core/internal/bucket"
)

// Source says who made a decision. The zero Source stands in a Result of which
// nobody has decided anything, next to an error.
type Source uint8

const (
	// SourceStore is the store the limiter was made with.
	SourceStore Source = iota + 1
	// SourceShortcut is that store, from what it knew of the bucket, without
	// asking its database. Only denials come from there.
	SourceShortcut
	// SourceLocal is the store given to [FailLocal].
	SourceLocal
	// SourcePolicy is [FailOpen] or [FailClosed].
	SourcePolicy
)

// String returns "store", "shortcut", "local", "policy", or "none" for the
// zero Source.
func (s Source) String() string {
	switch s {
	case SourceStore:
		return "store"
	case SourceShortcut:
		return "shortcut"
	case SourceLocal:
		return "local"
	case SourcePolicy:
		return "policy"
	default:
		return "none"
	}
}

// Result is the answer to one call. With several limits, the fields Limit,
// Remaining, RetryAfter and ResetAfter speak of the tightest: the one with the
// longest RetryAfter on a denial, the one with the fewest Remaining otherwise.
//
// When a policy has decided (SourcePolicy), only Allowed, Name, Key, Cost,
// Source and Cause are set: nobody knows how full the bucket is.
type Result struct {
	// Allowed is true if the call may proceed.
	Allowed bool
	// Name of the limiter.
	Name string
	// Key as given by the caller.
	Key string
	// Cost of the call in tokens. 1 from Peek.
	Cost int
	// Limit that decided, the whole of it where [FailLocal] has applied a share:
	// Remaining, RetryAfter and ResetAfter are then those of the share. Its Burst
	// is never 0.
	Limit Limit
	// Remaining is the number of whole tokens left after the call. On a denial,
	// where nothing was spent, it is less than Cost and often 0.
	Remaining int
	// RetryAfter is the time until this same cost would be admitted if nobody
	// else came. 0 when allowed. A denial's is above 0.
	RetryAfter time.Duration
	// ResetAfter is the time until the bucket is full. 0 if it is full now.
	ResetAfter time.Duration
	// Source says who has decided.
	Source Source
	// Cause is the error of the store, if the decision is not the store's:
	// SourceLocal or SourcePolicy. Nil otherwise.
	Cause error
	// Limits has an entry for each limit, in the order given to New, when there
	// are several. Nil when there is one.
	Limits []LimitResult
}

// LimitResult is how a call stands with one of several limits. The fields mean
// what they mean in [Result]. RetryAfter is 0 for a limit that would have
// admitted the call.
type LimitResult struct {
	Limit      Limit
	Remaining  int
	RetryAfter time.Duration
	ResetAfter time.Duration
}

// setLimits fills the fields that follow from the buckets' deficits.
func (r *Result) setLimits(rules []rule, buckets []Bucket) {
	if len(rules) > 1 {
		r.Limits = make([]LimitResult, len(rules))
	}
	var tightest LimitResult
	for i, rule := range rules {
		lr := rule.result(buckets[i], r.Allowed)
		if r.Limits != nil {
			r.Limits[i] = lr
		}
		if i == 0 || lr.tighter(tightest) {
			tightest = lr
		}
	}
	r.Limit, r.Remaining = tightest.Limit, tightest.Remaining
	r.RetryAfter, r.ResetAfter = tightest.RetryAfter, tightest.ResetAfter
}

func (r rule) result(b Bucket, allowed bool) LimitResult {
	lr := LimitResult{
		Limit:      r.limit,
		Remaining:  int(bucket.Fits(b.Deficit, b.Capacity, r.interval)),
		ResetAfter: time.Duration(b.Deficit) * time.Microsecond,
	}
	if !allowed {
		lr.RetryAfter = time.Duration(bucket.Wait(b.Deficit, b.Capacity, b.Charge)) * time.Microsecond
	}
	return lr
}

func (lr LimitResult) tighter(than LimitResult) bool {
	if lr.RetryAfter != than.RetryAfter {
		return lr.RetryAfter > than.RetryAfter
	}
	return lr.Remaining < than.Remaining
}
