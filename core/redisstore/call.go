package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

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
	arrived time.Time    // when the first caller came
	joined  atomic.Int64 // callers, numbered from 0 in order of arrival
	sealed  bool         // nobody can join or leave any more
	callers int64        // when it was sealed
	gone    []int64      // those who have left before
	next    *call        // gathers callers for the same while this one is on its way

	// The answer.
	found   []int64 // deficit of each bucket before the call
	granted int64   // how many of the callers are granted, the first ones
	source  ratelimit.Source
	err     error

	told    chan struct{} // closed when the callers are let go
	refusal error         // set before, if they are let go without an answer

	// one is room for what most calls have one of.
	one struct {
		bucket [1]ratelimit.Bucket
		found  [1]int64
	}
}

// newCall copies buckets, since a caller may leave before its call does.
func newCall(op operation, buckets []ratelimit.Bucket) *call {
	c := &call{op: op, arrived: time.Now(), told: make(chan struct{})}
	c.buckets = append(c.one.bucket[:0], buckets...)
	return c
}

// takes reports whether c takes the same from the same buckets.
func (c *call) takes(buckets []ratelimit.Bucket) bool {
	if c.op != take || len(c.buckets) != len(buckets) {
		return false
	}
	for i := range buckets { // not their deficits, which may be set at this moment
		a, b := &c.buckets[i], &buckets[i]
		if a.Key != b.Key || a.Name != b.Name || a.Capacity != b.Capacity || a.Charge != b.Charge {
			return false
		}
	}
	return true
}

// sealing is added to joined when a call is sealed: more than there are callers.
const sealing = 1 << 32

// join makes one caller more wait for c, unless it is sealed.
func (c *call) join() (caller int64, ok bool) {
	caller = c.joined.Add(1) - 1
	return caller, caller < sealing
}

// deserted reports whether all callers have left, for the moment.
func (c *call) deserted() bool { return c.joined.Load() == int64(len(c.gone)) }

// seal lets nobody join or leave any more.
func (c *call) seal() {
	if !c.sealed {
		c.sealed = true
		c.callers = c.joined.Add(sealing) - sealing - int64(len(c.gone))
	}
}

// wanted is what the script is asked for: grants, 0 to look, -1 to give back.
func (c *call) wanted() int64 {
	switch c.op {
	case take:
		return c.callers
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
	each, ok := reply.([]any)
	if len(c.buckets) == 1 {
		each, ok = []any{reply}, true
	}
	c.found = c.one.found[:0]
	for _, deficit := range each {
		d, isNumber := deficit.(int64)
		c.found, ok = append(c.found, d), ok && isNumber
	}
	if !ok || !c.plausible() {
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

// tell lets the callers go, once: with err, or with the answer if err is nil.
// When they are refused, the answer may be on its way still and is not touched.
func (c *call) tell(err error) {
	c.refusal = err
	close(c.told)
}

// await waits for the answer, or until ctx ends. The lane sees to it that callers
// are let go before the budget has passed.
func (c *call) await(ctx context.Context) error {
	if ctx.Done() == nil { // half the price of a select
		<-c.told
		return c.refusal
	}
	select {
	case <-c.told:
		return c.refusal
	case <-ctx.Done():
		return ctx.Err()
	}
}

// decide sets the deficits that the given caller has left behind, and reports
// whether it is granted. Grants go out in the order of arrival, each on top of
// the ones before.
func (c *call) decide(caller int64, buckets []ratelimit.Bucket) (allowed bool) {
	place := caller
	for _, other := range c.gone {
		if other < caller {
			place--
		}
	}
	charges := min(place+1, c.granted)
	if c.op == peek {
		charges = 0
	}
	for i, found := range c.found {
		buckets[i].Deficit = found + charges*buckets[i].Charge
	}
	return place < c.granted
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
