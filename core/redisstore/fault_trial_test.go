package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

// pings counts the trials that a client sends.
func pings(rdb *redis.Client) (sent *atomic.Int64) {
	sent = new(atomic.Int64)
	rdb.AddHook(hook(func(_ context.Context, cmds []redis.Cmder) {
		if cmds[0].Name() == "ping" {
			sent.Add(1)
		}
	}))
	return sent
}

// A paused Redis answers PING: that is a sign of life, and still it decides
// nothing.
func TestTheBreakerStaysOpenWhileRedisAnswersPingsAndHangsOnScripts(t *testing.T) {
	t.Parallel()
	const budget = time.Second // a machine on which a PING takes 0.4 s would seem far away
	eachClient(t, func(t *testing.T, opts *redis.Options) {
		srv := redistest.Start(t)
		opts.ReadTimeout, opts.WriteTimeout = patience, patience // so that the budget ends first
		rdb := connectTo(t, opts, srv.Addr())
		sent, trials := scripts(rdb), pings(rdb)
		l := limit(t, rdb, redisstore.WithBudget(budget))
		warm(t, l)
		srv.Do("CLIENT", "PAUSE", "600000", "WRITE")
		await(t, "the breaker to open", func() bool { return opened(t, l) })
		before, begun := sent.Load(), trials.Load()
		await(t, "two trials", func() bool {
			decide(t, l, "user")
			return trials.Load() >= begun+2
		})
		if calls, tried := sent.Load()-before, trials.Load()-begun; calls > tried {
			t.Errorf("%d calls were sent in %d trials that were not answered", calls, tried)
		}
		srv.Do("CLIENT", "UNPAUSE")
		awaitRecovery(t, l)
	})
}

func TestNobodyElseWaitsForATrial(t *testing.T) {
	t.Parallel()
	rdb := connectTo(t, redisstore.Options(), nobody(t))
	l := limit(t, rdb, redisstore.WithBudget(10*time.Second))
	await(t, "the breaker to open", func() bool { return opened(t, l) })

	end := make(chan struct{})
	var trials atomic.Int64
	rdb.AddHook(hook(func(_ context.Context, cmds []redis.Cmder) {
		if cmds[0].Name() == "ping" {
			trials.Add(1)
			<-end
		}
	}))
	var trying sync.WaitGroup
	defer trying.Wait()
	defer close(end)
	trying.Go(func() {
		for trials.Load() == 0 {
			_, _ = l.Allow(context.Background(), "user")
		}
	})
	await(t, "a trial", func() bool { return trials.Load() == 1 })
	for _, key := range []string{"user", "somebody else"} {
		together(50, func(int) {
			if res := decide(t, l, key); !refused(res.Cause) {
				t.Errorf("%s was decided by %v because of %v, want refused during the trial", key, res.Source, res.Cause)
			}
		})
	}
}

// A caller who sends its own call waits for all that is done on the way, and what
// a service does when it connects need not heed a ctx.
func TestNoDecisionIsHeldByWhatTheClientCallsWhenItConnects(t *testing.T) {
	t.Parallel()
	for name, blocking := range map[string]func(opts *redis.Options, block func()){
		"OnConnect": func(opts *redis.Options, block func()) {
			opts.OnConnect = func(context.Context, *redis.Conn) error {
				block()
				return nil
			}
		},
		"CredentialsProvider": func(opts *redis.Options, block func()) {
			opts.CredentialsProvider = func() (string, string) {
				block()
				return "", ""
			}
		},
		"CredentialsProviderContext": func(opts *redis.Options, block func()) {
			opts.CredentialsProviderContext = func(context.Context) (string, string, error) {
				block()
				return "", "", nil
			}
		},
		"StreamingCredentialsProvider": func(opts *redis.Options, block func()) {
			opts.StreamingCredentialsProvider = subscription(block)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			free := make(chan struct{})
			release := sync.OnceFunc(func() { close(free) })
			defer release()
			defer time.AfterFunc(patience/3, release).Stop() // or the test hangs when it fails
			var blocked atomic.Int64
			opts := redisstore.Options()
			blocking(opts, func() {
				blocked.Add(1)
				<-free
			})
			l := limit(t, connectTo(t, opts, srv.Addr()))
			for i := range 5 {
				if res := decide(t, l, fmt.Sprint("user ", i)); res.Source != ratelimit.SourcePolicy {
					t.Errorf("decided by %v, want by the policy", res.Source)
				}
			}
			if longest := l.decisions.longest(); longest > budget+slack {
				t.Errorf("longest decision took %v, budget is %v", longest, budget)
			}
			if blocked.Load() == 0 {
				t.Error("nothing was called on connecting")
			}
		})
	}
}

// subscription is a source of credentials that calls a function first.
type subscription func()

func (s subscription) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	s()
	return nil, nil, context.Canceled
}
