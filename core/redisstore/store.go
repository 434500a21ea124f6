package redisstore

import (
	"context"
	"errors"
	"reflect"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// Store is a ratelimit.Store in Redis. Create one with New for each client, and
// share it among limiters: it is safe for concurrent use. It holds no goroutine
// while nothing is asked of it and needs no closing; the client is its owner's
// to close. The zero Store is not usable.
//
// The error of a method wraps ctx.Err() if ctx ended first, is a *ConfigError if
// an operator has to act, and otherwise says why Redis has not decided. That of a
// call which the breaker has refused has a method RetryAfter() time.Duration, the
// time until the next trial.
type Store struct {
	settings
	router router
	pings  chan struct{} // has room for the pings that may run at once
}

var _ ratelimit.Store = (*Store)(nil)

// maxPings is how many Pings may be waiting for Redis at once.
const maxPings = 64

// New returns a Store on rdb: a *redis.Client (also one of NewFailoverClient), a
// *redis.ClusterClient or a *redis.Ring.
//
// New does not connect, so that a service can start without Redis; use
// Limiter.Ping to find out whether all is well. It returns an error for a nil
// client or an option that cannot be.
func New(rdb redis.UniversalClient, opts ...Option) (*Store, error) {
	if v := reflect.ValueOf(rdb); rdb == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("redisstore: client is nil")
	}
	s, err := newSettings(opts)
	if err != nil {
		return nil, err
	}
	return &Store{settings: s, router: newRouter(rdb, s), pings: make(chan struct{}, maxPings)}, nil
}

// Take implements ratelimit.Store.
func (s *Store) Take(ctx context.Context, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	if s.shortcut != nil && s.shortcut.denies(buckets) {
		return ratelimit.Decision{Source: ratelimit.SourceShortcut}, nil
	}
	return s.do(ctx, take, buckets)
}

// Peek implements ratelimit.Store.
func (s *Store) Peek(ctx context.Context, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	return s.do(ctx, peek, buckets)
}

// Refund implements ratelimit.Store.
func (s *Store) Refund(ctx context.Context, buckets []ratelimit.Bucket) error {
	return s.giveBack(ctx, refund, buckets)
}

// Reset implements ratelimit.Store.
func (s *Store) Reset(ctx context.Context, buckets []ratelimit.Bucket) error {
	return s.giveBack(ctx, reset, buckets)
}

// giveBack carries out a refund or a reset. What the shortcut knew before is no
// longer true then, also if the call has failed: it may have been carried out.
func (s *Store) giveBack(ctx context.Context, op operation, buckets []ratelimit.Bucket) error {
	_, err := s.do(ctx, op, buckets)
	if s.shortcut != nil {
		s.shortcut.forget(buckets)
	}
	return err
}

// do carries out one operation on buckets, and sets their deficits.
func (s *Store) do(ctx context.Context, op operation, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	decision, err := s.ask(ctx, op, buckets)
	if err != nil {
		return ratelimit.Decision{}, wrap(buckets[0].Name, err)
	}
	return decision, nil
}

func (s *Store) ask(ctx context.Context, op operation, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	if err := ctx.Err(); err != nil {
		return ratelimit.Decision{}, err
	}
	lane, err := s.router.lane(ctx, &buckets[0])
	if err != nil {
		return ratelimit.Decision{}, err
	}
	return lane.ask(ctx, op, buckets)
}
