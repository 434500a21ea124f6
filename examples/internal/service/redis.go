package service

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/atomicbucket/ratelimit/core/redisstore"
)

// openRedis opens the Redis at address, or one inside this process if there is
// none. It does not connect: a service starts without its Redis.
func (e *Env) openRedis(address string) error {
	logging.Disable() // the limiter says once that Redis is gone, go-redis at each attempt
	if address == "" {
		return e.embedRedis()
	}
	opts, err := clientOptions(address)
	if err != nil {
		return in("REDIS_URL", err)
	}
	e.connect(opts)
	e.Where = "Redis at " + opts.Addr
	return nil
}

// embedRedis starts a Redis inside this process. Its keys expire in real time;
// by default miniredis waits for a test to move the time.
func (e *Env) embedRedis() error {
	server, err := miniredis.Run()
	if err != nil {
		return fmt.Errorf("embedded Redis: %w", err)
	}
	server.ClockTTL(true)
	e.connect(&redis.Options{Addr: server.Addr()})
	e.close = append(e.close, server.Close)
	e.Where = "a Redis inside this process (set REDIS_URL for a real one)"
	return nil
}

func (e *Env) connect(opts *redis.Options) {
	e.Redis = redis.NewClient(opts)
	e.close = append(e.close, func() { _ = e.Redis.Close() })
}

// clientOptions are those that address says, else those that fit a limiter.
func clientOptions(address string) (*redis.Options, error) {
	opts, err := redis.ParseURL(address)
	if err != nil {
		return nil, withoutURL(err)
	}
	fit := redisstore.Options()
	opts.DialTimeout = cmp.Or(opts.DialTimeout, fit.DialTimeout)
	opts.DialerRetries = cmp.Or(opts.DialerRetries, fit.DialerRetries)
	opts.ReadTimeout = cmp.Or(opts.ReadTimeout, fit.ReadTimeout)
	opts.WriteTimeout = cmp.Or(opts.WriteTimeout, fit.WriteTimeout)
	opts.PoolTimeout = cmp.Or(opts.PoolTimeout, fit.PoolTimeout)
	opts.MaxRetries = cmp.Or(opts.MaxRetries, fit.MaxRetries)
	opts.ContextTimeoutEnabled = fit.ContextTimeoutEnabled
	return opts, nil
}

// withoutURL returns err without the URL that it quotes, which may hold a
// password.
func withoutURL(err error) error {
	if quoting, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%w: write redis://user:password@host:6379/0", quoting.Err)
	}
	return fmt.Errorf("%w: write redis://user:password@host:6379/0", err)
}
