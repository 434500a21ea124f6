package redisstore

import (
	"context"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// InCompany is a store that has each call on one bucket decided in one run of the
// script with others: before it one on a bucket that cannot be decided, behind it
// one on a bucket of its own.
type InCompany struct{ *Store }

// The keys of those others. The first has to hold something that is no bucket.
const (
	Spoiled   = "rl1:1{:spoiled}"
	Companion = "rl1:1{:companion}"
)

func (s InCompany) Take(ctx context.Context, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	if len(buckets) > 1 {
		return s.Store.Take(ctx, buckets)
	}
	return s.ask(ctx, take, buckets)
}

func (s InCompany) Peek(ctx context.Context, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	if len(buckets) > 1 {
		return s.Store.Peek(ctx, buckets)
	}
	return s.ask(ctx, peek, buckets)
}

func (s InCompany) Refund(ctx context.Context, buckets []ratelimit.Bucket) error {
	if len(buckets) > 1 {
		return s.Store.Refund(ctx, buckets)
	}
	_, err := s.ask(ctx, refund, buckets)
	return err
}

func (s InCompany) ask(ctx context.Context, op operation, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	if err := ctx.Err(); err != nil {
		return ratelimit.Decision{}, err
	}
	l, err := s.router.lane(ctx, &buckets[0])
	if err != nil {
		return ratelimit.Decision{}, err
	}
	other := func(key string) *call {
		c := newCall(take, []ratelimit.Bucket{{Key: key, Capacity: 1000, Charge: 1000}})
		c.callers = 1
		return c
	}
	c := newCall(op, buckets)
	c.callers = 1
	r := run{other("spoiled"), c, other("companion")}
	l.roundTrip(ctx, l.node, "eval", []run{r})
	if _, refused := misconfiguration(r[0].err); !refused || r[2].err != nil {
		panic("the spoiled bucket has spoiled another, or is none")
	}
	if c.err != nil {
		return ratelimit.Decision{}, c.err
	}
	return ratelimit.Decision{Allowed: c.decide(0, buckets), Source: c.source}, nil
}
