package memstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheStoreKeepsTheContractToTheMicrosecond(t *testing.T) {
	t.Parallel()
	for _, check := range storetest.Checks() {
		t.Run(check.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := New()
				check.Run(t, storetest.Harness{Store: s, Advance: s.advance, Dump: s.dump})
			})
		})
	}
}

func TestTheStoreKeepsTheContractByTheRealClock(t *testing.T) {
	storetest.Run(t, func(*testing.T) ratelimit.Store { return New() })
}

// advance moves the clock of a synctest bubble. That cannot go back: as it
// looks to a clock that did, every full_at is further ahead.
func (s *Store) advance(d time.Duration) {
	if d >= 0 {
		time.Sleep(d)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.fullAt {
		s.fullAt[id] -= d.Microseconds()
	}
}

func (s *Store) dump() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.fullAt)
}

func (s *Store) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.fullAt)
}

func limiterOn(t *testing.T, s *Store, name string, limit ratelimit.Limit) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(s, name, limit, ratelimit.FailClosed())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func allowed(t *testing.T, l *ratelimit.Limiter, key string) bool {
	t.Helper()
	res, err := l.Allow(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return res.Allowed
}

func TestRandomKeysWithoutEndStayBounded(t *testing.T) {
	t.Parallel()
	const bound, keys = 1000, 200_000
	s := New(WithMaxBuckets(bound))
	l := limiterOn(t, s, "api", ratelimit.PerDay(5))
	passed := 0
	for range keys {
		if allowed(t, l, strconv.FormatUint(rand.Uint64(), 36)) {
			passed++
		}
	}
	if n := s.len(); n != bound+1 { // the one that newcomers share
		t.Errorf("the store holds %d buckets, want %d", n, bound+1)
	}
	if passed != bound+5 {
		t.Errorf("%d calls passed, want one for each of %d keys and 5 for all others", passed, bound)
	}
}

func TestTheDefaultBoundIsAHundredThousand(t *testing.T) {
	t.Parallel()
	s := New()
	l := limiterOn(t, s, "api", ratelimit.PerDay(1))
	for i := range 100_010 {
		allowed(t, l, strconv.Itoa(i))
	}
	if n := s.len(); n != 100_001 {
		t.Errorf("the store holds %d buckets, want 100,000 and a shared one", n)
	}
}

func TestABoundBelowOneIsOne(t *testing.T) {
	t.Parallel()
	for _, bound := range []int{0, -1} {
		s := New(WithMaxBuckets(bound))
		l := limiterOn(t, s, "api", ratelimit.PerDay(1))
		for i := range 10 {
			allowed(t, l, strconv.Itoa(i))
		}
		if n := s.len(); n != 2 {
			t.Errorf("bound %d: the store holds %d buckets, want one and a shared one", bound, n)
		}
	}
}

func TestALongKeyTakesNoMoreMemoryThanAShortOne(t *testing.T) {
	t.Parallel()
	s := New()
	l := limiterOn(t, s, "api", ratelimit.PerDay(1))
	allowed(t, l, strings.Repeat("x", 1<<20))
	for id := range s.fullAt {
		if len(id.key) > 128 {
			t.Errorf("a key of %d bytes is kept", len(id.key))
		}
	}
}

// saturated is a store without room: keys 0 to 9 have each spent one of their 3
// tokens.
func saturated(t *testing.T) (*Store, *ratelimit.Limiter) {
	t.Helper()
	s := New(WithMaxBuckets(10))
	l := limiterOn(t, s, "api", ratelimit.PerHour(3))
	for i := range 10 {
		allowed(t, l, strconv.Itoa(i))
	}
	return s, l
}

func TestWithoutRoomNewcomersShareOneBucketAndOthersKeepTheirs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := saturated(t)
		other := limiterOn(t, s, "other", ratelimit.PerHour(2))
		for _, sharing := range []struct {
			l    *ratelimit.Limiter
			want int
		}{{l, 3}, {other, 2}} {
			passed := 0
			for i := range 100 {
				if allowed(t, sharing.l, fmt.Sprint("newcomer", i)) {
					passed++
				}
			}
			if passed != sharing.want {
				t.Errorf("%s: %d newcomers passed, want %d", sharing.l.Name(), passed, sharing.want)
			}
		}
		for i := range 10 {
			for call, want := range []bool{true, true, false} {
				if got := allowed(t, l, strconv.Itoa(i)); got != want {
					t.Errorf("key %d, further call %d: allowed %v, want %v", i, call+1, got, want)
				}
			}
		}
	})
}

