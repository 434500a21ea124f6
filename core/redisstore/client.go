package redisstore

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// Timeouts of a client that is used for limiters. What takes longer than a
// decision may is of no use to it.
const (
	// dialTimeout is longer than the budget, because a connection that is too late
	// for one decision still serves the next ones.
	dialTimeout = time.Second
	ioTimeout   = defaultBudget
)

// Options returns client settings that fit a limiter. Set Addr, credentials and
// what else is particular to the service, and pass them to redis.NewClient:
//
//	opts := redisstore.Options()
//	opts.Addr = "localhost:6379"
//	rdb := redis.NewClient(opts)
//
// Reads, writes and the wait for a free connection end after 100 ms (by default
// 5 s and 6 s), and when their ctx ends. Nothing is retried: the breaker decides
// when to try again. Dialing ends after 1 s, since a connection that is late for
// one decision serves the next; it is tried once (by default five times). With a
// longer budget than by default, raise the three of 100 ms to it.
//
// A lone call is sent on the goroutine of its caller with such a client, which
// saves a good part of its time. A caller whose ctx is cancelled meanwhile, and
// has no deadline within the budget, then learns of it when Redis answers or
// the budget ends; and hooks added to the client must heed their ctx.
//
// A Store keeps its promises with a client of default settings too. These leave
// less behind when Redis does not answer.
func Options() *redis.Options {
	return &redis.Options{
		DialTimeout:           dialTimeout,
		DialerRetries:         1,
		ReadTimeout:           ioTimeout,
		WriteTimeout:          ioTimeout,
		PoolTimeout:           ioTimeout,
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
	}
}

// FailoverOptions returns the settings of [Options] for
// redis.NewFailoverClient. Set MasterName and SentinelAddrs.
func FailoverOptions() *redis.FailoverOptions {
	o := Options()
	return &redis.FailoverOptions{
		DialTimeout:           o.DialTimeout,
		DialerRetries:         o.DialerRetries,
		ReadTimeout:           o.ReadTimeout,
		WriteTimeout:          o.WriteTimeout,
		PoolTimeout:           o.PoolTimeout,
		ContextTimeoutEnabled: o.ContextTimeoutEnabled,
		MaxRetries:            o.MaxRetries,
	}
}

// ClusterOptions returns the settings of [Options] for redis.NewClusterClient.
// Set Addrs. Redirections are followed as by default.
func ClusterOptions() *redis.ClusterOptions {
	o := Options()
	return &redis.ClusterOptions{
		DialTimeout:           o.DialTimeout,
		DialerRetries:         o.DialerRetries,
		ReadTimeout:           o.ReadTimeout,
		WriteTimeout:          o.WriteTimeout,
		PoolTimeout:           o.PoolTimeout,
		ContextTimeoutEnabled: o.ContextTimeoutEnabled,
		MaxRetries:            o.MaxRetries,
	}
}
