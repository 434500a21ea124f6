package ratelimit

import "context"

// Store keeps buckets and decides on them. The stores of this module are
// redisstore, shared by all instances of a service, and memstore, in the
// memory of one process. An implementation for another database is proved by
// the suite in storetest.
//
// A call is about a list of buckets, distinct and at least one, and is one
// atomic step over all of them, whoever else is calling: no other call is seen
// half done.
//
// # The bucket
//
// The state of a bucket is one instant, full_at, at which it will be full
// again; an unknown bucket is full. With now from one clock that all users of
// the store share, in whole microseconds, and read once per call:
//
//	deficit = clamp(full_at - now, 0, Capacity)
//
// Buckets are the same when Name, Key and Capacity (rounded up to whole
// milliseconds) are equal. A bucket of another Capacity is another bucket.
//
// A full_at more than Capacity + 1 s ahead of now can only come from a clock
// that stepped back. Take then writes now + Capacity, also when it denies, so
// that nobody is locked out for as long as the clock stepped.
//
// # Errors
//
// A denial is not an error. A store that cannot decide returns an error within
// its own time budget, whatever its database does. It returns ctx.Err(),
// possibly wrapped, if ctx ends first. An error that waiting does not cure
// wraps [ErrMisconfigured]. A call that has returned an error may
// have been carried out, but never twice.
//
// A Store is safe for concurrent use. It does not keep the list of buckets
// after it has returned.
type Store interface {
	// Take admits the call if deficit + Charge <= Capacity holds in every
	// bucket, and then moves each full_at to now + deficit + Charge. Otherwise
	// it denies, and no bucket is changed. It sets each bucket's Deficit to the
	// value after the decision.
	Take(ctx context.Context, buckets []Bucket) (Decision, error)

	// Peek decides as Take would, and writes nothing. It sets each bucket's
	// Deficit to its present value.
	Peek(ctx context.Context, buckets []Bucket) (Decision, error)

	// Refund lowers the deficit of each bucket by its Charge, never below 0.
	Refund(ctx context.Context, buckets []Bucket) error

	// Reset makes each bucket full.
	Reset(ctx context.Context, buckets []Bucket) error

	// Ping reports whether the store could decide now: it is reachable, and has
	// the permissions it needs. The error says which is missing.
	Ping(ctx context.Context) error
}

// Bucket names one bucket of a Store, says what a call charges it, and carries
// back how full it is. All times are whole microseconds.
type Bucket struct {
	// Name of the limiter, as validated by [New].
	Name string
	// Key of the caller: any non-empty string, of any length and any bytes.
	Key string
	// Capacity is the time in which the bucket refills from empty: burst *
	// interval. At least 1 and at most 365 days.
	Capacity int64
	// Charge is the time by which the call moves full_at: cost * interval. At
	// least 1 and at most Capacity.
	Charge int64
	// Deficit is set by Take and Peek: the time until the bucket is full, from
	// 0 (full) to Capacity (empty).
	Deficit int64
}

// Decision is a Store's answer to Take and Peek. The deficits are in the
// buckets.
type Decision struct {
	// Allowed is true if the call is admitted.
	Allowed bool
	// Source is SourceStore, or SourceShortcut if the store knew the answer
	// without asking its database. The zero value is read as SourceStore.
	Source Source
}
