package redisstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

// What a decision costs in time and allocations. core/benchmarks measures it
// beside other limiters.
func BenchmarkDecision(b *testing.B) {
	opts := redisstore.Options()
	opts.Addr = redistest.Start(b).Addr()
	rdb := redis.NewClient(opts)
	b.Cleanup(func() { _ = rdb.Close() })
	admitted := newLimiter(b, newStore(b, rdb), ratelimit.Per(32, time.Second).WithBurst(1_000_000_000))
	denied := newLimiter(b, newStore(b, rdb), never(1))
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%011d", i)
	}
	for _, bench := range []struct {
		name        string
		limiter     *ratelimit.Limiter
		keys        []string
		parallelism int
	}{
		{"admitted, one caller", admitted, keys, 0},
		{"admitted, 256 callers per processor", admitted, keys, 256},
		{"admitted, one key, 256 callers per processor", admitted, keys[:1], 256},
		{"denied from memory", denied, keys[:1], 32},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			ctx := context.Background()
			if bench.parallelism == 0 {
				for i := 0; b.Loop(); i++ {
					_, _ = bench.limiter.Allow(ctx, bench.keys[i%len(bench.keys)])
				}
				return
			}
			b.SetParallelism(bench.parallelism)
			var callers atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for i := int(callers.Add(7919)); pb.Next(); i++ {
					_, _ = bench.limiter.Allow(ctx, bench.keys[i%len(bench.keys)])
				}
			})
		})
	}
}
