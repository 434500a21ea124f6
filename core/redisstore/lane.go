package redisstore

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

const (
	// maxPipeline is how many calls go out together at most.
	maxPipeline = 256
	// minInFlight pipelines keep Redis at work while the next one is made.
	minInFlight = 4
	// maxInFlight bounds the pipelines on their way, abandoned ones included, and
	// with them the goroutines and connections that a node which does not answer
	// can hold.
	maxInFlight = 16
	// perPipeline is how much further away a node must be, in time there and back,
	// for one more pipeline on its way to pay.
	perPipeline = 250 * time.Microsecond
)

// conn is what a lane needs of a go-redis client.
type conn interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// lane is the way to one node: the calls that wait for it, the pipelines on
// their way to it, and its breaker. What goes wrong on one lane does not hold
// up another.
//
// Nobody on a lane needs a timer of their own. A pipeline on its way lets each of
// its callers go when their budget ends; when that was the last one it is
// abandoned, and its place goes to the next pipeline. A call waits in the queue,
// or gathers callers behind one like it, only while pipelines are on their way
// that left before it came, so that one of them ends, or is abandoned, before its
// own budget does.
type lane struct {
	settings
	node     conn
	prompt   bool   // the node's client returns when its ctx ends
	redirect conn   // follows redirections; nil where there are none
	failing  func() // called when the node fails; may be nil
	breaker  *breaker
	whole    whole

	mu        sync.Mutex
	queue     *queue        // popular in it needs no lock
	inFlight  int           // pipelines on their way
	abandoned int           // pipelines nobody waits for any more, still held by the client
	distance  time.Duration // the shortest time there and back of late
}

func newLane(s settings, node, redirect conn, failing func()) *lane {
	l := &lane{
		settings: s,
		node:     node,
		prompt:   isPrompt(node),
		redirect: redirect,
		failing:  failing,
		breaker:  newBreaker(),
		queue:    newQueue(s.batch),
	}
	if redirect != nil {
		l.whole.asked.Store(never)
	}
	return l
}

// isPrompt reports whether a client heeds its ctx while it waits for a reply, and
// calls nobody while it connects who might not.
func isPrompt(node conn) bool {
	client, ok := node.(*redis.Client)
	if !ok {
		return false
	}
	o := client.Options()
	return o.ContextTimeoutEnabled && o.OnConnect == nil &&
		o.CredentialsProvider == nil && o.CredentialsProviderContext == nil && o.StreamingCredentialsProvider == nil
}

var errStuck = errors.New("redisstore: too many calls to Redis have not come back yet")

// ask has an operation carried out, and sets the deficits of buckets.
func (l *lane) ask(ctx context.Context, op operation, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	if err := l.breaker.open(); err != nil {
		return ratelimit.Decision{}, err
	}
	c, caller, own, err := l.join(ctx, op, buckets)
	if err != nil {
		return ratelimit.Decision{}, err
	}
	if own != nil {
		l.sendHere(own)
	}
	if err := c.await(ctx); err != nil {
		l.leave(c, caller)
		return ratelimit.Decision{}, err
	}
	return ratelimit.Decision{Allowed: c.decide(caller, buckets), Source: c.source}, nil
}

// join puts a caller in the queue, on a call of others if there is one to
// share, and sees to it that the queue moves. It returns the call and which of
// its callers this is. If it returns a pipeline, the caller is to send that
// itself. It returns an error if nothing can be sent.
func (l *lane) join(ctx context.Context, op operation, buckets []ratelimit.Bucket) (c *call, caller int64, own *pipeline, err error) {
	if c, caller := l.joinPopular(op, buckets); c != nil {
		return c, caller, nil, nil
	}
	c = newCall(op, buckets) // while others have the lock
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.inFlight == 0 && l.abandoned == maxInFlight:
		return nil, 0, nil, errStuck
	case l.inFlight > 0 && !l.breaker.closed(): // nobody else waits for a trial
		return nil, 0, nil, l.breaker.refusal()
	}
	c = l.queue.enter(c, l.isNear())
	if caller, _ = c.join(); caller == crowd {
		l.queue.hurry(c)
	}
	if !l.hasRoom() {
		return c, caller, nil, nil
	}
	l.inFlight++
	if l.inFlight == 1 && l.canSendHere(ctx) {
		if own = l.load(); own == nil {
			l.inFlight--
		}
		return c, caller, own, nil
	}
	go l.run()
	return c, caller, nil, nil
}