func TestWithoutRoomTheSharedBucketRefills(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := saturated(t)
		for i := range 10 { // so that they stay
			allowed(t, l, strconv.Itoa(i))
			allowed(t, l, strconv.Itoa(i))
		}
		for i := range 4 {
			allowed(t, l, fmt.Sprint("newcomer", i))
		}
		for i := range 2 {
			time.Sleep(20 * time.Minute)
			if !allowed(t, l, fmt.Sprint("later", i)) || allowed(t, l, fmt.Sprint("more", i)) {
				t.Errorf("after %d tokens' time not exactly one newcomer passes", i+1)
			}
		}
		if n := s.len(); n != 11 {
			t.Errorf("the store holds %d buckets, want 11", n)
		}
	})
}

func TestFullBucketsMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, l := saturated(t)
		time.Sleep(20 * time.Minute)
		for i := range 10 {
			key := fmt.Sprint("newcomer", i)
			for call := range 4 {
				if got, want := allowed(t, l, key), call < 3; got != want {
					t.Errorf("%s, call %d: allowed %v, want %v", key, call+1, got, want)
				}
			}
		}
		if n := s.len(); n != 10 {
			t.Errorf("the store holds %d buckets, want 10", n)
		}
	})
}

func TestWhatIsFullIsNotKept(t *testing.T) {
	t.Parallel()
	s := New()
	ctx := context.Background()
	l := limiterOn(t, s, "api", ratelimit.PerDay(2))
	for what, call := range map[string]func() error{
		"Peek":   func() error { _, err := l.Peek(ctx, "k"); return err },
		"Refund": func() error { return l.Refund(ctx, "k", 1) },
		"Reset":  func() error { return l.Reset(ctx, "k") },
	} {
		if err := call(); err != nil || s.len() != 0 {
			t.Errorf("%s of an unknown bucket: %v, and the store holds %s", what, err, s.dump())
		}
	}
	allowed(t, l, "k")
	if err := l.Refund(ctx, "k", 1); err != nil || s.len() != 0 {
		t.Errorf("Refund of all that was spent: %v, and the store holds %s", err, s.dump())
	}
	allowed(t, l, "k")
	if err := l.Reset(ctx, "k"); err != nil || s.len() != 0 {
		t.Errorf("Reset: %v, and the store holds %s", err, s.dump())
	}
}

// A call that made room for one of its buckets by dropping another must not
// write that other one's level to the bucket that newcomers share.
func TestMakingRoomDoesNotRefillTheSharedBucket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := New(WithMaxBuckets(2))
		bucketOf := func(key string, capacity, charge time.Duration) ratelimit.Bucket {
			return ratelimit.Bucket{Name: "api", Key: key, Capacity: capacity.Microseconds(), Charge: charge.Microseconds()}
		}
		take := func(buckets ...ratelimit.Bucket) bool {
			decision, err := s.Take(ctx, buckets)
			if err != nil {
				t.Fatal(err)
			}
			return decision.Allowed
		}
		const day = 24 * time.Hour
		known, leaving := bucketOf("known", time.Hour, time.Minute), bucketOf("leaving", day, day)
		take(known)
		take(leaving)
		if !take(bucketOf("newcomer", day, day)) { // all that newcomers share
			t.Fatal("the first newcomer is denied")
		}
		if err := s.Reset(ctx, []ratelimit.Bucket{leaving}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // known is full, and is dropped for the other's sake
		if !take(known, bucketOf("other", day, time.Hour)) {
			t.Fatal("two full buckets deny a call")
		}
		if take(bucketOf("second newcomer", day, time.Hour)) {
			t.Errorf("the shared bucket, which was empty, admits a call; the store holds %s", s.dump())
		}
	})
}

func TestATakeAllocatesNothing(t *testing.T) {
	s := New()
	buckets := []ratelimit.Bucket{{Name: "api", Key: "k", Capacity: 1e9, Charge: 1}, {Name: "api", Key: "k", Capacity: 2e9, Charge: 1}}
	if allocs := testing.AllocsPerRun(100, func() { _, _ = s.Take(context.Background(), buckets) }); allocs > 0 {
		t.Errorf("a Take allocates %v times", allocs)
	}
}

func TestResettingAKeyWithoutRoomLeavesWhatOthersShare(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	limiter, err := ratelimit.New(New(WithMaxBuckets(1)), "api", ratelimit.PerHour(1), ratelimit.FailClosed())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"known", "newcomer"} {
		if res, err := limiter.Allow(ctx, key); err != nil || !res.Allowed {
			t.Fatalf("Allow(%s): %+v, %v", key, res, err)
		}
	}
	if err := limiter.Reset(ctx, "another newcomer"); err != nil {
		t.Fatal(err)
	}
	if res, err := limiter.Allow(ctx, "a third"); err != nil || res.Allowed {
		t.Errorf("after a reset of what newcomers share: %+v, %v; want a denial", res, err)
	}
}
