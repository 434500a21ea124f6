package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

// faults are ways in which Redis can be gone. Each returns the address.
var faults = map[string]func(t *testing.T) string{
	"port refused": nobody,
	"accepts and never answers": func(t *testing.T) string {
		addr, _ := deaf(t)
		return addr
	},
	"process stopped": func(t *testing.T) string {
		srv := redistest.Start(t)
		srv.Pause()
		return srv.Addr()
	},
}

func TestDecisionsEndWithinTheBudgetWhenRedisIsGone(t *testing.T) {
	t.Parallel()
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachClient(t, func(t *testing.T, opts *redis.Options) {
				l := limit(t, connectTo(t, opts, fault(t)))
				for range 3 {
					together(50, func(i int) {
						if res := decide(t, l, fmt.Sprint("user ", i)); res.Source != ratelimit.SourcePolicy || !res.Allowed {
							t.Errorf("got %+v, want allowed by the policy", res)
						}
					})
				}
				if longest := l.decisions.longest(); longest > budget+slack {
					t.Errorf("longest decision took %v, budget is %v", longest, budget)
				}
				await(t, "the breaker to open", func() bool { return opened(t, l) })
			})
		})
	}
}

func TestAWrappedClientIsBoundedToo(t *testing.T) {
	t.Parallel()
	addr, _ := deaf(t)
	rdb := connectTo(t, &redis.Options{ReadTimeout: 2 * time.Second}, addr)
	l := limit(t, struct{ redis.UniversalClient }{rdb})
	for range 20 {
		together(20, func(i int) { decide(t, l, fmt.Sprint("user ", i)) })
	}
	if longest := l.decisions.longest(); longest > budget+slack {
		t.Errorf("longest decision took %v, budget is %v", longest, budget)
	}
	if !opened(t, l) {
		t.Error("the breaker is not open after 20 rounds without an answer")
	}
}

func TestAClientThatNeverComesBackIsBoundedToo(t *testing.T) {
	t.Parallel()
	// With these timeouts the client is left as it is, and the hook is kept.
	rdb := connectTo(t, &redis.Options{ReadTimeout: budget, WriteTimeout: budget}, nobody(t))
	free := make(chan struct{})
	release := sync.OnceFunc(func() { close(free) })
	defer release()
	time.AfterFunc(patience, release) // or the test hangs when it fails
	var held atomic.Int64
	rdb.AddHook(hook(func(context.Context, []redis.Cmder) {
		held.Add(1)
		<-free
	}))
	l := limit(t, rdb)
	for range 100 {
		together(20, func(i int) { decide(t, l, fmt.Sprint("user ", i)) })
	}
	if longest := l.decisions.longest(); longest > budget+slack {
		t.Errorf("longest decision took %v, budget is %v", longest, budget)
	}
	if n := held.Load(); n == 0 || n > 32 {
		t.Errorf("%d calls are held by the client, want a few", n)
	}
}

func TestTheServiceStartsWithoutRedisAndFindsItLater(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Kill()
	eachClient(t, func(t *testing.T, opts *redis.Options) {
		srv := redistest.Start(t)
		srv.Kill()
		l := limit(t, connectTo(t, opts, srv.Addr()))
		if res := decide(t, l, "user"); res.Source != ratelimit.SourcePolicy {
			t.Errorf("decided by %v, want by the policy", res.Source)
		}
		srv.Restart()
		awaitRecovery(t, l)
	})
}

func TestNothingIsDialledPerRequestWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	const requests = 20_000
	eachClient(t, func(t *testing.T, opts *redis.Options) {
		var dialled atomic.Int64
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			dialled.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
		l := limit(t, connectTo(t, opts, nobody(t)))
		await(t, "the breaker to open", func() bool { return opened(t, l) })
		before, start := dialled.Load(), time.Now()
		took := make([]time.Duration, requests)
		for i := range took {
			began := time.Now()
			decide(t, l, fmt.Sprint("user ", i%100))
			took[i] = time.Since(began)
		}
		// One trial each half second, of at most five dials, and go-redis' own
		// retries of the dials before.
		bound := 5 * (10 + 2*int64(time.Since(start)/time.Second+1))
		if n := dialled.Load() - before; n > bound {
			t.Errorf("%d dials during %d decisions in %v, want at most %d", n, requests, time.Since(start), bound)
		}
		slices.Sort(took)
		if median := took[requests/2]; median > time.Millisecond {
			t.Errorf("median decision takes %v, want below 1 ms", median)
		}
	})
}

