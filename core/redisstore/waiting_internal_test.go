package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// turnstile holds up the first round trip until first is closed, and all others
// until others is.
type turnstile struct {
	trips         *atomic.Int64
	first, others chan struct{}
}

func (s turnstile) pass() {
	if s.trips.Add(1) == 1 {
		<-s.first
		return
	}
	<-s.others
}

func (s turnstile) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (s turnstile) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.pass()
		return next(ctx, cmd)
	}
}

func (s turnstile) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.pass()
		return next(ctx, cmds)
	}
}

// crowded is a store whose places on its lane are all taken, by a call for
// "first" and others that stay longer, each behind the turnstile.
type crowded struct {
	*Store
	lane      *lane
	letFirst  func()
	letOthers func()
	callers   sync.WaitGroup
}

func newCrowded(t *testing.T, budget time.Duration) *crowded {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	if err := rdb.ScriptLoad(t.Context(), script).Err(); err != nil { // so that each call is one round trip
		t.Fatal(err)
	}
	stile := turnstile{new(atomic.Int64), make(chan struct{}), make(chan struct{})}
	rdb.AddHook(stile)
	store, err := New(rdb, WithBudget(budget))
	if err != nil {
		t.Fatal(err)
	}
	lane, err := store.router.lane(t.Context(), &probe[0])
	if err != nil {
		t.Fatal(err)
	}
	c := &crowded{
		Store:     store,
		lane:      lane,
		letFirst:  sync.OnceFunc(func() { close(stile.first) }),
		letOthers: sync.OnceFunc(func() { close(stile.others) }),
	}
	t.Cleanup(func() {
		c.letFirst()
		c.letOthers()
		c.callers.Wait()
	})
	for i := range minInFlight {
		key := "first"
		if i > 0 {
			key = fmt.Sprint("other ", i)
		}
		c.take(key)
		until(t, "a call to be sent", func() bool { return stile.trips.Load() == int64(i+1) })
	}
	return c
}

// take is one call, which gives its error and its time when it comes back.
func (c *crowded) take(key string) <-chan outcome {
	back := make(chan outcome, 1)
	started := time.Now()
	c.callers.Go(func() {
		_, err := c.Take(context.Background(), oneOf(key, 1))
		back <- outcome{err, time.Since(started)}
	})
	return back
}

type outcome struct {
	err  error
	took time.Duration
}

// gathered is how many callers wait behind a call that is on its way.
func (l *lane) gathered(buckets []ratelimit.Bucket) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.queue.last[keyOf(buckets)]; c != nil && c.next != nil {
		return int(c.next.joined.Load()) - len(c.next.gone)
	}
	return 0
}

// until waits for a condition.
func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30 s for %s", what)
		}
	}
}

// The callers who have gathered have waited for longer than those who stand in
// the queue before them.
func TestCallersWhoGatheredBehindACallAreLetGoWhenTheirOwnBudgetEnds(t *testing.T) {
	t.Parallel()
	const budget = 2 * time.Second
	c := newCrowded(t, budget)
	gathered := c.take("first")
	until(t, "a caller to gather", func() bool { return c.lane.gathered(oneOf("first", 1)) == 1 })
	time.Sleep(budget * 3 / 4) // of the budget of the one who has gathered
	c.take("late")
	c.lane.queued(t, 1)
	c.letFirst()
	if back := <-gathered; back.took > budget+budget/2 {
		t.Errorf("a caller was let go after %v with %v, its budget is %v", back.took, back.err, budget)
	}
}

func TestACallersBudgetThatEndsTakesNobodyElsesOnTheSamePipeline(t *testing.T) {
	t.Parallel()
	const budget = 3 * time.Second
	const newcomers = 100
	c := newCrowded(t, budget)
	early := c.take("early")
	c.lane.queued(t, 1)
	time.Sleep(budget / 2) // of the budget of the early one
	late := make([]<-chan outcome, newcomers)
	for i := range late {
		late[i] = c.take(fmt.Sprint("late ", i))
	}
	c.lane.queued(t, 1+newcomers)
	c.letFirst()
	var expired *budgetError
	if back := <-early; !errors.As(back.err, &expired) {
		t.Errorf("the early caller was let go with %v, want that its budget has ended", back.err)
	}
	c.letOthers()
	for i := range late {
		if back := <-late[i]; back.err != nil {
			t.Fatalf("late caller %d was let go after %v of its budget of %v with: %v", i, back.took, budget, back.err)
		}
	}
}
