package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

// hook is a hook of go-redis that sees the commands before they are sent.
type hook func(ctx context.Context, cmds []redis.Cmder)

func (h hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h(ctx, []redis.Cmder{cmd})
		return next(ctx, cmd)
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h(ctx, cmds)
		return next(ctx, cmds)
	}
}

// scripts counts the calls of the script that a client sends.
func scripts(rdb *redis.Client) (sent *atomic.Int64) {
	sent = new(atomic.Int64)
	rdb.AddHook(hook(func(_ context.Context, cmds []redis.Cmder) {
		for _, cmd := range cmds {
			if strings.HasPrefix(cmd.Name(), "eval") {
				sent.Add(1)
			}
		}
	}))
	return sent
}

// mentions reports whether the name of a key is in a command.
func mentions(cmd redis.Cmder, key string) bool {
	return slices.ContainsFunc(cmd.Args(), func(arg any) bool { return strings.Contains(fmt.Sprintf("%s", arg), key) })
}

func TestAPanickingHookFailsOnlyItsOwnPipeline(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := connectTo(t, &redis.Options{ReadTimeout: patience, WriteTimeout: patience}, srv.Addr())
	rdb.AddHook(hook(func(_ context.Context, cmds []redis.Cmder) {
		for _, cmd := range cmds {
			if mentions(cmd, "boom") {
				panic("boom")
			}
		}
	}))
	l := limit(t, rdb, redisstore.WithoutBatch(), patient)
	for range 20 {
		together(20, func(i int) { fromStore(t, l, fmt.Sprint("user ", i)) })
		res := decide(t, l, "boom")
		if res.Source != ratelimit.SourcePolicy || !strings.Contains(fmt.Sprint(res.Cause), "panic") {
			t.Errorf("decided by %v because of %v, want by the policy because of a panic", res.Source, res.Cause)
		}
	}
}

func TestAPanickingHookFailsPing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := connectTo(t, redisstore.Options(), srv.Addr())
	rdb.AddHook(hook(func(context.Context, []redis.Cmder) { panic("boom") }))
	if err := limit(t, rdb).Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "panic") {
		t.Errorf("Ping: %v, want the panic as an error", err)
	}
}

// When calls are stuck, those behind them are late, which is not Redis' fault:
// one hiccup would open the breaker otherwise.
func TestCallersWhoHaveWaitedForOthersAreNoFailuresOfRedis(t *testing.T) {
	t.Parallel()
	const budget = time.Second
	srv := redistest.Start(t)
	rdb := connectTo(t, &redis.Options{ReadTimeout: budget, WriteTimeout: budget}, srv.Addr())
	free := make(chan struct{})
	var stuck sync.WaitGroup
	var sent atomic.Int64
	rdb.AddHook(hook(func(context.Context, []redis.Cmder) {
		if sent.Add(1) <= 2 { // as many as go out before anything is known of Redis
			stuck.Add(1)
			defer stuck.Done()
			<-free
		}
	}))
	l := limit(t, rdb, redisstore.WithBudget(budget))
	together(2_000, func(i int) { decide(t, l, fmt.Sprint("user ", i)) })
	if n := l.decisions.by(ratelimit.SourcePolicy); n < 2 {
		t.Errorf("the policy decided %d calls, want those that were stuck at least", n)
	}
	fromStore(t, l, "user")
	close(free)
	stuck.Wait()
}
