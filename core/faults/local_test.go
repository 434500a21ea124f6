package faults

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/memstore"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

// grants are the times at which instances have admitted calls.
type grants struct {
	mu sync.Mutex
	at []time.Time
}

func (g *grants) add(at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = append(g.at, at)
}

// beyond is how many more were admitted than limit allows, in the worst window
// from the grant first to the grant last.
func (g *grants) beyond(limit ratelimit.Limit, first, last int) (worst int) {
	perToken := limit.Period / time.Duration(limit.Tokens)
	lowest := 0.0
	for i := first; i < last; i++ {
		// Admitted so far, less what has refilled: its rise is the bucket's use.
		level := float64(i-first) - float64(g.at[i].Sub(g.at[first]))/float64(perToken)
		if i == first || level < lowest {
			lowest = level
		}
		worst = max(worst, int(level-lowest)+1-limit.Burst)
	}
	return worst
}

func TestInstancesAdmitTogetherAtMostTheLimitWhileRedisIsGone(t *testing.T) {
	s := begin(t, "FailLocal(1/3), three instances")
	const instances = 3
	limit := ratelimit.PerSecond(60).WithBurst(60)
	srv := redistest.Start(t)
	var g grants
	var down, up int // how many grants there were when Redis was lost, and when it was back
	var loads []*load
	for i := range instances {
		rdb := s.client(redisstore.Options(), srv.Addr())
		limiter := s.limiter(rdb, limit, ratelimit.FailLocal(memstore.New(), 1.0/instances))
		loads = append(loads, s.under(&load{
			limiter: limiter, callers: callers*(i+1)/instances - callers*i/instances, pace: pace,
			key:     func(int, int) string { return "shared" },
			granted: func() { g.add(time.Now()) },
		}))
	}
	count := func() int { g.mu.Lock(); defer g.mu.Unlock(); return len(g.at) }
	more := func(n int) {
		until := count() + n
		s.await("grants", func() bool { return count() >= until })
	}
	more(120)
	down = count()
	srv.Pause()
	for _, l := range loads {
		s.more(l, ratelimit.SourceLocal, 10)
	}
	more(limit.Burst) // what the transition may add
	steady := count()
	more(180)
	up = count()
	srv.Resume()
	for _, l := range loads {
		s.more(l, ratelimit.SourceStore, 1)
	}
	more(limit.Burst)
	more(60)
	s.settled()

	// Times are those of the answers, which the store has given a little earlier.
	jitter := int(float64(limit.Tokens)*(budget+noise).Seconds()) + 1
	while := g.beyond(limit, steady, up)
	over := g.beyond(limit, 0, len(g.at))
	s.row.over = max(over, 0)
	s.row.note = fmt.Sprintf("burst %d; over while Redis was gone: %d, before: %d", limit.Burst, max(while, 0), max(g.beyond(limit, 0, down), 0))
	if while > jitter {
		t.Errorf("%d calls were admitted beyond the limit while Redis was gone", while)
	}
	if over > 2*limit.Burst+jitter {
		t.Errorf("%d calls were admitted beyond the limit, want at most a burst for each transition", over)
	}
}

func TestMemoryAndLogStayFlatWhileRedisIsGoneForLong(t *testing.T) {
	s := begin(t, "gone for long at full speed")
	srv := redistest.Start(t)
	l := s.under(&load{
		limiter: s.limiter(s.client(redisstore.Options(), srv.Addr()), plenty),
		callers: callers, pace: 2 * time.Millisecond, key: func(_, request int) string { return fmt.Sprint("user ", request) },
	})
	s.more(l, ratelimit.SourceStore, 500)
	srv.Kill()
	s.more(l, ratelimit.SourcePolicy, 20_000)
	before := heap()
	// As many as in 50 s at 2,000 requests/s.
	s.more(l, ratelimit.SourcePolicy, 100_000)
	grown := heap() - before
	l.stop()
	if lines := s.logged.len(); lines > 5 {
		t.Errorf("%d lines are logged", lines)
	}
	if grown > 10<<20 {
		t.Errorf("the heap has grown by %d KiB over 100,000 decisions", grown>>10)
	}
	s.row.note = fmt.Sprintf("heap %+d KiB, %d log lines", grown>>10, s.logged.len())
	s.settled()
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAMillionKeysDoNotFillTheMemory(t *testing.T) {
	random := func(int, int) string { return fmt.Sprintf("user %016x", rand.Uint64()) }
	one := ratelimit.PerHour(1) // whose bucket is empty after a call, and known to be
	t.Run("shortcut", func(t *testing.T) {
		s := begin(t, fmt.Sprint(keys, " keys, shortcut"))
		srv := redistest.Start(t)
		before := heap()
		l := s.under(&load{
			limiter: s.limiter(s.client(redisstore.Options(), srv.Addr()), one),
			callers: callers, key: random, only: keys,
		})
		s.bounded(l, keys, before, 64<<20)
	})
	t.Run("local", func(t *testing.T) {
		s := begin(t, fmt.Sprint(keys, " keys, local"))
		srv := redistest.Start(t)
		before := heap()
		srv.Pause()
		l := s.under(&load{
			limiter: s.limiter(s.client(redisstore.Options(), srv.Addr()), one, ratelimit.FailLocal(memstore.New(), 1)),
			// Callers who wait for nothing take turns of 10 ms at each processor, and one
			// who is between two others' turns would be taken for one who waits for a
			// decision.
			callers: callers, pace: 2 * time.Millisecond, key: random, only: keys,
		})
		s.bounded(l, keys, before, 64<<20)
	})
}

// bounded waits until all keys were asked for, and checks what the heap has
// grown by.
func (s *scenario) bounded(l *load, keys, before, most int64) {
	s.Helper()
	s.await("all keys", func() bool { return l.requests.Load() >= keys })
	grown := heap() - before
	s.row.note = fmt.Sprintf("heap %+d KiB", grown>>10)
	if grown > most {
		s.Errorf("the heap has grown by %d KiB", grown>>10)
	}
	s.settled()
}
