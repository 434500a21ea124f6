package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

// onlyKey returns the one key that the server holds.
func onlyKey(t *testing.T, rdb *redis.Client) string {
	t.Helper()
	keys, err := rdb.Keys(context.Background(), "*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys are %q (%v), want one", keys, err)
	}
	return keys[0]
}

func TestAKeyExpiresInTheMillisecondAfterItsBucketIsFull(t *testing.T) {
	t.Parallel()
	server := newClocked(t)
	rdb := clientOf(t, server.Addr())
	limiter := newLimiter(t, newStore(t, rdb, redisstore.WithoutShortcut()), ratelimit.Per(3, time.Second).WithBurst(10))
	ctx := context.Background()

	check := func(what string) {
		t.Helper()
		res, err := limiter.Peek(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		ttl := server.TTL(onlyKey(t, rdb))
		if ttl < res.ResetAfter || ttl > res.ResetAfter+time.Millisecond {
			t.Errorf("%s: the key lives for %v, the bucket is full in %v", what, ttl, res.ResetAfter)
		}
	}
	allow(t, limiter, "k")
	check("a take")
	server.advance(123_456 * time.Microsecond)
	for range 12 {
		allow(t, limiter, "k")
	}
	check("denials")
	if err := limiter.Refund(ctx, "k", 4); err != nil {
		t.Fatal(err)
	}
	check("a refund")
	rdb.Persist(ctx, onlyKey(t, rdb))
	allow(t, limiter, "k")
	check("a take of a persisted key")
	server.advance(-48 * time.Hour)
	allow(t, limiter, "k")
	check("a denial after the clock was set back")
}

func TestAKeyExpiresOnARealServerToo(t *testing.T) {
	t.Parallel()
	rdb := clientOf(t, redistest.Start(t).Addr())
	ctx := context.Background()
	for _, limit := range []ratelimit.Limit{ratelimit.PerSecond(3).WithBurst(10), ratelimit.PerDay(1), never(1_000_000), ratelimit.Per(1_000_000, time.Second)} {
		rdb.FlushAll(ctx)
		allow(t, newLimiter(t, newStore(t, rdb), limit), "k")
		key := onlyKey(t, rdb)
		fullAt, err := rdb.Get(ctx, key).Int64()
		if errors.Is(err, redis.Nil) {
			continue // a microsecond's worth is gone already
		}
		if err != nil {
			t.Fatal(err)
		}
		expires := rdb.PExpireTime(ctx, key).Val().Milliseconds()
		if want := (fullAt + 999) / 1000; expires != want {
			t.Errorf("limit %v: full at %d µs, the key expires at %d ms, want %d", limit, fullAt, expires, want)
		}
	}
}

func TestKeysOfARealServerHoldTheSameBucketsAsTheModel(t *testing.T) {
	t.Parallel()
	rdb := clientOf(t, redistest.Start(t).Addr())
	limiter := newLimiter(t, newStore(t, rdb), ratelimit.Per(10, time.Second).WithBurst(20))
	before := time.Now().UnixMicro()
	allow(t, limiter, "user:42")
	after := time.Now().UnixMicro()
	if key := onlyKey(t, rdb); key != "rl1:1jk{test:user:42}" { // 2,000 ms
		t.Errorf("the key is %q", key)
	}
	fullAt, err := rdb.Get(context.Background(), "rl1:1jk{test:user:42}").Int64()
	if err != nil {
		t.Fatal(err)
	}
	if fullAt < before+100_000 || fullAt > after+100_000 {
		t.Errorf("full at %d, want 100 ms after a time in [%d, %d]", fullAt, before, after)
	}
}

func TestADenialWritesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limiter := newLimiter(t, newStore(t, clientOf(t, server.Addr()), redisstore.WithoutShortcut()), never(1))
	allow(t, limiter, "k")
	writes := server.Calls("set")
	for range 100 {
		if allow(t, limiter, "k").Allowed {
			t.Fatal("a call above the limit is allowed")
		}
	}
	if now := server.Calls("set"); now != writes {
		t.Errorf("100 denials made %d writes", now-writes)
	}
}

func TestAKeyThatHoldsSomethingElseIsAConfigurationError(t *testing.T) {
	t.Parallel()
	genuine := func(t *testing.T) string { return redistest.Start(t).Addr() }
	fake := func(t *testing.T) string { return newClocked(t).Addr() }
	for name, start := range map[string]func(*testing.T) string{"redis": genuine, "miniredis": fake} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := clientOf(t, start(t))
			ctx := context.Background()
			limiter := newLimiter(t, newStore(t, rdb), never(5))
			allow(t, limiter, "k")
			key := onlyKey(t, rdb)
			rdb.Del(ctx, key)
			rdb.SAdd(ctx, key, "member")

			res, err := limiter.Allow(ctx, "k")
			var config *redisstore.ConfigError
			if !errors.As(err, &config) || !errors.Is(err, ratelimit.ErrMisconfigured) || !errors.Is(err, ratelimit.ErrUnavailable) {
				t.Fatalf("Allow: %v, %v; want a ConfigError", res, err)
			}
			if config.Limiter != "test" || !strings.Contains(config.Error(), "WRONGTYPE") {
				t.Errorf("the error is %q, want the limiter and WRONGTYPE", config)
			}
			if members := rdb.SMembers(ctx, key).Val(); len(members) != 1 {
				t.Errorf("the key now holds %q", members)
			}
		})
	}
}

func TestAValueThatIsNoNumberIsAConfigurationError(t *testing.T) {
	t.Parallel()
	rdb := clientOf(t, redistest.Start(t).Addr())
	ctx := context.Background()
	limiter := newLimiter(t, newStore(t, rdb), never(5))
	allow(t, limiter, "k")
	rdb.Set(ctx, onlyKey(t, rdb), "soon", 0)
	if _, err := limiter.Allow(ctx, "k"); !errors.Is(err, ratelimit.ErrMisconfigured) {
		t.Errorf("Allow: %v, want ErrMisconfigured", err)
	}
}

func TestAwkwardKeysAreDistinctAndBoundedAndSpreadOverSlots(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	t.Cleanup(func() { _ = rdb.Close() })
	ctx := context.Background()
	limiter := newLimiter(t, newStore(t, rdb), never(1), ratelimit.WithLimit(ratelimit.PerHour(100)))

	keys := []string{
		"{", "}{", "{}", "a{b}c", "a{b}d", "{a}1", "{a}2", "a:b", "a", ":b", " ", "\n", "\x00", "\xff",
		"#", "#5", strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("y", 1<<20), strings.Repeat("z", 1<<20),
	}
	for i := range 80 {
		keys = append(keys, fmt.Sprintf("{same}%d", i))
	}
	for _, key := range keys {
		if !allow(t, limiter, key).Allowed {
			t.Errorf("key %.20q shares a bucket with another", key)
		}
	}
	slots := make(map[int]int)
	for _, node := range cluster.Nodes {
		for _, key := range clientOf(t, node.Addr()).Keys(ctx, "*").Val() {
			slots[cluster.Slot(key)]++
			if len(key) > 200 {
				t.Errorf("a stored key has %d bytes", len(key))
			}
		}
	}
	for slot, buckets := range slots {
		if buckets > 6 { // two limits, and some chance
			t.Errorf("slot %d holds %d buckets: callers can choose a slot", slot, buckets)
		}
	}
	if len(slots) < 80 {
		t.Errorf("%d keys went to %d slots", len(keys), len(slots))
	}
}
