package redisstore_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		os.Exit(work())
	}
	redis.SetLogger(silence{})
	// go-redis' own look-out for a node that refuses connections sleeps for up to a
	// second after its client was closed.
	goleak.VerifyTestMain(redistest.WithSummary(m), goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// clientOf returns a client of default settings that is closed when t ends.
func clientOf(t testing.TB, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// newStore returns a store whose budget does not run out on a slow machine.
func newStore(t testing.TB, rdb redis.UniversalClient, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	store, err := redisstore.New(rdb, append([]redisstore.Option{redisstore.WithBudget(30 * time.Second)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// newLimiter returns a limiter that hides no error of its store.
func newLimiter(t testing.TB, store ratelimit.Store, limit ratelimit.Limit, opts ...ratelimit.Option) *ratelimit.Limiter {
	t.Helper()
	limiter, err := ratelimit.New(store, "test", limit, append(opts, ratelimit.FailClosed())...)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

func allow(t testing.TB, limiter *ratelimit.Limiter, key string) ratelimit.Result {
	t.Helper()
	res, err := limiter.Allow(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// clocked is a miniredis whose clock stands still unless it is advanced.
type clocked struct {
	*miniredis.Miniredis
	now time.Time
}

func newClocked(t testing.TB) *clocked {
	t.Helper()
	c := &clocked{Miniredis: miniredis.RunT(t), now: time.Unix(1_800_000_000, 123_456_000)}
	c.SetTime(c.now)
	return c
}

// advance moves the clock, and lets keys expire by it. miniredis keeps the time
// that a key has left, a real server the instant at which it expires: a step
// back leaves it that much more time.
func (c *clocked) advance(d time.Duration) {
	c.now = c.now.Add(d)
	c.SetTime(c.now)
	if d >= 0 {
		c.FastForward(d)
		return
	}
	for _, key := range c.Keys() {
		if left := c.TTL(key); left > 0 {
			c.SetTTL(key, left-d)
		}
	}
}

// never is a limit of n tokens that do not come back while a test runs.
func never(n int) ratelimit.Limit {
	return ratelimit.Per(1, 365*24*time.Hour/time.Duration(n)).WithBurst(n)
}