// joinPopular joins the call that others have last shared, if it is for the same,
// or returns nil. Many callers of one bucket would else spend most of their time
// waiting for the lane's lock.
func (l *lane) joinPopular(op operation, buckets []ratelimit.Bucket) (*call, int64) {
	c := l.queue.popular.Load()
	if c == nil || op != take || !c.takes(buckets) || !l.breaker.closed() {
		return nil, 0
	}
	caller, ok := c.join()
	if !ok {
		return nil, 0
	}
	if caller == crowd {
		l.hurry(c)
	}
	return c, caller
}

// hurry sends c on its way if it gathers callers behind another call, and if
// there is a place on the lane.
func (l *lane) hurry(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue.hurry(c); l.hasRoom() {
		l.inFlight++
		go l.run()
	}
}

// hasRoom reports whether there is something to be sent, and a place for it among
// the pipelines on their way. l.mu is held.
func (l *lane) hasRoom() bool {
	return l.queue.len() > 0 && l.inFlight < l.allowed() && l.inFlight+l.abandoned < maxInFlight
}

// canSendHere reports whether a caller can send its call on its own goroutine,
// which saves a tenth of the time or more. It must not be held for longer than
// its budget then, which only a prompt client and a healthy node make sure of.
func (l *lane) canSendHere(ctx context.Context) bool {
	if !l.prompt || !l.breaker.closed() {
		return false
	}
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) >= l.budget
}

// sendHere sends the pipeline of a caller on its own goroutine, and leaves what
// has come to the queue since to another.
func (l *lane) sendHere(p *pipeline) {
	if !l.send(p) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue.len() > 0 {
		go l.run()
		return
	}
	l.inFlight--
}

// allowed is how many pipelines may be on their way. A node that is near gets
// few and large ones, which cost it and us the least; the further away it is,
// the more of them. l.mu is held.
func (l *lane) allowed() int {
	if !l.batch {
		return maxInFlight
	}
	return min(max(int(l.distance/perPipeline), minInFlight), maxInFlight)
}

// isNear reports whether there is time to wait for an answer before asking. l.mu
// is held.
func (l *lane) isNear() bool { return 4*l.distance < l.budget }

// measure learns the distance of the node from the time that a pipeline took.
// Larger ones take longer, so it goes by the shortest, and slowly forgets it.
// l.mu is held.
func (l *lane) measure(took time.Duration) {
	if took < l.distance || l.distance == 0 {
		l.distance = took
		return
	}
	l.distance += (took - l.distance) / 512
}

// leave takes a caller off its call, unless that has been sent: then the caller
// may still be charged.
func (l *lane) leave(c *call, caller int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.sealed {
		c.gone = append(c.gone, caller)
	}
}

// run sends what is in the queue, pipeline by pipeline, until it is empty.
func (l *lane) run() {
	deepen()
	for {
		if !l.isCrowded() {
			runtime.Gosched() // those who come at the same moment, or were just answered, go together
		}
		if p := l.next(); p == nil || !l.send(p) {
			return
		}
	}
}

// isCrowded reports whether the next call need not wait for more callers.
func (l *lane) isCrowded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.len() > 0 && l.queue.calls[l.queue.head].joined.Load() >= crowd
}

// deepen makes room on a new goroutine's stack for all of go-redis at once,
// instead of copying it thrice on the way down: a third of a lone call's time.
//
//go:noinline
func deepen() byte {
	var room [10 << 10]byte
	return room[time.Now().Nanosecond()%len(room)]
}

// next takes the next pipeline out of the queue. When it is empty, this run of
// the lane is over.
func (l *lane) next() *pipeline {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.load()
	if p == nil {
		l.inFlight--
	}
	return p
}

