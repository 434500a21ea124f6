package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

// trouble is a state in which Redis answers, and says that it cannot decide now.
type trouble struct {
	code  string
	cause func(t *testing.T, srv *redistest.Server)
	cure  func(t *testing.T, srv *redistest.Server)
}

var troubles = []trouble{{
	code:  "READONLY",
	cause: func(_ *testing.T, srv *redistest.Server) { srv.Do("REPLICAOF", "127.0.0.1", "1") },
	cure:  func(_ *testing.T, srv *redistest.Server) { srv.Do("REPLICAOF", "NO", "ONE") },
}, {
	code: "MASTERDOWN",
	cause: func(_ *testing.T, srv *redistest.Server) {
		srv.Do("CONFIG", "SET", "replica-serve-stale-data", "no")
		srv.Do("REPLICAOF", "127.0.0.1", "1")
	},
	cure: func(_ *testing.T, srv *redistest.Server) { srv.Do("REPLICAOF", "NO", "ONE") },
}, {
	code:  "OOM",
	cause: func(_ *testing.T, srv *redistest.Server) { srv.Do("CONFIG", "SET", "maxmemory", "1") },
	cure:  func(_ *testing.T, srv *redistest.Server) { srv.Do("CONFIG", "SET", "maxmemory", "0") },
}, {
	code: "NOREPLICAS",
	cause: func(_ *testing.T, srv *redistest.Server) {
		srv.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	},
	cure: func(_ *testing.T, srv *redistest.Server) {
		srv.Do("CONFIG", "SET", "min-replicas-to-write", "0")
	},
}, {
	code: "BUSY",
	cause: func(t *testing.T, srv *redistest.Server) {
		srv.Do("CONFIG", "SET", "busy-reply-threshold", "1")
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = srv.Try("EVAL", "while true do end", "0") }) // ends by SCRIPT KILL
		t.Cleanup(wg.Wait)
		await(t, "a busy server", func() bool {
			_, err := srv.Try("PING")
			return err != nil && strings.HasPrefix(err.Error(), "BUSY")
		})
	},
	cure: func(_ *testing.T, srv *redistest.Server) { srv.Do("SCRIPT", "KILL") },
}}

func TestItRecoversFromATroubleThatRedisTellsWithoutARestart(t *testing.T) {
	t.Parallel()
	for _, trouble := range troubles {
		t.Run(trouble.code, func(t *testing.T) {
			t.Parallel()
			eachClient(t, func(t *testing.T, opts *redis.Options) {
				srv := redistest.Start(t)
				l := limit(t, connectTo(t, opts, srv.Addr()))
				warm(t, l)
				trouble.cause(t, srv)
				if res := decide(t, l, "user"); res.Source != ratelimit.SourcePolicy || !strings.Contains(fmt.Sprint(res.Cause), trouble.code) {
					t.Errorf("decided by %v because of %v, want by the policy because of %s", res.Source, res.Cause, trouble.code)
				}
				await(t, "the breaker to open", func() bool { return opened(t, l) })
				trouble.cure(t, srv)
				if took := awaitRecovery(t, l); took > 2*time.Second+slack {
					t.Errorf("recovered after %v, want about a second", took)
				}
				if longest := l.decisions.longest(); longest > budget+slack {
					t.Errorf("longest decision took %v, budget is %v", longest, budget)
				}
			})
		})
	}
}

// A real server is LOADING for a moment only.
func TestItRecoversFromLoading(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, opts *redis.Options) {
		srv := miniredis.RunT(t)
		l := limit(t, connectTo(t, opts, srv.Addr()))
		warm(t, l)
		srv.SetError("LOADING Redis is loading the dataset in memory")
		await(t, "the breaker to open", func() bool { return opened(t, l) })
		srv.SetError("")
		if took := awaitRecovery(t, l); took > 2*time.Second+slack {
			t.Errorf("recovered after %v, want about a second", took)
		}
	})
}

// refuses is one call that Redis refuses for a reason an operator has to cure.
func refuses(t *testing.T, l watched, key, code string) {
	t.Helper()
	const calls = 50
	for range calls {
		res := decide(t, l, key)
		var config *redisstore.ConfigError
		if res.Source != ratelimit.SourcePolicy || !errors.As(res.Cause, &config) || !errors.Is(res.Cause, ratelimit.ErrMisconfigured) {
			t.Fatalf("decided by %v because of %v, want a *ConfigError", res.Source, res.Cause)
		}
		if config.Limiter != "api" || config.Advice == "" || !strings.Contains(config.Error(), code) {
			t.Fatalf("cause is %q, want limiter, advice and %s", config, code)
		}
	}
	if lines := l.logged.all(); len(lines) != 1 || !strings.HasPrefix(lines[0], "ERROR") {
		t.Errorf("logged %q after %d calls, want one error", lines, calls)
	}
}

func TestAKeyThatHoldsSomethingElseIsToldAsAConfigurationError(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := limit(t, connectTo(t, &redis.Options{}, srv.Addr()), redisstore.WithoutShortcut(), patient)
	fromStore(t, l, "somebody")
	srv.Do("SADD", "rl1:7ps{api:user}", "x") // 10,000 ms
	srv.Do("CONFIG", "RESETSTAT")
	refuses(t, l, "user", "WRONGTYPE")
	if n := srv.Calls("evalsha") + srv.Calls("eval"); n != 50 {
		t.Errorf("the script ran %d times for 50 calls", n)
	}
	fromStore(t, l, "somebody else")
}

