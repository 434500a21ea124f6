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

// gate holds up what a client sends until it is opened.
type gate struct{ open chan struct{} }

func (g gate) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (g gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		<-g.open
		return next(ctx, cmd)
	}
}

func (g gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		<-g.open
		return next(ctx, cmds)
	}
}

// gated is a store on a miniredis behind a closed gate, and its one lane.
func gated(t *testing.T, opts ...Option) (store *Store, l *lane, open func()) {
	t.Helper()
	server := miniredis.RunT(t)
	server.SetTime(time.Unix(1_800_000_000, 0))
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	g := gate{make(chan struct{})}
	open = sync.OnceFunc(func() { close(g.open) })
	t.Cleanup(open)
	rdb.AddHook(g)
	store, err := New(rdb, append([]Option{WithBudget(time.Minute)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	l, err = store.router.lane(t.Context(), &probe[0])
	if err != nil {
		t.Fatal(err)
	}
	return store, l, open
}

// queued waits until so many callers wait in the queue for their call to be sent.
func (l *lane) queued(t *testing.T, callers int) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for waiting := -1; waiting != callers; {
		if time.Now().After(deadline) {
			t.Fatalf("%d callers are in the queue, want %d", waiting, callers)
		}
		l.mu.Lock()
		waiting = 0
		for _, c := range l.queue.calls {
			if c != nil {
				waiting += int(c.joined.Load()) - len(c.gone)
			}
		}
		l.mu.Unlock()
	}
}

// busy sends so many calls that the next one has to wait.
func (l *lane) busy(t *testing.T, store *Store) {
	t.Helper()
	for i := range minInFlight {
		go func() { _, _ = store.Take(context.Background(), oneOf(fmt.Sprint("busy", i), 1)) }()
		deadline := time.Now().Add(30 * time.Second)
		for l.flying() != i+1 {
			if time.Now().After(deadline) {
				t.Fatal("the lane sends nothing")
			}
		}
	}
}

func (l *lane) flying() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue.len() > 0 {
		return -1
	}
	return l.inFlight
}

// oneOf is a bucket of key with room for 4 calls of cost 1.
func oneOf(key string, cost int64) []ratelimit.Bucket {
	return []ratelimit.Bucket{{Name: "test", Key: key, Capacity: 4e9, Charge: cost * 1e9}}
}

func TestCallersOfOneBucketShareACallAndAreGrantedInTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	store, l, open := gated(t)
	l.busy(t, store)
	const callers = 7
	decisions := make([]ratelimit.Decision, callers)
	buckets := make([][]ratelimit.Bucket, callers)
	var wg sync.WaitGroup
	for i := range callers {
		buckets[i] = oneOf("k", 1)
		wg.Go(func() { decisions[i], _ = store.Take(context.Background(), buckets[i]) })
		l.queued(t, i+1)
	}
	l.mu.Lock()
	if calls := l.queue.len(); calls != 1 {
		t.Errorf("%d callers wait for %d calls, want one", callers, calls)
	}
	l.mu.Unlock()
	open()
	wg.Wait()
	for i, decision := range decisions {
		left := min(int64(i)+1, 4) * 1e9
		if decision.Allowed != (i < 4) || buckets[i][0].Deficit != left {
			t.Errorf("caller %d: allowed %v with a deficit of %d, want %v and %d", i, decision.Allowed, buckets[i][0].Deficit, i < 4, left)
		}
	}
}

func TestCallersOfOtherCostsAndBucketsDoNotShareACall(t *testing.T) {
	t.Parallel()
	store, l, open := gated(t)
	l.busy(t, store)
	var wg sync.WaitGroup
	for i, buckets := range [][]ratelimit.Bucket{oneOf("k", 1), oneOf("k", 2), oneOf("l", 1)} {
		wg.Go(func() {
			if decision, err := store.Take(context.Background(), buckets); err != nil || !decision.Allowed {
				t.Errorf("caller %d: %v, %v", i, decision, err)
			}
		})
		l.queued(t, i+1)
	}
	l.mu.Lock()
	if calls := l.queue.len(); calls != 3 {
		t.Errorf("three different calls wait as %d", calls)
	}
	l.mu.Unlock()
	open()
	wg.Wait()
}

func TestACallerThatLeavesBeforeItsCallIsSentIsNotCharged(t *testing.T) {
	t.Parallel()
	store, l, open := gated(t)
	l.busy(t, store)
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			if _, err := store.Take(ctx, oneOf("k", 1)); !errors.Is(err, context.Canceled) {
				t.Errorf("Take: %v, want context.Canceled", err)
			}
		})
		l.queued(t, i+1)
	}
	leave()
	wg.Wait()
	l.queued(t, 0)
	open()
	buckets := oneOf("k", 1)
	if _, err := store.Peek(t.Context(), buckets); err != nil || buckets[0].Deficit != 0 {
		t.Errorf("the bucket's deficit is %d (%v) after everybody left", buckets[0].Deficit, err)
	}
}

