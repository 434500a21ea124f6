package redisstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
)

// embedded is a Redis to run the examples on.
func embedded() (addr string, stop func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	return server.Addr(), server.Close
}

func Example() {
	addr, stop := embedded()
	defer stop()

	opts := redisstore.Options() // or any client there is already
	opts.Addr = addr
	rdb := redis.NewClient(opts)
	defer func() { _ = rdb.Close() }()

	store, err := redisstore.New(rdb)
	if err != nil {
		panic(err)
	}
	limiter, err := ratelimit.New(store, "api", ratelimit.PerHour(2))
	if err != nil {
		panic(err)
	}
	for range 3 {
		res, err := limiter.Allow(context.Background(), "user:42")
		if err != nil {
			panic(err)
		}
		fmt.Println(res.Allowed, res.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}

// Two services on one Redis keep apart with a prefix. Logins fail closed, and
// wait a little longer for Redis than others do.
func ExampleNew() {
	addr, stop := embedded()
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = rdb.Close() }()

	store, err := redisstore.New(rdb,
		redisstore.WithPrefix("shop:"),
		redisstore.WithBudget(250*time.Millisecond))
	if err != nil {
		panic(err)
	}
	logins, err := ratelimit.New(store, "login", ratelimit.PerMinute(5), ratelimit.FailClosed())
	if err != nil {
		panic(err)
	}
	res, err := logins.Allow(context.Background(), "address:203.0.113.7")
	fmt.Println(res.Allowed, res.Remaining, err)
	fmt.Println(rdb.Keys(context.Background(), "*").Val())
	// Output:
	// true 4 <nil>
	// [shop:rl1:1aao{login:address:203.0.113.7}]
}
