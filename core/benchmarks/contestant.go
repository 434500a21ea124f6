package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
)

// contestant is a limiter that is measured. allow reports whether a call of cost
// 1 is admitted; its error means that nobody has decided.
type contestant struct {
	name  string
	ours  bool
	peer  bool
	allow func(ctx context.Context, key string) (bool, error)
}

// The names under which contestants are printed.
const (
	ours            = "ours"
	withoutBatch    = "ours, WithoutBatch"
	withoutShortcut = "ours, WithoutShortcut"
	bare            = "bare EVALSHA, our script"
	redisRate       = "redis_rate"
	throttledRate   = "throttled"
	ulule           = "ulule/limiter"
)

var peers = []string{redisRate, throttledRate, ulule}

// limits that workloads use.
var (
	// plenty admits whatever is asked of it. It refills as slowly as a burst of
	// 1e9 may, since a bucket that is full again is gone from Redis.
	plenty = ratelimit.PerSecond(32).WithBurst(1e9)
	// lasting admits thousands, and keeps each key that was ever asked for.
	lasting = ratelimit.PerHour(1).WithBurst(8000)
	// ordinary is the limit of an API.
	ordinary = ratelimit.PerSecond(10).WithBurst(20)
	// logins is the limit of a login form.
	logins = ratelimit.PerMinute(5)
	// none leaves a key empty for a day once it has been asked for.
	none = ratelimit.PerDay(1)
)

// clientOptions are what every client gets, ours and the others'. They are
// go-redis' defaults, because the documentation of each limiter starts with
// redis.NewClient(&redis.Options{Addr: ...}).
func (b *bench) clientOptions() *redis.Options {
	options := &redis.Options{}
	if b.fit {
		options = redisstore.Options()
	}
	options.Addr, options.PoolSize = b.server.Addr(), b.pool
	return options
}

// describeClients says which options the clients have.
func (b *bench) describeClients() string {
	options, pool := "go-redis' default options", "10 connections per processor"
	if b.fit {
		options = "redisstore.Options()"
	}
	if b.pool != 0 {
		pool = fmt.Sprintf("%d connections", b.pool)
	}
	return options + ", " + pool
}

// enter makes the contestants of these names, each on a client of its own.
// leave closes the clients.
func (b *bench) enter(ctx context.Context, limit ratelimit.Limit, names ...string) (_ []contestant, leave func(), err error) {
	var clients []*redis.Client
	leave = func() {
		for _, rdb := range clients {
			_ = rdb.Close()
		}
	}
	contestants := make([]contestant, 0, len(names))
	for _, name := range names {
		rdb := redis.NewClient(b.clientOptions())
		clients = append(clients, rdb)
		c, err := newContestant(ctx, rdb, limit, name)
		if err != nil {
			leave()
			return nil, nil, err
		}
		contestants = append(contestants, c)
	}
	return contestants, leave, nil
}

func newContestant(ctx context.Context, rdb *redis.Client, limit ratelimit.Limit, name string) (contestant, error) {
	switch name {
	case ours:
		return newOurs(rdb, limit, name, "ours")
	case withoutBatch:
		return newOurs(rdb, limit, name, "nobatch", redisstore.WithoutBatch())
	case withoutShortcut:
		return newOurs(rdb, limit, name, "noshortcut", redisstore.WithoutShortcut())
	case bare:
		return newBare(ctx, rdb, limit)
	case redisRate:
		return newRedisRate(rdb, limit), nil
	case throttledRate:
		return newThrottled(rdb, limit)
	default:
		return newUlule(rdb, limit)
	}
}

// newOurs fails closed, so that a call nobody has decided is an error here and
// no decision. The name of the limiter keeps the contestants' buckets apart.
func newOurs(rdb *redis.Client, limit ratelimit.Limit, name, limiterName string, opts ...redisstore.Option) (contestant, error) {
	store, err := redisstore.New(rdb, opts...)
	if err != nil {
		return contestant{}, err
	}
	l, err := ratelimit.New(store, limiterName, limit, ratelimit.FailClosed())
	if err != nil {
		return contestant{}, err
	}
	return contestant{name: name, ours: true, allow: func(ctx context.Context, key string) (bool, error) {
		res, err := l.Allow(ctx, key)
		return res.Allowed, err
	}}, nil
}

// newBare sends the commands that our store sends, to buckets of its own, with
// nothing of ours around them. It does not read the answer, and so calls all of
// them admitted.
func newBare(ctx context.Context, rdb *redis.Client, limit ratelimit.Limit) (contestant, error) {
	decision, err := overhear(ctx, rdb.Options(), limit, ours)
	if err != nil {
		return contestant{}, err
	}
	args := make([]any, len(decision.args))
	for i, arg := range decision.args {
		args[i] = arg
	}
	before, after, _ := strings.Cut(strings.Replace(decision.key, "ours", "bare", 1), sampleKey)
	return contestant{name: bare, allow: func(ctx context.Context, key string) (bool, error) {
		_, err := rdb.EvalSha(ctx, decision.hash, []string{before + key + after}, args...).Result()
		return err == nil, err
	}}, nil
}

func newRedisRate(rdb *redis.Client, limit ratelimit.Limit) contestant {
	l := redis_rate.NewLimiter(rdb)
	theirs := redis_rate.Limit{Rate: limit.Tokens, Burst: burst(limit), Period: limit.Period}
	return contestant{name: redisRate, peer: true, allow: func(ctx context.Context, key string) (bool, error) {
		res, err := l.Allow(ctx, key, theirs)
		return err == nil && res.Allowed > 0, err
	}}
}

// newThrottled counts MaxBurst from the second call on, as throttled does.
func newThrottled(rdb *redis.Client, limit ratelimit.Limit) (contestant, error) {
	store, err := throttledredis.NewCtx(rdb, "throttled:")
	if err != nil {
		return contestant{}, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(limit.Tokens, limit.Period), MaxBurst: burst(limit) - 1}
	l, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return contestant{}, err
	}
	return contestant{name: throttledRate, peer: true, allow: func(ctx context.Context, key string) (bool, error) {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited, err
	}}, nil
}

// newUlule has windows and no burst: a burst in each time in which ours refills
// one, which is the same rate and the same most at once.
func newUlule(rdb *redis.Client, limit ratelimit.Limit) (contestant, error) {
	store, err := ululeredis.NewStore(rdb)
	if err != nil {
		return contestant{}, err
	}
	window := limit.Period / time.Duration(limit.Tokens) * time.Duration(burst(limit))
	l := limiter.New(store, limiter.Rate{Limit: int64(burst(limit)), Period: window})
	return contestant{name: ulule, peer: true, allow: func(ctx context.Context, key string) (bool, error) {
		res, err := l.Get(ctx, key)
		return err == nil && !res.Reached, err
	}}, nil
}

func burst(limit ratelimit.Limit) int {
	if limit.Burst == 0 {
		return limit.Tokens
	}
	return limit.Burst
}

var errNoScript = errors.New("no EVALSHA of one key was sent")
