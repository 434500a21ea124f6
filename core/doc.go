// Package ratelimit decides whether a call may proceed now, for services that
// run as more than one instance.
//
// Every decision is one atomic step in a [Store] that all instances share:
// read the bucket, decide, write it back, by the store's own clock. The store
// for production is redisstore, which does that step as a Lua script in Redis;
// memstore keeps the same buckets in the memory of one process, for services
// of a single instance and for tests.
//
//	store, err := redisstore.New(rdb)
//	...
//	limiter, err := ratelimit.New(store, "api", ratelimit.PerSecond(10).WithBurst(20))
//	...
//	res, err := limiter.Allow(ctx, "user:42")
//	if err != nil {
//		return err // invalid arguments, ctx has ended, or fail closed
//	}
//	if !res.Allowed {
//		return fmt.Errorf("slow down, try again in %v", res.RetryAfter)
//	}
//
// # The words
//
// A [Limit] is so many tokens per period, and a burst: the number of tokens a
// bucket holds. A call spends its cost, 1 token unless [Limiter.AllowN] says
// otherwise. Tokens refill steadily, one every interval: period / tokens,
// rounded up to a whole microsecond. A bucket nobody has used is full.
//
// A [Limiter] has a name, which namespaces its keys in the store, names its
// policy in HTTP headers and labels its metrics. One name and one key are one
// bucket, wherever the call comes from; two limiters of different names never
// share one.
//
// # Promises
//
// As decided by the store, on the store's clock, no bucket ever admits more
// than burst + rate * t tokens in any window of length t, over all instances
// and whatever races. Refunded tokens do not count.
//
// Nobody is denied whom the bucket would admit, with one exception: redisstore
// gives denials from memory while it knows that the bucket is empty, and for at
// most 1 s it may not know of tokens that came back in another way than with
// time, such as by a refund or reset made by another instance.
//
// # A denial is not an error
//
// [Limiter.Allow] returns a [Result] whose Allowed is false when the limit is
// reached, and tells how long to wait. It returns an error only when there is
// no answer to give: the arguments are invalid, the caller's ctx has ended, or
// the store is out of reach and the limiter was told to fail closed.
//
// # When the store cannot decide
//
// Each limiter chooses what happens then: [FailOpen], the default, admits;
// [FailClosed] returns [ErrUnavailable]; [FailLocal] lets another store, in
// this process, decide on a share of the limit. Result.Source says who has
// decided, Result.Cause why the store has not. A [*slog.Logger] is told once when
// the store is lost and once when it is back, and an [Observer] sees every
// decision.
//
// # Where to read on
//
// [Limit] for rates and bursts, [Limiter] for the calls, [Result] for the
// answer, [Store] for the contract that a store keeps. The adapters turn HTTP
// requests into calls of a Limiter; httplimit holds what they share. The README
// beside this file has what a service needs over time: changing a limit, plans,
// metrics, tests, readiness.
package ratelimit
