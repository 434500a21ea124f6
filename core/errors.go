package ratelimit

import "errors"

// Errors of a Limiter and of a Store, for [errors.Is].
var (
	// ErrInvalidKey means that the key is empty. The store was not asked.
	ErrInvalidKey = errors.New("ratelimit: key is empty")

	// ErrInvalidCost means that the cost is below 1. The store was not asked.
	ErrInvalidCost = errors.New("ratelimit: cost must be at least 1")

	// ErrCostExceedsBurst means that the cost is above the burst of a limit, so
	// that the call can never be admitted, however long the caller waits. The
	// store was not asked; the bucket is untouched.
	ErrCostExceedsBurst = errors.New("ratelimit: cost exceeds burst, the call can never be admitted")

	// ErrUnavailable means that nobody could decide: the store failed, and the
	// limiter fails closed, or its local store fails too, or the local share
	// cannot hold the cost. It wraps the cause.
	ErrUnavailable = errors.New("ratelimit: store is unavailable")

	// ErrMisconfigured is wrapped by a store's error that waiting does not cure
	// and an operator has to: a wrong password, a missing permission, a key that
	// holds something else. The limiter applies its policy all the same, and
	// logs the error once at level error.
	ErrMisconfigured = errors.New("ratelimit: store is misconfigured")
)