// load takes as much out of the queue as can go out together, or returns nil.
// Calls that everybody has left are dropped, those whose time is up are refused,
// and those that a reply has answered since they came are denied. l.mu is held.
func (l *lane) load() *pipeline {
	size := min(l.queue.len(), maxPipeline)
	if !l.batch {
		size = min(size, 1)
	}
	p := &pipeline{calls: make([]*call, 0, size), sent: time.Now()}
	for len(p.calls) < size && l.queue.len() > 0 {
		switch c := l.queue.pop(); {
		case c.callers == 0:
			l.release(c)
		case p.sent.Sub(c.arrived) >= l.budget:
			c.tell(&budgetError{l.budget})
			l.release(c)
		case l.knows(c):
			c.deny()
			l.release(c)
		default:
			p.calls = append(p.calls, c)
		}
	}
	if len(p.calls) == 0 {
		return nil
	}
	return p
}

// knows reports whether c is known to be denied, and if so sets its buckets'
// deficits.
func (l *lane) knows(c *call) bool {
	return c.op == take && l.shortcut != nil && l.shortcut.denies(c.buckets)
}

// release lets go of a call that is on its way no longer. Those who have
// gathered behind it come next. l.mu is held.
func (l *lane) release(c *call) {
	if next := l.queue.done(c); next != nil {
		l.queue.push(next)
	}
}

func (l *lane) releaseAll(p *pipeline) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range p.calls {
		l.release(c)
	}
}

// send carries p out and gives its callers their answers. It reports whether it
// still has its place on the lane: a pipeline that is abandoned loses it.
func (l *lane) send(p *pipeline) bool {
	outcome, err := l.breaker.allow()
	if err != nil {
		tell(p.calls, err)
		l.releaseAll(p)
		return true
	}
	ctx := newDeadline(p.ends(0, l.budget), p.last(l.budget), func() time.Time {
		next, abandoned := p.expire(l.budget)
		if abandoned {
			l.abandon(p, outcome)
		}
		return next
	})
	err = l.carryOut(ctx, p)
	received := time.Now()
	ctx.stop()
	if err == nil {
		l.learn(p, received)
	}
	rest := p.claim()
	if len(rest) == 0 {
		go l.recoup()
		return false
	}
	l.report(p, outcome, err) // first, for those who come again when they have their answer
	tell(rest, err)
	l.releaseAll(p)
	return true
}

// carryOut sets the answers to p's calls. Its error is that of the node, if the
// node has failed.
func (l *lane) carryOut(ctx context.Context, p *pipeline) error {
	return guard(func() error {
		if err := l.trial(p); err != nil {
			return err
		}
		l.exchange(ctx, p.calls)
		return p.failed()
	})
}

// report tells the breaker of an outcome, whether or not anybody still waits for
// it.
func (l *lane) report(p *pipeline, outcome func(error), err error) {
	switch err = p.verdict(err, l.budget); {
	case !isFailure(err):
		outcome(nil)
	case err == errUncounted || !l.breaker.counts(err, p.sent): //nolint:errorlint // never wrapped
		outcome(errUncounted)
	default:
		outcome(err)
		if l.failing != nil {
			l.failing()
		}
	}
}

// learn takes from p's answers how far away the node is, and which buckets are
// empty.
func (l *lane) learn(p *pipeline, received time.Time) {
	l.mu.Lock()
	l.measure(received.Sub(p.sent))
	l.mu.Unlock()
	if l.shortcut == nil {
		return
	}
	for _, c := range p.calls {
		if c.op == take && c.err == nil {
			l.shortcut.learn(c, p.sent, received)
		}
	}
}

// abandon counts p, whose callers have all gone, as a failure, and gives its
// place on the lane to the next pipeline. The client still holds p, for as long
// as its own timeouts say.
func (l *lane) abandon(p *pipeline, outcome func(error)) {
	l.report(p, outcome, &budgetError{l.budget})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range p.calls {
		l.release(c)
	}
	l.replace()
}

// replace lets another pipeline go out for one that is abandoned. If there are
// too many abandoned ones for that, and no other is on its way, what is in the
// queue is refused: nothing would move it. l.mu is held.
func (l *lane) replace() {
	l.abandoned++
	if l.inFlight+l.abandoned <= maxInFlight {
		go l.run()
		return
	}
	l.inFlight--
	for l.inFlight == 0 && l.queue.len() > 0 {
		c := l.queue.pop()
		c.tell(errStuck)
		l.release(c)
	}
}