func TestWhoComesAfterOneThatHasLeftTakesItsPlace(t *testing.T) {
	t.Parallel()
	store, l, open := gated(t)
	l.busy(t, store)
	const callers, leaver = 6, 1
	ctx, leave := context.WithCancel(t.Context())
	errs := make([]error, callers)
	decisions := make([]ratelimit.Decision, callers)
	buckets := make([][]ratelimit.Bucket, callers)
	var wg sync.WaitGroup
	for i := range callers {
		buckets[i] = oneOf("k", 1)
		his := t.Context()
		if i == leaver {
			his = ctx
		}
		wg.Go(func() { decisions[i], errs[i] = store.Take(his, buckets[i]) })
		l.queued(t, i+1)
	}
	leave()
	l.queued(t, callers-1)
	open()
	wg.Wait()
	place := int64(0)
	for i, decision := range decisions {
		if i == leaver {
			continue
		}
		place++
		if left := min(place, 4) * 1e9; errs[i] != nil || decision.Allowed != (place <= 4) || buckets[i][0].Deficit != left {
			t.Errorf("caller %d: allowed %v (%v) with a deficit of %d, want %v and %d", i, decision.Allowed, errs[i], buckets[i][0].Deficit, place <= 4, left)
		}
	}
}

func TestACrowdDoesNotWaitForTheAnswerOfAnother(t *testing.T) {
	t.Parallel()
	store, l, open := gated(t)
	var allowed atomic.Int64
	var wg sync.WaitGroup
	caller := func() {
		if decision, err := store.Take(context.Background(), oneOf("k", 1)); err != nil {
			t.Errorf("Take: %v", err)
		} else if decision.Allowed {
			allowed.Add(1)
		}
	}
	wg.Go(caller)
	until(t, "a call on its way", func() bool { return l.flying() == 1 })
	for range crowd {
		wg.Go(caller)
	}
	until(t, "the others to gather", func() bool { return l.gathered(oneOf("k", 1)) == crowd })
	if n := l.flying(); n != 1 {
		t.Errorf("%d calls are on their way before there is a crowd", n)
	}
	wg.Go(caller)
	until(t, "the crowd to be on its way", func() bool { return l.flying() == 2 })
	open()
	wg.Wait()
	if n := allowed.Load(); n != 4 {
		t.Errorf("%d calls are allowed, want 4", n)
	}
}

// Callers join and leave without a lock while the call is sent or dropped.
func TestNobodyIsForgottenWhoComesAsAnotherLeaves(t *testing.T) {
	t.Parallel()
	store, l, open := gated(t)
	open()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for n := range 500 {
				ctx, leave := context.WithTimeout(t.Context(), time.Duration(n*(i+1)%400)*time.Microsecond)
				_, err := store.Take(ctx, oneOf("k", 1))
				leave()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Take: %v", err)
				}
				_, _ = store.Take(t.Context(), oneOf("k", 1)) // ends with the budget if it is forgotten
			}
		})
	}
	wg.Wait()
	until(t, "an idle lane", func() bool { return l.flying() == 0 })
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.queue.last); n != 0 || l.queue.popular.Load() != nil {
		t.Errorf("the queue remembers %d calls, and %v", n, l.queue.popular.Load())
	}
}

