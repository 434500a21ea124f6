package redisstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

const (
	// maxPipeline is how many calls go out together at most.
	maxPipeline = 256
	// minInFlight pipelines keep Redis at work while the next one is made.
	minInFlight = 2
	// maxInFlight bounds the pipelines on their way, and with them the goroutines
	// and connections that a node which does not answer can hold.
	maxInFlight = 16
	// perPipeline is the time per call below which larger pipelines serve better
	// than more of them: the time is then Redis' own and not the network's.
	perPipeline = 25 * time.Microsecond
)

// conn is what a lane needs of a go-redis client.
type conn interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
	Ping(ctx context.Context) *redis.StatusCmd
}

// lane is the way to one node: the calls that wait for it, the pipelines on
// their way to it, and its breaker. What goes wrong on one lane does not hold
// up another.
type lane struct {
	settings
	node     conn
	redirect conn   // follows redirections; nil where there are none
	failing  func() // called when the node fails; may be nil
	breaker  *breaker

	mu       sync.Mutex
	queue    []*call
	joinable map[joinKey]*call // calls in the queue that others may join
	inFlight int
	perCall  time.Duration // smoothed time of a pipeline per call in it
}

// joinKey tells which calls can go out as one. A call on several buckets is
// found by the first of them.
type joinKey struct {
	first   ratelimit.Bucket
	buckets int
}

func newLane(s settings, node, redirect conn, failing func()) *lane {
	return &lane{
		settings: s,
		node:     node,
		redirect: redirect,
		failing:  failing,
		breaker:  newBreaker(),
		joinable: make(map[joinKey]*call),
	}
}

// join puts a caller in the queue, on a call of others if there is one to
// share, and sees to it that the queue moves. It returns an error if Redis is
// not to be asked now.
func (l *lane) join(op operation, buckets []ratelimit.Bucket) (*waiter, error) {
	if err := l.breaker.open(); err != nil {
		return nil, err
	}
	w := waiters.Get().(*waiter) //nolint:forcetypeassert // its New makes nothing else
	l.mu.Lock()
	defer l.mu.Unlock()
	w.call = l.callFor(op, buckets)
	w.call.waiters = append(w.call.waiters, w)
	if l.inFlight < l.allowed() {
		l.inFlight++
		go l.run()
	}
	return w, nil
}

// callFor returns a call in the queue that a caller for buckets can join, or a
// new one. l.mu is held.
func (l *lane) callFor(op operation, buckets []ratelimit.Bucket) *call {
	key := joinKey{first: buckets[0], buckets: len(buckets)}
	share := op == take && l.batch
	if c := l.joinable[key]; share && c != nil && slices.Equal(c.buckets, buckets) {
		return c
	}
	c := &call{op: op, buckets: slices.Clone(buckets)}
	l.queue = append(l.queue, c)
	if share {
		l.joinable[key] = c
	}
	return c
}

// allowed is how many pipelines may be on their way. A node that is near gets
// few and large ones, which cost it and us the least; the further away it is,
// the more of them. l.mu is held.
func (l *lane) allowed() int {
	if !l.batch {
		return maxInFlight
	}
	return min(max(int(l.perCall/perPipeline), minInFlight), maxInFlight)
}

// leave takes w off its call, if that has not been sent yet, and reports
// whether it has: then nothing is charged for w.
func (l *lane) leave(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.call.sent {
		return false
	}
	w.call.waiters = slices.DeleteFunc(w.call.waiters, func(other *waiter) bool { return other == w })
	return true
}

// run sends what is in the queue, pipeline by pipeline, until it is empty.
func (l *lane) run() {
	for calls := l.next(); len(calls) > 0; calls = l.next() {
		sent := time.Now()
		err := l.send(calls)
		l.arrived(calls, sent, time.Now(), err)
	}
}

// next takes the next pipeline out of the queue. When it is empty, this run of
// the lane is over.
func (l *lane) next() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.queue), l.pipeline())
	calls := make([]*call, 0, n)
	for len(calls) < n && len(l.queue) > 0 {
		c := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		l.close(c)
		if len(c.waiters) > 0 {
			calls = append(calls, c)
		}
	}
	if len(calls) == 0 {
		l.inFlight--
	}
	return calls
}

