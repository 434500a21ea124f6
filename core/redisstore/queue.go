package redisstore

import (
	"slices"
	"sync/atomic"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// callKey tells which calls can go out as one: those that take the same from the
// same bucket. A call on several buckets is found by the first of them.
type callKey struct {
	name, key        string
	capacity, charge int64
	buckets          int
}

func keyOf(buckets []ratelimit.Bucket) callKey {
	b := &buckets[0]
	return callKey{b.Name, b.Key, b.Capacity, b.Charge, len(buckets)}
}

// crowd is how many callers gather behind a call before theirs goes out too. Then
// those whom the one lets go are at work while the others wait.
const crowd = 192

// queue holds the calls of a lane that are still to be sent, in the order of
// arrival. Of calls that could go out as one, one is in the queue or on its way;
// callers that come while it is on its way gather in the next one.
type queue struct {
	share bool
	calls []*call
	head  int
	last  map[callKey]*call // of each key, the last call that is queued or on its way

	// popular is the call that callers have last shared. Others can join it
	// without the lane's lock.
	popular atomic.Pointer[call]
}

func newQueue(share bool) *queue { return &queue{share: share, last: make(map[callKey]*call)} }

func (q *queue) len() int { return len(q.calls) - q.head }

// enter finds a place for a call of one caller: in the queue, or behind one like
// it that is on its way. If others have such a place already it returns their
// call, for the caller to join. If near is false there is no time to wait for two
// answers.
func (q *queue) enter(c *call, near bool) *call {
	if c.op != take || !q.share {
		q.push(c)
		return c
	}
	key := keyOf(c.buckets)
	last := q.last[key]
	switch {
	case last != nil && !last.takes(c.buckets):
		q.push(c)
		return c
	case last == nil || last.sealed && !near:
		q.last[key] = c
		q.push(c)
		return c
	case last.sealed && last.next == nil:
		last.next = c
		return c
	case last.sealed:
		last = last.next
	}
	q.popular.Store(last)
	return last
}

// hurry sends c on its way although one like it is still on its own.
func (q *queue) hurry(c *call) {
	key := keyOf(c.buckets)
	if before := q.last[key]; before != nil && before.next == c {
		before.next = nil
		q.last[key] = c
		q.push(c)
	}
}

// push puts c where it belongs by its time of arrival: at the end, unless it has
// gathered callers behind another one meanwhile.
func (q *queue) push(c *call) {
	if len(q.calls) == cap(q.calls) && q.head > 0 {
		kept := copy(q.calls, q.calls[q.head:])
		clear(q.calls[kept:])
		q.calls, q.head = q.calls[:kept], 0
	}
	at := len(q.calls)
	for at > q.head && q.calls[at-1].arrived.After(c.arrived) {
		at--
	}
	q.calls = slices.Insert(q.calls, at, c)
}

// pop takes the first call out of the queue, to be sent.
func (q *queue) pop() *call {
	c := q.calls[q.head]
	q.calls[q.head] = nil
	if q.head++; q.head == len(q.calls) {
		q.calls, q.head = q.calls[:0], 0
	}
	q.seal(c)
	return c
}

func (q *queue) seal(c *call) {
	c.seal()
	q.popular.CompareAndSwap(c, nil)
}

// done says that c is no longer on its way, and returns the call whose callers
// have gathered in the meantime, if any. It is not in the queue yet.
func (q *queue) done(c *call) *call {
	next := c.next
	if next != nil && next.deserted() {
		if q.seal(next); next.callers == 0 {
			next = nil
		}
	}
	if key := keyOf(c.buckets); q.last[key] != c {
		return next
	} else if next == nil {
		delete(q.last, key)
	} else {
		q.last[key] = next
	}
	return next
}
