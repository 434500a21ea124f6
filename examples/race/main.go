// Command race shows why a limiter must read, decide and write in one step.
//
// Several instances of a service share a limit in one Redis, and all get busy at
// once. They ask a naive limiter, which reads a counter, decides, and writes it
// back; and then, under the same load, ours.
//
//	go run ./race
//
// REDIS_URL names a Redis, as in the other examples.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/examples/internal/service"
)

const (
	instances = 8
	callers   = 2   // of each instance, at the same time
	calls     = 100 // of each caller
	limit     = 100
)

// limiter is one instance's: may this call proceed?
type limiter func(ctx context.Context, key string) (bool, error)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "race:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	e, err := service.Open()
	if err != nil {
		return err
	}
	defer e.Close()
	fmt.Printf("examples/race: %d instances make %d calls at once, of which %d may pass, on %s\n",
		instances, instances*callers*calls, limit, e.Where)
	for _, contestant := range []struct {
		name string
		make func(*redis.Client) (limiter, error)
	}{
		{"naive: read, decide, write", naive},
		{"ours: one script", ours},
	} {
		admitted, err := race(ctx, e, contestant.make)
		if err != nil {
			return fmt.Errorf("%s: %w", contestant.name, err)
		}
		fmt.Printf("%-28s admitted %3d, %d too many\n", contestant.name, admitted, max(0, admitted-limit))
	}
	return nil
}

// naive admits a call if a counter is below the limit, and counts it. Between
// its two steps any number of others read the same counter.
func naive(rdb *redis.Client) (limiter, error) {
	return func(ctx context.Context, key string) (bool, error) {
		count, err := rdb.Get(ctx, "naive:"+key).Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return false, err
		}
		if count >= limit {
			return false, nil
		}
		return true, rdb.Set(ctx, "naive:"+key, count+1, time.Minute).Err()
	}, nil
}

// ours refills so slowly that no token comes back during the race. It fails
// closed, and is patient, because what failed open would be counted as admitted.
func ours(rdb *redis.Client) (limiter, error) {
	store, err := redisstore.New(rdb, redisstore.WithBudget(5*time.Second))
	if err != nil {
		return nil, err
	}
	l, err := ratelimit.New(store, "race", ratelimit.PerHour(limit), ratelimit.FailClosed())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (bool, error) {
		res, err := l.Allow(ctx, key)
		return res.Allowed, err
	}, nil
}

// race returns how many calls all instances have admitted together. Each has a
// client and a limiter of its own, as in a process of its own.
func race(ctx context.Context, e *service.Env, newLimiter func(*redis.Client) (limiter, error)) (int64, error) {
	key := fmt.Sprint("run:", time.Now().UnixNano()) // a full bucket each time
	var admitted atomic.Int64
	ended := make(chan error, instances*callers)
	for range instances {
		rdb := redis.NewClient(e.Redis.Options())
		defer rdb.Close()
		allow, err := newLimiter(rdb)
		if err != nil {
			return 0, err
		}
		for range callers {
			go func() { ended <- call(ctx, allow, key, &admitted) }()
		}
	}
	var err error
	for range instances * callers {
		err = cmp.Or(err, <-ended)
	}
	return admitted.Load(), err
}

// call makes the calls of one caller.
func call(ctx context.Context, allow limiter, key string, admitted *atomic.Int64) error {
	for range calls {
		ok, err := allow(ctx, key)
		if err != nil {
			return err
		}
		if ok {
			admitted.Add(1)
		}
	}
	return nil
}
