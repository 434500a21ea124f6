// Package redisstore keeps buckets in Redis, shared by every instance of a
// service. It is the ratelimit.Store for production.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	store, err := redisstore.New(rdb)
//	...
//	limiter, err := ratelimit.New(store, "api", ratelimit.PerSecond(10).WithBurst(20))
//
// One Store serves any number of limiters. It works with any client of go-redis
// (Client, also from NewFailoverClient, ClusterClient, Ring) on Redis 6.2 or
// later, built for 64 bits. The client's settings need no care: the promises
// below hold with its defaults. [Options] are settings that fit a limiter better.
//
// # The way of a decision
//
//	take ─ shortcut ─ breaker ─ batch ─ script
//
// Script: token_bucket.lua reads, decides and writes in one step, by Redis'
// clock. It is sent by its hash, and in full when Redis does not know it.
//
// Batch: while a call is on its way, callers that come for the same bucket and
// cost gather, and go out together as one call that wants several grants; calls
// on other buckets share its pipeline, and on a node that holds all of them its
// run of the script. Nothing waits for a timer: when no call is on its way, the
// next goes out at once.
//
// Breaker: after a few failures in a row no call is sent to that node; decisions
// fail in microseconds, until a trial finds that it answers again.
//
// Shortcut: a reply that says a bucket is empty stays true until the bucket has
// had the time to refill. Until then, and for at most a second, denials are
// given without asking.
//
// # Promises
//
// Budget: a decision ends within 100 ms (see [WithBudget]), waiting included,
// whatever Redis or the network does. The calls it leaves behind are bounded in
// number and in time.
//
// At most once: no call is ever sent again after it may have been carried out,
// so a lost reply does not spend twice.
//
// # Keys
//
// A bucket is one string key, and expires when the bucket is full:
//
//	<prefix>rl1:<capacity in ms, base 36>{<limiter's name>:<key>}
//
// Keys over 128 bytes, and those with braces, control characters or a leading
// '#', are stored as '#' and a hash. All buckets of one name and key are in one
// slot of Redis Cluster.
//
// # Permissions
//
// The Redis user needs, on the keys of its prefix:
//
//	ACL SETUSER limiter on >password resetchannels ~<prefix>rl1:* +eval +evalsha +get +set +time +del +ping
//
// and +cluster|slots with Redis Cluster. Only Reset uses +del, and only Ping
// +ping: a trial after an outage uses PING too, but is content with any answer.
package redisstore
