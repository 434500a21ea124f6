package adaptertest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

// store is a store in memory that notes its calls, and fails when told to.
type store struct {
	*memstore.Store

	mu      sync.Mutex
	err     error
	keys    []string // of each Take
	refunds []refund
}

type refund struct {
	key    string
	charge int64
	ctxErr error
}

func newStore() *store { return &store{Store: memstore.New()} }

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Take implements ratelimit.Store.
func (s *store) Take(ctx context.Context, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	s.mu.Lock()
	err := s.err
	s.keys = append(s.keys, buckets[0].Key)
	s.mu.Unlock()
	if err != nil {
		return ratelimit.Decision{}, err
	}
	return s.Store.Take(ctx, buckets)
}

// Refund implements ratelimit.Store.
func (s *store) Refund(ctx context.Context, buckets []ratelimit.Bucket) error {
	s.mu.Lock()
	s.refunds = append(s.refunds, refund{key: buckets[0].Key, charge: buckets[0].Charge, ctxErr: ctx.Err()})
	s.mu.Unlock()
	return s.Store.Refund(ctx, buckets)
}

func (s *store) takes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.keys)
}

func (s *store) refunded() []refund {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refunds)
}

// level is a store in which every bucket lacks the same, whatever is taken.
type level struct {
	*memstore.Store
	deficit time.Duration
}

// Take implements ratelimit.Store.
func (s level) Take(_ context.Context, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	allowed := true
	for i := range buckets {
		b := &buckets[i]
		b.Deficit = min(s.deficit.Microseconds(), b.Capacity)
		allowed = allowed && b.Deficit+b.Charge <= b.Capacity
	}
	for i := range buckets {
		if allowed {
			buckets[i].Deficit += buckets[i].Charge
		}
	}
	return ratelimit.Decision{Allowed: allowed}, nil
}

// errDown is the error of a store that is down, and says when to try again.
type errDown struct{ retryAfter time.Duration }

func (e errDown) Error() string { return "down" }

// RetryAfter implements the hint that httplimit looks for.
func (e errDown) RetryAfter() time.Duration { return e.retryAfter }

var errBroken = errors.New("broken")

func limiter(t *testing.T, s ratelimit.Store, name string, limit ratelimit.Limit, opts ...ratelimit.Option) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(s, name, limit, append([]ratelimit.Option{quiet}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
