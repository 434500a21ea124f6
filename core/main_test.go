package ratelimit_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.uber.org/goleak"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errLost = errors.New("store is on fire")

// flakyStore is a store in memory that fails when it is told to.
type flakyStore struct {
	*memstore.Store

	mu    sync.Mutex
	err   error
	asked int
}

func newFlakyStore() *flakyStore { return &flakyStore{Store: memstore.New()} }

// fail makes every call return err, until it is called with nil.
func (f *flakyStore) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// ask counts a call, and returns the error it must return.
func (f *flakyStore) ask() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.err
}

// calls is how often the store was asked anything.
func (f *flakyStore) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

func (f *flakyStore) Take(ctx context.Context, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	if err := f.ask(); err != nil {
		return ratelimit.Decision{}, err
	}
	return f.Store.Take(ctx, buckets)
}

func (f *flakyStore) Peek(ctx context.Context, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	if err := f.ask(); err != nil {
		return ratelimit.Decision{}, err
	}
	return f.Store.Peek(ctx, buckets)
}

func (f *flakyStore) Refund(ctx context.Context, buckets []ratelimit.Bucket) error {
	if err := f.ask(); err != nil {
		return err
	}
	return f.Store.Refund(ctx, buckets)
}

func (f *flakyStore) Reset(ctx context.Context, buckets []ratelimit.Bucket) error {
	if err := f.ask(); err != nil {
		return err
	}
	return f.Store.Reset(ctx, buckets)
}

func (f *flakyStore) Ping(ctx context.Context) error {
	if err := f.ask(); err != nil {
		return err
	}
	return f.Store.Ping(ctx)
}

// newLimiter is a limiter that is quiet unless opts say otherwise.
func newLimiter(t *testing.T, store ratelimit.Store, limit ratelimit.Limit, opts ...ratelimit.Option) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(store, "api", limit, append([]ratelimit.Option{ratelimit.WithLogger(quiet)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func allow(t *testing.T, l *ratelimit.Limiter, key string) ratelimit.Result {
	t.Helper()
	return allowN(t, l, key, 1)
}

func allowN(t *testing.T, l *ratelimit.Limiter, key string, cost int) ratelimit.Result {
	t.Helper()
	res, err := l.AllowN(context.Background(), key, cost)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// admitted is how many of calls pass.
func admitted(t *testing.T, calls int, l *ratelimit.Limiter, key string) int {
	t.Helper()
	n := 0
	for range calls {
		if allow(t, l, key).Allowed {
			n++
		}
	}
	return n
}