// pipeline is how many calls may go out together.
func (l *lane) pipeline() int {
	if l.batch {
		return maxPipeline
	}
	return 1
}

// close lets nobody join or leave c any more. l.mu is held.
func (l *lane) close(c *call) {
	c.sent = true
	key := joinKey{first: c.buckets[0], buckets: len(c.buckets)}
	if l.joinable[key] == c {
		delete(l.joinable, key)
	}
}

// arrived gives the callers their answers, and learns from them.
func (l *lane) arrived(calls []*call, sent, received time.Time, err error) {
	if err == nil {
		l.mu.Lock()
		l.perCall += (received.Sub(sent)/time.Duration(len(calls)) - l.perCall) / 8
		l.mu.Unlock()
	}
	for _, c := range calls {
		if l.shortcut != nil && c.op == take && c.err == nil {
			l.shortcut.learn(c, sent, received)
		}
		for i, w := range c.waiters {
			w.place = int64(i)
			w.ready <- struct{}{}
		}
	}
}

// send carries out calls and sets their answers. Its error is that of the node,
// if the node has failed; the breaker counts it even if every caller has left.
func (l *lane) send(calls []*call) (err error) {
	outcome, err := l.breaker.allow()
	if err != nil {
		fail(calls, err)
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.budget)
	defer cancel()
	// The client may sit on a dead connection for longer than the budget; the
	// breaker shall not.
	defer context.AfterFunc(ctx, func() { outcome(&budgetError{l.budget}) })()
	defer func() {
		if r := recover(); r != nil { // in a hook that the client's owner has added
			err = fmt.Errorf("redisstore: panic in the Redis client: %v", r)
			fail(calls, err)
		}
		outcome(err)
		if err != nil && l.failing != nil {
			l.failing()
		}
	}()
	if err := l.trial(ctx); err != nil {
		fail(calls, err)
		return err
	}
	l.exchange(ctx, calls)
	return nodeError(calls)
}

// trial asks a node that has been failing for a sign of life, before calls that
// spend tokens are sent to it: Redis would carry them out whenever it comes
// back. Any answer will do, a refusal for want of permission too.
func (l *lane) trial(ctx context.Context) error {
	if l.breaker.closed() {
		return nil
	}
	if err := l.node.Ping(ctx).Err(); isFailure(err) {
		return err
	}
	return nil
}

// nodeError is a failure that all calls have met, or nil: a node that has
// carried out one of them is well.
func nodeError(calls []*call) error {
	for _, c := range calls {
		if !isFailure(c.err) {
			return nil
		}
	}
	return calls[0].err
}

func fail(calls []*call, err error) {
	for _, c := range calls {
		c.answer(nil, err)
	}
}

func filter(calls []*call, met func(error) bool) []*call {
	var found []*call
	for _, c := range calls {
		if c.err != nil && met(c.err) {
			found = append(found, c)
		}
	}
	return found
}

// exchange sends calls to the node and sets their answers. What is sent again
// is only what was not carried out: Redis forgets scripts when it restarts or
// fails over, and those that it does not know go out in full; calls for a slot
// that has moved follow it.
func (l *lane) exchange(ctx context.Context, calls []*call) {
	l.roundTrip(ctx, l.node, "evalsha", calls)
	l.roundTrip(ctx, l.node, "eval", filter(calls, isNoScript))
	if l.redirect != nil {
		l.roundTrip(ctx, l.redirect, "eval", filter(calls, isRedirect))
	}
}

func (l *lane) roundTrip(ctx context.Context, node conn, name string, calls []*call) {
	switch len(calls) {
	case 0:
	case 1:
		cmd := calls[0].command(ctx, l.prefix, name)
		_ = node.Process(ctx, cmd) // the command holds the error
		calls[0].answer(cmd.Result())
	default:
		cmds := make([]once, len(calls))
		pipe := node.Pipeline()
		for i, c := range calls {
			cmds[i] = c.command(ctx, l.prefix, name)
			_ = pipe.Process(ctx, cmds[i]) // only queues it
		}
		_, _ = pipe.Exec(ctx) // each command holds its own error
		for i, c := range calls {
			c.answer(cmds[i].Result())
		}
	}
}
