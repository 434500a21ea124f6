package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

// A denial from memory is right if Redis, asked at that moment, would have
// denied too. Asked is the bucket's full_at afterwards, which only grows: if it
// leaves room for the call at the time the call was made, the denial was wrong.
// The server's clock is this machine's.
func TestTheShortcutDeniesNothingThatRedisWouldAdmit(t *testing.T) {
	t.Parallel()
	denials := 1_000_000
	if testing.Short() {
		denials = 50_000
	}
	server := redistest.Start(t)
	rdb := clientOf(t, server.Addr())
	limit := ratelimit.Per(2000, time.Second).WithBurst(20) // a token each 500 µs
	limiter := newLimiter(t, newStore(t, rdb), limit)
	other := newLimiter(t, newStore(t, rdb), limit) // another instance
	ctx := context.Background()
	const capacity, interval = 10_000, 500

	fromMemory := 0
	for fromMemory < denials {
		allow(t, other, "k")
		var times []int64
		costs := make([]int64, 0, 64)
		for len(times) < 64 {
			cost, sent := 1+len(times)%3, time.Now().UnixMicro()
			res, err := limiter.AllowN(ctx, "k", cost)
			if err != nil {
				t.Fatal(err)
			}
			if res.Source != ratelimit.SourceShortcut {
				break
			}
			times, costs = append(times, sent), append(costs, int64(cost))
		}
		fullAt, err := rdb.Get(ctx, "rl1:a{test:k}").Int64()
		if err != nil {
			continue // full and gone: checked by the next round
		}
		for i, sent := range times {
			if max(fullAt-sent, 0)+costs[i]*interval <= capacity {
				t.Fatalf("denied a call of cost %d when the deficit was %d of %d µs", costs[i], fullAt-sent, capacity)
			}
		}
		fromMemory += len(times)
	}
}

func TestAnAttackIsAnsweredFromMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limiter := newLimiter(t, newStore(t, clientOf(t, server.Addr())), never(10))
	var wg sync.WaitGroup
	started := time.Now()
	for range 64 {
		wg.Go(func() {
			for range 100_000 / 64 {
				if _, err := limiter.Allow(context.Background(), "k"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	seconds := int(time.Since(started)/time.Second) + 1
	if calls := server.Calls("evalsha"); calls > 20+10*seconds {
		t.Errorf("100,000 calls in %d s asked Redis %d times", seconds, calls)
	}
}

func TestADenialFromMemoryNamesTheWaitAfterWhichTheCallIsAllowed(t *testing.T) {
	t.Parallel()
	limiter := newLimiter(t, newStore(t, clientOf(t, redistest.Start(t).Addr())), ratelimit.PerSecond(100).WithBurst(5))
	for i := range 100 {
		key := fmt.Sprint(i)
		res := allow(t, limiter, key)
		for res.Allowed || res.Source != ratelimit.SourceShortcut {
			res = allow(t, limiter, key)
		}
		time.Sleep(res.RetryAfter)
		if res := allow(t, limiter, key); !res.Allowed {
			t.Errorf("denied again after the wait, for another %v", res.RetryAfter)
		}
	}
}

func TestTheShortcutForgetsWhatWasGivenBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	limiter := newLimiter(t, newStore(t, clientOf(t, redistest.Start(t).Addr())), never(2), ratelimit.WithLimit(ratelimit.PerDay(1000)))
	giveBack := map[string]func(key string) error{
		"refund": func(key string) error { return limiter.Refund(ctx, key, 1) },
		"reset":  func(key string) error { return limiter.Reset(ctx, key) },
	}
	for name, give := range giveBack {
		for range 200 {
			for allow(t, limiter, name).Source != ratelimit.SourceShortcut {
			}
			if err := give(name); err != nil {
				t.Fatal(err)
			}
			if res := allow(t, limiter, name); !res.Allowed {
				t.Fatalf("denied by the %v right after a %s", res.Source, name)
			}
		}
	}
}

func TestAnotherInstancesResetIsSeenWithinASecond(t *testing.T) {
	t.Parallel()
	rdb := clientOf(t, redistest.Start(t).Addr())
	limiter, other := newLimiter(t, newStore(t, rdb), never(1)), newLimiter(t, newStore(t, rdb), never(1))
	for allow(t, limiter, "k").Source != ratelimit.SourceShortcut {
	}
	if err := other.Reset(context.Background(), "k"); err != nil {
		t.Fatal(err)
	}
	reset := time.Now()
	for !allow(t, limiter, "k").Allowed {
		if time.Since(reset) > 10*time.Second {
			t.Fatal("still denied 10 s later")
		}
	}
}

func TestWithoutShortcutEveryDenialIsTheStores(t *testing.T) {
	t.Parallel()
	store := newStore(t, clientOf(t, redistest.Start(t).Addr()), redisstore.WithoutShortcut())
	limiter := newLimiter(t, store, never(1))
	for range 10 {
		if res := allow(t, limiter, "k"); res.Source != ratelimit.SourceStore {
			t.Fatalf("decided by %v", res.Source)
		}
	}
}
