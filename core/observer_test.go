package ratelimit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

// observed keeps what an observer is told.
type observed struct {
	mu        sync.Mutex
	decisions []ratelimit.Result
	took      []time.Duration
	refunds   []refund
}

type refund struct {
	name, key string
	cost      int
	err       error
}

func (o *observed) ObserveDecision(_ context.Context, res ratelimit.Result, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.decisions = append(o.decisions, res)
	o.took = append(o.took, took)
}

func (o *observed) ObserveRefund(_ context.Context, name, key string, cost int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refunds = append(o.refunds, refund{name, key, cost, err})
}

func TestTheObserverSeesEachDecisionAsItsCallerDoes(t *testing.T) {
	t.Parallel()
	store, seen := newFlakyStore(), &observed{}
	for _, tt := range []struct {
		policy ratelimit.Option
		err    error
		want   ratelimit.Source
	}{
		{ratelimit.FailOpen(), nil, ratelimit.SourceStore},
		{ratelimit.FailOpen(), errLost, ratelimit.SourcePolicy},
		{ratelimit.FailClosed(), errLost, ratelimit.SourcePolicy},
		{ratelimit.FailLocal(memstore.New(), 1), errLost, ratelimit.SourceLocal},
	} {
		store.fail(tt.err)
		l := newLimiter(t, store, ratelimit.PerDay(2), tt.policy, ratelimit.WithObserver(seen))
		seen.decisions = nil
		for range 3 {
			res, _ := l.Allow(context.Background(), "k")
			if n := len(seen.decisions); n == 0 || !same(seen.decisions[n-1], res) || res.Source != tt.want {
				t.Fatalf("returned %+v, observed %+v, want source %v", res, seen.decisions, tt.want)
			}
		}
		if len(seen.decisions) != 3 {
			t.Errorf("3 calls are observed as %d", len(seen.decisions))
		}
	}
}

func TestTheObserverIsNotToldOfWhatNobodyDecided(t *testing.T) {
	t.Parallel()
	seen := &observed{}
	l := newLimiter(t, memstore.New(), ratelimit.PerDay(2), ratelimit.WithObserver(seen))
	ctx := context.Background()
	_, _ = l.Allow(ctx, "")
	_, _ = l.AllowN(ctx, "k", 0)
	_, _ = l.AllowN(ctx, "k", 3)
	_, _ = l.Peek(ctx, "k")
	_ = l.Reset(ctx, "k")
	_ = l.Ping(ctx)
	_ = l.Refund(ctx, "", 1)
	if len(seen.decisions) > 0 || len(seen.refunds) > 0 {
		t.Errorf("observed %+v, %+v", seen.decisions, seen.refunds)
	}
}

func TestTheObserverSeesRefundsAndWhetherTheySucceeded(t *testing.T) {
	t.Parallel()
	store, seen := newFlakyStore(), &observed{}
	l := newLimiter(t, store, ratelimit.PerDay(2), ratelimit.WithObserver(seen))
	_ = l.Refund(context.Background(), "k", 2)
	store.fail(errLost)
	_ = l.Refund(context.Background(), "k", 1)
	if len(seen.refunds) != 2 || seen.refunds[0] != (refund{"api", "k", 2, nil}) || !errors.Is(seen.refunds[1].err, errLost) {
		t.Errorf("observed %+v", seen.refunds)
	}
}

// slow is a store that takes its time.
type slow struct {
	ratelimit.Store

	time time.Duration
}

func (s slow) Take(ctx context.Context, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	time.Sleep(s.time)
	return s.Store.Take(ctx, buckets)
}

func TestTheObserverIsToldHowLongADecisionTook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := &observed{}
		l := newLimiter(t, slow{memstore.New(), 3 * time.Millisecond}, ratelimit.PerDay(2), ratelimit.WithObserver(seen))
		allow(t, l, "k")
		if len(seen.took) != 1 || seen.took[0] != 3*time.Millisecond {
			t.Errorf("took %v, want 3ms", seen.took)
		}
	})
}
