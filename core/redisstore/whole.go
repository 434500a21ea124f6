package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// whole is what a lane believes of its node: whether one run of the script reaches
// all buckets that its calls go to. Redis is whole. A proxy in front of several
// servers is not: it hands a run on by its first key, to a server that has not seen
// the other buckets. So nothing is believed before it has been shown.
type whole struct {
	shown atomic.Bool
	asked atomic.Int64 // Unix nanoseconds
}

const (
	// askAgain is how long a lane believes what it was shown.
	askAgain = 10 * time.Second
	// never is when a lane asks that has been shown the contrary, or is one of Redis
	// Cluster, where a run must keep to one slot.
	never = math.MaxInt64
)

// isWhole reports whether calls on different buckets may be decided in one run. If
// that has to be found out first, nobody waits for it.
func (l *lane) isWhole() bool {
	now, asked := time.Now().UnixNano(), l.whole.asked.Load()
	if now-asked >= int64(askAgain) && asked != never && l.whole.asked.CompareAndSwap(asked, now) {
		go l.findOut()
	}
	return l.whole.shown.Load()
}

// strangers is how many buckets are asked for. A proxy in front of two servers
// keeps so many in one place once in two thousand million times.
const strangers = 32

// newStrangers returns buckets that nobody else has: limiters have names. What
// they are charged outlasts the round trips.
func newStrangers() (each [strangers][]ratelimit.Bucket) {
	unique := rand.Text()
	for i := range each {
		each[i] = []ratelimit.Bucket{{Key: fmt.Sprint("stranger ", unique, i), Capacity: 10_000_000, Charge: 10_000_000}}
	}
	return each
}

// findOut charges some buckets in a run each, and asks for all of them in one,
// which gives their charges back: what is full again is deleted.
func (l *lane) findOut() {
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
		return
	}
	crossed := filter(refunds, met(isCrossSlot))
	missing := filter(refunds, func(c *call) bool { return c.err == nil && c.found[0] == 0 })
	failed := filter(slices.Concat(takes, refunds), func(c *call) bool { return c.err != nil })
	switch {
	case len(crossed) > 0, len(missing) > 0 && missing[0] != refunds[0]: // the run went where the first is kept
		l.believe(false, never)
	case len(missing) == 0 && len(failed) == 0:
		l.believe(true, time.Now().UnixNano())
	}
}

// believe is what was shown of the node, and when. If that is never, nothing else
// is believed afterwards.
func (l *lane) believe(shown bool, asked int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.whole.asked.Load() != never {
		l.whole.shown.Store(shown)
		l.whole.asked.Store(asked)
	}
}
