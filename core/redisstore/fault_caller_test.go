package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

func TestCallersThatLeaveCountForNothing(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, opts *redis.Options) {
		srv := redistest.Start(t)
		opts.ReadTimeout = 30 * time.Second // also that of a connection's handshake
		l := limit(t, connectTo(t, opts, srv.Addr()), redisstore.WithBudget(30*time.Second))
		fromStore(t, l, "user")
		srv.Pause()
		for round := range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			together(10, func(i int) {
				if _, err := l.Allow(ctx, fmt.Sprint(round, " user ", i)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Allow: %v, want ctx's own error", err)
				}
			})
			cancel()
		}
		srv.Resume()
		fromStore(t, l, "user") // the breaker is closed
		if n := l.decisions.by(ratelimit.SourcePolicy); n != 0 {
			t.Errorf("the policy decided %d calls of callers who had left", n)
		}
		if lines := l.logged.all(); len(lines) != 0 {
			t.Errorf("logged %q, want nothing", lines)
		}
	})
}

// A caller that nobody else keeps company sends its call itself with a client
// that heeds ctx, and is let go when the budget ends at the latest.
func TestACallerIsLetGoWhenItsCtxIsCancelled(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := limit(t, connectTo(t, &redis.Options{ReadTimeout: patience}, srv.Addr()), redisstore.WithBudget(patience))
	prompt := limit(t, connectTo(t, redisstore.Options(), srv.Addr()))
	warm(t, l)
	warm(t, prompt)
	srv.Pause()
	for limiter, most := range map[watched]time.Duration{l: patience / 2, prompt: budget + slack} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		start := time.Now()
		if _, err := limiter.Allow(ctx, "user"); !errors.Is(err, context.Canceled) {
			t.Errorf("Allow: %v, want context.Canceled", err)
		}
		if took := time.Since(start); took > most {
			t.Errorf("it took %v to let a caller go, want at most %v", took, most)
		}
	}
	srv.Resume()
}

func TestCallersWhoseCtxHasEndedDoNotReachRedis(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := limit(t, connectTo(t, redisstore.Options(), srv.Addr()))
	warm(t, l)
	before := runs(srv)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if _, err := l.Allow(ctx, "user"); !errors.Is(err, context.Canceled) {
			t.Fatalf("Allow: %v, want context.Canceled", err)
		}
	}
	if n := runs(srv) - before; n != 0 {
		t.Errorf("the script ran %d times", n)
	}
}

func TestTheBreakerOpensWhenAllCallersLeaveBeforeTheBudgetEnds(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, opts *redis.Options) {
		srv := redistest.Start(t)
		l := limit(t, connectTo(t, opts, srv.Addr()))
		warm(t, l)
		srv.Pause()
		await(t, "the breaker to open", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), budget/10)
			defer cancel()
			res, err := l.Allow(ctx, "user")
			return err == nil && refused(res.Cause)
		})
	})
}

func TestWhatWasSentMayBeChargedLateAndNothingMore(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, opts *redis.Options) {
		srv := redistest.Start(t)
		opts.ReadTimeout, opts.WriteTimeout = budget, budget // so that the hook is kept
		rdb := connectTo(t, opts, srv.Addr())
		sent, trials := scripts(rdb), new(atomic.Int64)
		rdb.AddHook(hook(func(_ context.Context, cmds []redis.Cmder) {
			if cmds[0].Name() == "ping" {
				trials.Add(1)
			}
		}))
		l := limit(t, rdb)
		warm(t, l)
		before := sent.Load()
		await(t, "what was sent to be carried out", func() bool { return runs(srv) == int(before) })
		ran := int(before)
		srv.Pause()
		var whenOpen int64
		under(t, 50, l, func() {
			await(t, "the breaker to open", func() bool { return opened(t, l) })
			await(t, "what was about to be sent", func() bool { return trials.Load() >= 1 })
			whenOpen = sent.Load()
			await(t, "two more trials", func() bool { return trials.Load() >= 3 })
		})
		if n := sent.Load(); n != whenOpen {
			t.Errorf("%d calls were sent after the breaker had opened", n-whenOpen)
		}
		srv.Resume()
		awaitRecovery(t, l)
		await(t, "the last reply", func() bool { return srv.Info("blocked_clients") == "0" })
		if late, most := runs(srv)-ran, int(sent.Load()-before); late > most {
			t.Errorf("%d calls were charged, %d were sent", late, most)
		}
	})
}

func TestConnectionsAndGoroutinesAreBoundedWhenRedisHangs(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, opts *redis.Options) {
		srv := redistest.Start(t)
		var conns counted
		opts.Dialer = conns.dial
		l := limit(t, connectTo(t, opts, srv.Addr()))
		warm(t, l)
		srv.Pause()
		under(t, 200, l, func() {
			await(t, "the breaker to open", func() bool { return opened(t, l) })
		})
		// Those of go-redis' two pools.
		if n, most := conns.most.Load(), int64(10*runtime.GOMAXPROCS(0)+10); n > most {
			t.Errorf("%d connections at once, want at most %d", n, most)
		}
		srv.Resume()
		awaitRecovery(t, l)
	})
}

// counted counts the connections that are open.
type counted struct{ open, most atomic.Int64 }

func (c *counted) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	n := c.open.Add(1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	return &countedConn{Conn: conn, counted: c}, nil
}

type countedConn struct {
	net.Conn
	counted *counted
	closed  sync.Once
}

func (c *countedConn) Close() error {
	c.closed.Do(func() { c.counted.open.Add(-1) })
	return c.Conn.Close()
}
