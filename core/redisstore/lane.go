package redisstore

import (
	"context"
	"errors"
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
	// maxInFlight bounds the pipelines on their way, abandoned ones included, and
	// with them the goroutines and connections that a node which does not answer
	// can hold.
	maxInFlight = 16
	// perPipeline is the time per call below which larger pipelines serve better
	// than more of them: the time is then Redis' own and not the network's.
	perPipeline = 25 * time.Microsecond
)

// maxBroken is how many connections a trial tries that have ended while the node
// was away. The client may have kept that many, above all with TLS, where it does
// not see their end before it uses them.
const maxBroken = 64

// conn is what a lane needs of a go-redis client.
type conn interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
	Ping(ctx context.Context) *redis.StatusCmd
}

// lane is the way to one node: the calls that wait for it, the pipelines on
// their way to it, and its breaker. What goes wrong on one lane does not hold
// up another.
//
// Nobody on a lane needs a timer of their own. A pipeline that is on its way
// when the budget of its longest-waiting caller ends is abandoned: its callers
// get an error, and its place goes to the next pipeline. A call waits in the
// queue only while pipelines are on their way that left before it came, so that
// one of them ends, or is abandoned, before its own budget does.
type lane struct {
	settings
	node     conn
	redirect conn   // follows redirections; nil where there are none
	failing  func() // called when the node fails; may be nil
	breaker  *breaker

	mu        sync.Mutex
	queue     []*call
	joinable  map[joinKey]*call // calls in the queue that others may join
	inFlight  int               // pipelines on their way
	abandoned int               // pipelines nobody waits for any more, still held by the client
	perCall   time.Duration     // smoothed time of a pipeline per call in it
}

// joinKey tells which calls can go out as one. A call on several buckets is
// found by the first of them.
type joinKey struct {
	first   ratelimit.Bucket
	buckets int
}

func keyOf(buckets []ratelimit.Bucket) joinKey {
	return joinKey{first: buckets[0], buckets: len(buckets)}
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

var errStuck = errors.New("redisstore: too many calls to Redis have not come back yet")

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
	if l.inFlight == 0 && l.abandoned == maxInFlight {
		return nil, errStuck
	}
	w.call = l.callFor(op, buckets)
	w.call.waiters = append(w.call.waiters, w)
	if l.inFlight < l.allowed() && l.inFlight+l.abandoned < maxInFlight {
		l.inFlight++
		go l.run()
	}
	return w, nil
}

// callFor returns a call in the queue that a caller for buckets can join, or a
// new one. l.mu is held.
func (l *lane) callFor(op operation, buckets []ratelimit.Bucket) *call {
	share := op == take && l.batch
	if share {
		if c := l.joinable[keyOf(buckets)]; c != nil && slices.Equal(c.buckets, buckets) {
			return c
		}
	}
	c := &call{op: op, buckets: slices.Clone(buckets), arrived: time.Now()}
	l.queue = append(l.queue, c)
	if share {
		l.joinable[keyOf(buckets)] = c
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

// leave takes w off its call, unless that has been sent: then w may still be
// charged.
func (l *lane) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !w.call.sent {
		w.call.waiters = slices.DeleteFunc(w.call.waiters, func(other *waiter) bool { return other == w })
	}
}

// run sends what is in the queue, pipeline by pipeline, until it is empty.
func (l *lane) run() {
	for p := l.next(); p != nil && l.send(p); p = l.next() {
	}
}

// next takes the next pipeline out of the queue. When it is empty, this run of
// the lane is over.
func (l *lane) next() *pipeline {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := min(len(l.queue), maxPipeline)
	if !l.batch {
		size = min(size, 1)
	}
	p := &pipeline{calls: make([]*call, 0, size), sent: time.Now()}
	var late pipeline
	for len(p.calls) < size && len(l.queue) > 0 {
		switch c := l.dequeue(); {
		case len(c.waiters) == 0:
		case p.sent.Sub(c.arrived) >= l.budget:
			late.calls = append(late.calls, c)
		default:
			p.calls = append(p.calls, c)
		}
	}
	late.refuse(&budgetError{l.budget})
	if len(p.calls) == 0 {
		l.inFlight--
		return nil
	}
	p.deadline = p.calls[0].arrived.Add(l.budget)
	return p
}

// dequeue takes the first call out of the queue. Nobody can join or leave it any
// more. l.mu is held.
func (l *lane) dequeue() *call {
	c := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	c.sent = true
	if key := keyOf(c.buckets); l.joinable[key] == c {
		delete(l.joinable, key)
	}
	return c
}

// send carries p out and gives its callers their answers. It reports whether it
// still has its place on the lane: a pipeline that is abandoned loses it.
func (l *lane) send(p *pipeline) bool {
	outcome, err := l.breaker.allow()
	if err != nil {
		p.refuse(err)
		return true
	}
	ctx, cancel := context.WithDeadline(context.Background(), p.deadline)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if p.settle() {
			l.abandon(p, outcome)
		}
	})
	err = l.carryOut(ctx, p)
	stop()
	if !p.settle() {
		l.mu.Lock()
		l.abandoned--
		l.mu.Unlock()
		return false
	}
	l.report(p, outcome, err)
	l.arrived(p, err)
	return true
}

