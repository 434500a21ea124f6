package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// What is known of whether a node is whole: whether one run of the script reaches
// all buckets that its calls go to. Redis is. A proxy in front of several servers
// is not: it hands a run on by its first key, to a server that has not seen the
// other buckets. So a lane does not believe it before it has been shown.
const (
	unknown int32 = iota
	asking
	yes
	no // always so with Redis Cluster, where a run must keep to one slot
)

// strangers is how many buckets are asked for. A proxy in front of two servers
// keeps so many in one place once in 32,768 times.
const strangers = 16

// newStrangers returns buckets that nobody else has: limiters have names. What
// they are charged outlasts the round trips.
func newStrangers() (each [strangers][]ratelimit.Bucket) {
	unique := rand.Text()
	for i := range each {
		each[i] = []ratelimit.Bucket{{Key: fmt.Sprint("stranger ", unique, i), Capacity: 10_000_000, Charge: 10_000_000}}
	}
	return each
}

// isWhole reports whether calls on different buckets may be decided in one run.
// The first to ask has it found out, which holds up nobody.
func (l *lane) isWhole() bool {
	if l.whole.CompareAndSwap(unknown, asking) {
		go func() { l.whole.Store(l.findOut()) }()
	}
	return l.whole.Load() == yes
}

// findOut charges some buckets in a run each, and asks for all of them in one,
// which gives their charges back: what is full again is deleted.
func (l *lane) findOut() int32 {
	ctx, cancel := context.WithTimeout(context.Background(), max(dialTimeout, l.budget))
	defer cancel()
	takes, refunds := make([]*call, strangers), make([]*call, strangers)
	for i, buckets := range newStrangers() {
		takes[i], refunds[i] = newCall(take, buckets), newCall(refund, buckets)
		takes[i].callers = 1
	}
	err := guard(func() error {
		l.roundTrip(ctx, l.node, "evalsha", apart(takes))
		l.roundTrip(ctx, l.node, "eval", apart(filter(takes, met(isNoScript))))
		l.roundTrip(ctx, l.node, "eval", []run{refunds})
		return nil
	})
	if err != nil {
		return no // the client cannot be trusted with it
	}
	for _, c := range slices.Concat(takes, refunds) {
		switch {
		case isFailure(c.err):
			return unknown
		case c.err != nil:
			return no
		}
	}
	switch missing := filter(refunds, func(c *call) bool { return c.found[0] == 0 }); {
	case len(missing) == 0:
		return yes
	case missing[0] == refunds[0]: // the run went where the first one is kept: it was deleted
		return unknown
	default:
		return no
	}
}
