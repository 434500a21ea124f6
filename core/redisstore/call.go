package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/internal/bucket"
)

//go:embed token_bucket.lua
var script string

// scriptHash is the name under which Redis keeps the script.
var scriptHash any = func() string {
	sum := sha1.Sum([]byte(script)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}()

// operation is what a call does to its buckets.
type operation uint8

const (
	take operation = iota
	peek
	refund
	reset
)

// call is one command for Redis, on behalf of one caller or, if they take the
// same from the same buckets, of several.
type call struct {
	op      operation
	buckets []ratelimit.Bucket
	waiters []*waiter // in order of arrival
	arrived time.Time // when the first of them came
	sent    bool      // no waiter can join or leave any more
	next    *call     // gathers callers for the same while this one is on its way

	// The answer, after which nothing of a call changes.
	found   []int64 // deficit of each bucket before the call
	granted int64   // how many of the waiters are granted, the first ones
	source  ratelimit.Source
	err     error

	// one is room for what most calls have one of.
	one struct {
		bucket [1]ratelimit.Bucket
		waiter [1]*waiter
		found  [1]int64
	}
}

// once is a command that go-redis never sends again by itself: a reply that was
// lost must not spend twice. Redirections of Redis Cluster are still followed,
// because they say that nothing was done.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// command is c for Redis. name is evalsha or eval; a reset is neither.
func (c *call) command(ctx context.Context, prefix, name string) once {
	if c.op == reset {
		name = "del"
	}
	args := make([]any, 0, 4+3*len(c.buckets))
	switch name {
	case "evalsha":
		args = append(args, "evalsha", scriptHash, len(c.buckets))
	case "eval":
		args = append(args, "eval", script, len(c.buckets))
	default:
		args = append(args, "del")
	}
	for i := range c.buckets {
		args = append(args, redisKey(prefix, &c.buckets[i]))
	}
	if c.op != reset {
		args = c.appendArgv(args)
	}
	return once{redis.NewCmd(ctx, args...)}
}

func (c *call) appendArgv(args []any) []any {
	for _, b := range c.buckets {
		args = append(args, b.Capacity, b.Charge)
	}
	if wanted := c.wanted(); wanted != 1 {
		args = append(args, wanted)
	}
	return args
}

// wanted is what the script is asked for: grants, 0 to look, -1 to give back.
func (c *call) wanted() int64 {
	switch c.op {
	case take:
		return int64(len(c.waiters))
	case refund:
		return -1
	default:
		return 0
	}
}

// answer takes Redis' reply to c.
func (c *call) answer(reply any, err error) {
	c.found, c.granted, c.source, c.err = nil, 0, ratelimit.SourceStore, err
	if err != nil || c.op == reset {
		return
	}
	switch reply := reply.(type) {
	case int64:
		c.found = append(c.one.found[:0], reply)
	case []any:
		for _, deficit := range reply {
			d, _ := deficit.(int64)
			c.found = append(c.found, d)
		}
	}
	if !c.plausible() {
		c.err = fmt.Errorf("redisstore: the script returned %v, no deficits of %d buckets: is this a 64-bit Redis?", reply, len(c.buckets))
		return
	}
	c.granted = max(c.wanted(), 1)
	for i, b := range c.buckets {
		c.granted = min(c.granted, bucket.Fits(c.found[i], b.Capacity, b.Charge))
	}
}

func (c *call) plausible() bool {
	if len(c.found) != len(c.buckets) {
		return false
	}
	for i, deficit := range c.found {
		if deficit < 0 || deficit > c.buckets[i].Capacity {
			return false
		}
	}
	return true
}

// left is the deficit of the i-th bucket after all grants.
func (c *call) left(i int) int64 { return c.found[i] + c.granted*c.buckets[i].Charge }

// deny answers a call that was not sent, by the deficits that the shortcut has
// set in its buckets.
func (c *call) deny() {
	c.found = c.one.found[:0]
	for _, b := range c.buckets {
		c.found = append(c.found, b.Deficit)
	}
	c.granted, c.source = 0, ratelimit.SourceShortcut
	c.tell(nil)
}

// tell lets the callers go: with err, or with the call's answer if err is nil.
// When it is refused, its own answer may be on its way still and is not touched.
func (c *call) tell(err error) {
	for i, w := range c.waiters {
		w.place, w.err = int64(i), err
		w.ready <- struct{}{}
	}
}

// redisKey is where b is kept.
func redisKey(prefix string, b *ratelimit.Bucket) string {
	key := bucket.StoredKey(b.Key)
	buf := append(make([]byte, 0, 256), prefix...) // on the stack, for all but long prefixes
	buf = append(buf, "rl1:"...)
	buf = strconv.AppendInt(buf, bucket.Millis(b.Capacity), 36)
	buf = append(buf, '{')
	buf = append(buf, b.Name...)
	buf = append(buf, ':')
	buf = append(buf, key...)
	buf = append(buf, '}')
	return string(buf)
}