// carryOut sets the answers to p's calls. Its error is that of the node, if the
// node has failed.
func (l *lane) carryOut(ctx context.Context, p *pipeline) error {
	return guard(func() error {
		if err := l.trial(ctx); err != nil {
			return err
		}
		l.exchange(ctx, p.calls)
		return p.failed()
	})
}

// trial asks a node that has been failing for a sign of life, before calls that
// spend tokens are sent to it: Redis would carry them out whenever it comes
// back. Any answer will do, a refusal for want of permission too.
func (l *lane) trial(ctx context.Context) error {
	if l.breaker.closed() {
		return nil
	}
	err := l.node.Ping(ctx).Err()
	for range maxBroken {
		if !isBroken(err) || ctx.Err() != nil {
			break
		}
		err = l.node.Ping(ctx).Err()
	}
	if isFailure(err) {
		return err
	}
	return nil
}

// report tells the breaker of an outcome, whether or not anybody still waits for
// it.
func (l *lane) report(p *pipeline, outcome func(error), err error) {
	if isFailure(err) && p.hurried(l.budget) {
		outcome(errHurried)
		return
	}
	outcome(err)
	if isFailure(err) && l.failing != nil {
		l.failing()
	}
}

// arrived gives p's callers their answers, and learns from them.
func (l *lane) arrived(p *pipeline, err error) {
	if err != nil {
		p.refuse(err)
		return
	}
	received := time.Now()
	l.mu.Lock()
	l.perCall += (received.Sub(p.sent)/time.Duration(len(p.calls)) - l.perCall) / 8
	l.mu.Unlock()
	if l.shortcut != nil {
		for _, c := range p.calls {
			if c.op == take && c.err == nil {
				l.shortcut.learn(c, p.sent, received)
			}
		}
	}
	p.answer()
}

// abandon ends the wait of p's callers, counts p as a failure, and gives its
// place on the lane to the next pipeline. The client still holds p, for as long
// as its own timeouts say.
func (l *lane) abandon(p *pipeline, outcome func(error)) {
	err := &budgetError{l.budget}
	l.report(p, outcome, err)
	p.refuse(err)
	if stranded := l.replace(); stranded != nil {
		stranded.refuse(errStuck)
	}
}

// replace lets another pipeline go out for one that is abandoned. If there are
// too many abandoned ones for that, and no other is on its way, it returns what
// is in the queue: nothing would move it.
func (l *lane) replace() (stranded *pipeline) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abandoned++
	if l.inFlight+l.abandoned <= maxInFlight {
		go l.run()
		return nil
	}
	l.inFlight--
	if l.inFlight > 0 || len(l.queue) == 0 {
		return nil
	}
	stranded = &pipeline{}
	for len(l.queue) > 0 {
		stranded.calls = append(stranded.calls, l.dequeue())
	}
	return stranded
}