func TestEachGrantIsOnALevelOfItsOwnAndChargedOnce(t *testing.T) {
	t.Parallel()
	store, l, open := gated(t, WithoutShortcut())
	open()
	const callers, calls, charge = 300, 40, 1000
	bucketOf := func(key string) []ratelimit.Bucket {
		return []ratelimit.Bucket{{Name: "test", Key: key, Capacity: 1e15, Charge: charge}}
	}
	var mu sync.Mutex
	levels := make(map[string]map[int64]bool)
	left := make(map[string]int64)
	var wg sync.WaitGroup
	for i := range callers {
		key := []string{"hot", "hot", "warm"}[i%3] // a crowd, and some more
		wg.Go(func() {
			for n := range calls {
				ctx, leave := t.Context(), func() {}
				if i%4 == 0 {
					ctx, leave = context.WithTimeout(ctx, time.Duration(n*100)*time.Microsecond)
				}
				buckets := bucketOf(key)
				decision, err := store.Take(ctx, buckets)
				leave()
				mu.Lock()
				switch level := buckets[0].Deficit; {
				case err != nil:
					left[key]++
				case !decision.Allowed || level == 0 || levels[key][level]:
					t.Errorf("%s: allowed %v at level %d, as somebody else", key, decision.Allowed, level)
				case levels[key] == nil:
					levels[key] = map[int64]bool{level: true}
				default:
					levels[key][level] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	until(t, "an idle lane", func() bool { return l.flying() == 0 })
	for key := range levels {
		buckets := bucketOf(key)
		if _, err := store.Peek(t.Context(), buckets); err != nil {
			t.Fatal(err)
		}
		charged, granted := buckets[0].Deficit/charge, int64(len(levels[key]))
		if charged < granted || charged > granted+left[key] {
			t.Errorf("%s: %d charges for %d grants and %d who have left", key, charged, granted, left[key])
		}
	}
}

func TestAnIdleLaneHoldsNoGoroutine(t *testing.T) {
	t.Parallel()
	store, l, open := gated(t)
	open()
	if _, err := store.Take(t.Context(), oneOf("k", 1)); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for l.flying() != 0 {
		if time.Now().After(deadline) {
			t.Fatal("the lane still runs")
		}
	}
}

func TestANodeFarAwayGetsMorePipelines(t *testing.T) {
	t.Parallel()
	for _, step := range []struct {
		distance time.Duration
		want     int
	}{{50 * time.Microsecond, minInFlight}, {time.Millisecond, 4}, {100 * time.Millisecond, maxInFlight}} {
		l := newLane(settings{batch: true}, nil, nil, nil)
		for range 3 {
			l.measure(step.distance)
			l.measure(2 * step.distance) // a large pipeline
		}
		if got := l.allowed(); got != step.want {
			t.Errorf("at %v: %d pipelines, want %d", step.distance, got, step.want)
		}
	}
}

func TestOneCallOfABucketIsOnItsWayAndTheRestGatherBehindIt(t *testing.T) {
	t.Parallel()
	q := newQueue(true)
	first := q.enter(newCall(take, oneOf("k", 1)), true)
	if q.enter(newCall(take, oneOf("k", 1)), true) != first {
		t.Error("a call in the queue is not shared")
	}
	q.pop()
	second := q.enter(newCall(take, oneOf("k", 1)), true)
	if second == first || q.len() != 0 || q.enter(newCall(take, oneOf("k", 1)), true) != second {
		t.Error("callers do not gather behind a call on its way")
	}
	second.join()
	if next := q.done(first); next != second {
		t.Error("those who have gathered do not come next")
	}
	if q.enter(newCall(take, oneOf("k", 1)), true) != second {
		t.Error("others cannot join them any more")
	}
	second.gone = []int64{0}
	if q.done(second) != nil || len(q.last) != 0 {
		t.Errorf("the queue remembers %d calls", len(q.last))
	}
}

func TestNobodyJoinsACallThatIsDroppedOrSent(t *testing.T) {
	t.Parallel()
	q := newQueue(true)
	first := q.enter(newCall(take, oneOf("k", 1)), true)
	for range 2 {
		q.enter(newCall(take, oneOf("k", 1)), true).join()
	}
	if q.popular.Load() != first {
		t.Error("a call that is shared is not popular")
	}
	q.pop()
	if _, ok := first.join(); ok || first.callers != 2 {
		t.Errorf("a caller joins a call that was sent for %d", first.callers)
	}
	second := q.enter(newCall(take, oneOf("k", 1)), true)
	second.join()
	second.gone = []int64{0}
	if q.done(first) != nil {
		t.Error("a call that all have left is not dropped")
	}
	if _, ok := second.join(); ok || q.popular.Load() != nil {
		t.Error("a caller joins a call that was dropped")
	}
}

func TestNobodyWaitsForTheAnswerOfAnotherWhenTheNodeIsFar(t *testing.T) {
	t.Parallel()
	q := newQueue(true)
	near := q.enter(newCall(take, oneOf("k", 1)), true)
	q.pop()
	gathered := q.enter(newCall(take, oneOf("k", 1)), true)
	gathered.join()
	far := q.enter(newCall(take, oneOf("k", 1)), false)
	if far == gathered || q.len() != 1 {
		t.Error("a caller waits for two answers")
	}
	if next := q.done(near); next != gathered {
		t.Error("those who had gathered are forgotten")
	}
	q.pop()
	if q.done(far) != nil || len(q.last) != 0 {
		t.Errorf("the queue remembers %d calls", len(q.last))
	}
}

func TestAQueueKeepsTheOrderOfArrivalAndItsSize(t *testing.T) {
	t.Parallel()
	q := newQueue(true)
	pushed, popped := 0, 0
	for round := range 10_000 {
		for range round % 5 {
			q.enter(newCall(peek, oneOf(fmt.Sprint(pushed), 1)), true)
			pushed++
		}
		for range min(round%3+1, q.len()) {
			if c := q.pop(); c.buckets[0].Key != fmt.Sprint(popped) {
				t.Fatalf("call %s comes in place of %d", c.buckets[0].Key, popped)
			}
			popped++
		}
	}
	if q.len() != pushed-popped || cap(q.calls) > 1000 {
		t.Errorf("%d calls are left of %d, in room for %d", q.len(), pushed-popped, cap(q.calls))
	}
}
