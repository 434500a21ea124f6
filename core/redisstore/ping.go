package redisstore

import (
	"context"
	"errors"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// probe is a bucket that no limiter can have, since theirs have names. It is
// full again, and gone, after a millisecond.
var probe = []ratelimit.Bucket{{Key: "ping", Capacity: 1000, Charge: 1000}}

var errTooManyPings = errors.New("redisstore: too many pings are waiting for Redis")

// Ping implements ratelimit.Store. It asks every node for a sign of life, and
// one to run the script on a bucket of its own, so that it fails when a
// permission is missing, when the node is a replica or is out of memory. It ends
// within the budget and does not heed the breaker.
func (s *Store) Ping(ctx context.Context) error {
	select {
	case s.pings <- struct{}{}:
	default:
		return errTooManyPings
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.budget, &budgetError{s.budget})
	defer cancel()
	done := make(chan error, 1)
	go func() {
		err := wrap("", guard(func() error { return s.ping(ctx) }))
		<-s.pings
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Store) ping(ctx context.Context) error {
	err := s.router.nodes(ctx, func(ctx context.Context, node conn) error {
		return guard(func() error { return ping(ctx, node) })
	})
	if err != nil {
		return err
	}
	lane, err := s.router.lane(ctx, &probe[0])
	if err != nil {
		return err
	}
	c := &call{op: take, buckets: probe, callers: 1}
	lane.exchange(ctx, []*call{c})
	return c.err
}