func TestAMissingPasswordIsToldAsAConfigurationError(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.Args("--requirepass", "secret"))
	refuses(t, limit(t, connectTo(t, &redis.Options{}, srv.Addr()), patient), "user", "NOAUTH")
}

func TestAWrongPasswordIsToldAsAConfigurationError(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.Args("--requirepass", "secret"))
	refuses(t, limit(t, connectTo(t, &redis.Options{Password: "wrong"}, srv.Addr()), patient), "user", "WRONGPASS")
}

// documented are the permissions in redisstore's package comment.
const documented = "ACL SETUSER limiter on >password resetchannels ~rl1:* +eval +evalsha +get +set +time +del +ping"

// asUser is a limiter whose client is a user with permissions.
func asUser(t *testing.T, srv *redistest.Server, permissions string, opts *redis.Options, storeOpts ...redisstore.Option) watched {
	t.Helper()
	srv.Do(strings.Fields(permissions)...)
	opts.Username, opts.Password = "limiter", "password"
	opts.ReadTimeout, opts.WriteTimeout = patience, patience // also of a connection's handshake
	return limit(t, connectTo(t, opts, srv.Addr()), storeOpts...)
}

// patient is a budget that no machine exceeds.
var patient = redisstore.WithBudget(patience)

func TestTheDocumentedPermissionsSuffice(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, opts *redis.Options) {
		srv := redistest.Start(t)
		l := asUser(t, srv, documented, opts, patient)
		fromStore(t, l, "user")
		srv.Do("SCRIPT", "FLUSH")
		fromStore(t, l, "user")
		if _, err := l.Peek(t.Context(), "user"); err != nil {
			t.Errorf("Peek: %v", err)
		}
		if err := l.Refund(t.Context(), "user", 1); err != nil {
			t.Errorf("Refund: %v", err)
		}
		if err := l.Reset(t.Context(), "user"); err != nil {
			t.Errorf("Reset: %v", err)
		}
		if err := l.Ping(t.Context()); err != nil {
			t.Errorf("Ping: %v", err)
		}
	})
}

func TestEachDocumentedPermissionIsNeeded(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	uses := map[string]func(watched) error{
		"del":  func(l watched) error { return l.Reset(t.Context(), "user") },
		"ping": func(l watched) error { return l.Ping(t.Context()) },
		"eval": func(l watched) error { srv.Do("SCRIPT", "FLUSH"); return l.Ping(t.Context()) },
	}
	for _, command := range []string{"eval", "evalsha", "get", "set", "time", "del", "ping"} {
		l := asUser(t, srv, strings.ReplaceAll(documented+" ", "+"+command+" ", ""), redisstore.Options(), patient)
		use := uses[command]
		if use == nil {
			use = func(l watched) error { return l.Ping(t.Context()) }
		}
		if err := use(l); !errors.Is(err, ratelimit.ErrMisconfigured) || !strings.Contains(err.Error(), "grant the Redis user") {
			t.Errorf("without +%s: %v, want a misconfiguration with the advice to grant it", command, err)
		}
		srv.Do("ACL", "DELUSER", "limiter")
	}
}

func TestAMissingPermissionIsToldAsAConfigurationError(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	refuses(t, asUser(t, srv, strings.Replace(documented, "+set ", "", 1), redisstore.Options(), patient), "user", "grant the Redis user")
}

func TestATrialIsContentWithoutThePermissionToPing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := asUser(t, srv, strings.Replace(documented, " +ping", "", 1), redisstore.Options())
	warm(t, l)
	srv.Pause()
	await(t, "the breaker to open", func() bool { return opened(t, l) })
	srv.Resume()
	awaitRecovery(t, l)
}

func TestForgottenScriptsFailNoDecision(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, opts *redis.Options) {
		srv := redistest.Start(t)
		rdb := connectTo(t, opts, srv.Addr())
		l := limit(t, rdb, redisstore.WithBudget(30*time.Second))
		const flushes = 200
		under(t, 20, l, func() {
			for range flushes {
				srv.Do("SCRIPT", "FLUSH")
			}
		})
		if all, store := len(l.decisions.all), l.decisions.by(ratelimit.SourceStore); all != store || all == 0 {
			t.Errorf("%d of %d decisions are the store's, want all", store, all)
		}
		if n := srv.Calls("eval"); n < 2 {
			t.Errorf("the script was sent in full %d times: the flushes had no effect", n)
		}
		if lines := l.logged.all(); len(lines) != 0 {
			t.Errorf("logged %q, want nothing", lines)
		}
	})
}

func TestAColdPipelineWorksAfterARestart(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := limit(t, connectTo(t, redisstore.Options(), srv.Addr()), redisstore.WithBudget(30*time.Second))
	fromStore(t, l, "user")
	srv.Restart()
	await(t, "a connection to the new server", func() bool { return l.Ping(t.Context()) == nil })
	srv.Do("SCRIPT", "FLUSH")
	together(100, func(i int) {
		if res, err := l.Allow(context.Background(), fmt.Sprint("user ", i)); err != nil || res.Source != ratelimit.SourceStore {
			t.Errorf("decided by %v because of %v, %v, want by the store", res.Source, res.Cause, err)
		}
	})
}

func TestLogsNameNoKeys(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := limit(t, connectTo(t, redisstore.Options(), srv.Addr()))
	srv.Pause()
	await(t, "the breaker to open", func() bool { return opened(t, l) })
	if slices.ContainsFunc(l.logged.all(), func(line string) bool { return strings.Contains(line, "is it open") }) {
		t.Errorf("logged %q", l.logged.all())
	}
}