// breakage is a way to take a server away and to bring it back.
type breakage struct {
	args  []string
	lose  func(*redistest.Server)
	mend  func(*redistest.Server)
	keeps bool // the buckets
}

var breakages = map[string]breakage{
	"stopped": {
		lose: (*redistest.Server).Pause, mend: (*redistest.Server).Resume, keeps: true,
	},
	"killed and empty": {
		lose: (*redistest.Server).Kill, mend: (*redistest.Server).Restart,
	},
	"killed with an append-only file": {
		args: []string{"--appendonly", "yes", "--appendfsync", "always"},
		lose: (*redistest.Server).Kill, mend: (*redistest.Server).Restart, keeps: true,
	},
}

func TestItRecoversByItselfWithinAboutASecond(t *testing.T) {
	t.Parallel()
	for name, b := range breakages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachClient(t, func(t *testing.T, opts *redis.Options) {
				srv := redistest.Start(t, redistest.Args(b.args...))
				l := limit(t, connectTo(t, opts, srv.Addr()))
				warm(t, l)
				slow, err := l.With(ratelimit.PerHour(10))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := slow.AllowN(t.Context(), "hourly", 10); err != nil {
					t.Fatal(err)
				}
				b.lose(srv)
				under(t, 20, l, func() {
					await(t, "the breaker to open", func() bool { return opened(t, l) })
				})
				b.mend(srv)
				if took := awaitRecovery(t, l); took > 2*time.Second+slack {
					t.Errorf("recovered after %v, want about a second", took)
				}
				if longest := l.decisions.longest(); longest > budget+slack {
					t.Errorf("longest decision took %v, budget is %v", longest, budget)
				}
				res, err := slow.Peek(t.Context(), "hourly")
				if err != nil {
					t.Fatal(err)
				}
				if kept := res.Remaining == 0; kept != b.keeps {
					t.Errorf("the bucket has %d tokens left; kept %t, want %t", res.Remaining, kept, b.keeps)
				}
			})
		})
	}
}

// After as many failed dials as the pool has connections, go-redis dials only
// once a second, in a goroutine of its own.
func TestItRecoversWhenThePoolHasGivenUpDialling(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Kill()
	opts := redisstore.Options()
	opts.PoolSize = 1
	l := limit(t, connectTo(t, opts, srv.Addr()))
	await(t, "the breaker to open", func() bool { return opened(t, l) })
	srv.Restart()
	if took := awaitRecovery(t, l); took > 2*time.Second+slack {
		t.Errorf("recovered after %v, want about a second", took)
	}
}

func TestOneLineIsLoggedWhenRedisIsLostAndOneWhenItIsBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := limit(t, connectTo(t, redisstore.Options(), srv.Addr()))
	warm(t, l)
	srv.Pause()
	under(t, 20, l, func() {
		await(t, "the breaker to open", func() bool { return opened(t, l) })
		srv.Resume()
		await(t, "the second line", func() bool { return len(l.logged.all()) >= 2 })
	})
	want := []string{"WARN ratelimit: store is lost, the failure policy decides", "INFO ratelimit: store is back"}
	if got := l.logged.all(); !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
}

// opaque is a connection whose end go-redis does not see before it uses it, as
// with TLS.
type opaque struct{ net.Conn }

func TestConnectionsThatHaveEndedDoNotDelayTheRecovery(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, opts *redis.Options) {
		srv := redistest.Start(t)
		opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return opaque{conn}, err
		}
		rdb := connectTo(t, opts, srv.Addr())
		together(15, func(int) { _ = rdb.BLPop(context.Background(), time.Second, "a list").Err() })
		l := limit(t, rdb)
		warm(t, l)
		srv.Kill()
		srv.Restart()
		if took := awaitRecovery(t, l); took > 2*time.Second+slack {
			t.Errorf("recovered after %v, want about a second", took)
		}
	})
}
