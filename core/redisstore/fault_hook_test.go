package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

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
	rdb := connectTo(t, redisstore.Options(), srv.Addr())
	rdb.AddHook(hook(func(_ context.Context, cmds []redis.Cmder) {
		for _, cmd := range cmds {
			if mentions(cmd, "boom") {
				panic("boom")
			}
		}
	}))
	l := limit(t, rdb, redisstore.WithoutBatch())
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
