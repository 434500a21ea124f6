package faults

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

const (
	budget = 100 * time.Millisecond
	// promised is what a decision may take beyond its budget.
	promised = 20 * time.Millisecond
	// noise is what the race detector and a machine that is busy with other tests
	// may add to what takes several decisions.
	noise = 250 * time.Millisecond
	// enough requests to see one that takes longer than others.
	enough = 10_000
	// patience is how long a condition may take before the test fails.
	patience = 60 * time.Second
)

// plenty is a limit that nobody reaches.
var plenty = ratelimit.PerSecond(100_000).WithBurst(1_000_000)

// scenario is one fault, and the line that it makes in the table.
type scenario struct {
	*testing.T
	row    row
	conns  conns
	budget time.Duration
	enough int64 // how many requests it makes at least
	logged logbook
	loads  []*load
	stall  func() time.Duration
}

// begin begins a scenario. At its end the table gets a line.
func begin(t *testing.T, fault string) *scenario {
	t.Helper()
	s := &scenario{T: t, budget: budget, enough: enough, row: row{fault: fault, open: -1, over: -1, ran: -1, sent: -1, recovery: -1, conns: -1}}
	before := runtime.NumGoroutine()
	stop := s.watch()
	t.Cleanup(func() { // the first to be registered runs last, when the client is closed
		stop()
		left := func() bool { return runtime.NumGoroutine() > before || s.conns.open.Load() > 0 }
		for deadline := time.Now().Add(10 * time.Second); left() && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond)
		}
		if n := s.conns.open.Load(); n > 0 {
			t.Errorf("%d connections are left", n)
		}
		if s.row.goroutines = max(runtime.NumGoroutine()-before, 0); s.row.goroutines > 0 {
			stacks := make([]byte, 1<<20)
			t.Errorf("%d goroutines are left:\n%s", s.row.goroutines, stacks[:runtime.Stack(stacks, true)])
		}
		report(s.row)
	})
	return s
}

// watch sees for how long the machine stands still at most: how much longer than
// asked a goroutine sleeps that does nothing else.
func (s *scenario) watch() (stop func()) {
	var longest atomic.Int64
	s.stall = func() time.Duration { return time.Duration(longest.Load()) }
	ctx, cancel := context.WithCancel(context.Background())
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for ctx.Err() == nil {
			start := time.Now()
			time.Sleep(time.Millisecond)
			raise(&longest, int64(time.Since(start)-time.Millisecond))
		}
	})
	return func() { cancel(); watcher.Wait() }
}

// settings are those that every client is tested with: go-redis' own, and ours,
// which is tested without shortcut and batch too.
var settings = map[string]func() *redis.Options{
	"default client":            func() *redis.Options { return &redis.Options{} },
	"redisstore.Options":        redisstore.Options,
	"redisstore.Options" + bare: redisstore.Options,
}

// bare ends the names of scenarios whose stores have neither shortcut nor batch.
const bare = ", no shortcut, no batch"

// isBare reports whether the scenario's stores have neither shortcut nor batch.
func (s *scenario) isBare() bool {
	return strings.HasSuffix(s.Name(), strings.ReplaceAll(bare, " ", "_"))
}

// client makes a client whose connections are counted.
func (s *scenario) client(opts *redis.Options, addr string) *redis.Client {
	s.Helper()
	opts.Addr, opts.Dialer = addr, s.conns.dial
	rdb := redis.NewClient(opts)
	s.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// limiter makes a limiter on a store of its own.
func (s *scenario) limiter(rdb redis.UniversalClient, limit ratelimit.Limit, opts ...ratelimit.Option) *ratelimit.Limiter {
	s.Helper()
	settings := []redisstore.Option{redisstore.WithBudget(s.budget)}
	if s.isBare() {
		settings = append(settings, redisstore.WithoutShortcut(), redisstore.WithoutBatch())
	}
	store, err := redisstore.New(rdb, settings...)
	if err != nil {
		s.Fatal(err)
	}
	limiter, err := ratelimit.New(store, "api", limit, append([]ratelimit.Option{ratelimit.WithLogger(slog.New(&s.logged))}, opts...)...)
	if err != nil {
		s.Fatal(err)
	}
	return limiter
}

// under starts a load, which ends with the scenario or by stop.
func (s *scenario) under(l *load) *load {
	s.Helper()
	s.loads = append(s.loads, l)
	l.start()
	s.Cleanup(func() { l.stop() })
	return l
}

// settled stops the loads, adds them up and checks what every scenario promises.
func (s *scenario) settled() {
	s.Helper()
	s.await("enough requests", func() bool { return s.total() >= s.enough })
	var open []time.Duration
	for _, l := range s.loads {
		l.stop()
		s.row.longest = max(s.row.longest, time.Duration(l.longest.Load()))
		for source := range l.bySource {
			s.row.bySource[source] += l.bySource[source].Load()
		}
		open = append(open, l.open...)
		if n := l.unpolicy.Load(); n > 0 {
			s.Errorf("%d of %d calls got an error, although the limiter does not fail closed", n, l.requests.Load())
		}
	}
	s.row.requests = s.total()
	s.row.open = median(open)
	s.row.conns = s.conns.most.Load()
	s.Cleanup(func() {
		for _, l := range s.loads {
			if s.Failed() {
				s.Logf("causes: %v", l.causes)
			}
		}
	})
	s.row.stall = s.stall()
	// A decision in time has a timer that is late when the machine stands still, and
	// a caller who wakes up late.
	if s.row.longest > s.budget+promised+2*s.row.stall {
		s.Errorf("longest decision took %v, budget is %v, the machine stood still for %v", s.row.longest, s.budget, s.row.stall)
	}
	if s.row.open > 5*time.Millisecond {
		s.Errorf("median decision took %v while the breaker was open", s.row.open)
	}
}

// total is how many requests all loads have made.
func (s *scenario) total() (n int64) {
	for _, l := range s.loads {
		n += l.requests.Load()
	}
	return n
}

// executions compares what the servers have run with what the client has sent.
// exactly says whether nothing that was sent can have been lost on its way.
func (s *scenario) executions(exactly bool, servers ...*redistest.Server) {
	s.Helper()
	s.row.sent, s.row.ran = s.conns.sent.Load(), 0
	ran := func() (n int64) {
		for _, srv := range servers {
			n += int64(srv.Calls("evalsha") + srv.Calls("eval"))
		}
		return n
	}
	if exactly { // what is on its way may arrive after the last decision
		s.await("the last call to arrive", func() bool { return ran() >= s.row.sent })
	}
	if s.row.ran = ran(); s.row.ran > s.row.sent {
		s.Errorf("the script ran %d times, it was sent %d times", s.row.ran, s.row.sent)
	}
}

// await waits for a condition.
func (s *scenario) await(what string, reached func() bool) {
	s.Helper()
	for deadline := time.Now().Add(patience); !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// more waits until source has made n decisions more.
func (s *scenario) more(l *load, source ratelimit.Source, n int64) {
	s.Helper()
	until := l.by(source) + n
	s.await("decisions by "+source.String(), func() bool { return l.by(source) >= until })
}

// recovered waits until Redis decides again, and notes how long that took.
func (s *scenario) recovered(l *load, within time.Duration) {
	s.Helper()
	start := time.Now()
	s.more(l, ratelimit.SourceStore, 1)
	if s.row.recovery = time.Since(start); s.row.recovery > within+noise+s.stall() {
		s.Errorf("Redis decides again after %v, want within %v", s.row.recovery, within)
	}
	s.more(l, ratelimit.SourceStore, 500)
}

// outage is a fault that begins and ends under load.
func (s *scenario) outage(l *load, lose, mend func(), within time.Duration) {
	s.Helper()
	s.more(l, ratelimit.SourceStore, 500)
	lose()
	s.await("the breaker to open", func() bool {
		res, err := l.limiter.Allow(context.Background(), "is it open")
		return err == nil && refused(res.Cause)
	})
	s.more(l, ratelimit.SourcePolicy, s.enough)
	mend()
	s.recovered(l, within)
}

// logbook is a slog.Handler that counts the lines.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (*logbook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logbook) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l *logbook) WithGroup(string) slog.Handler          { return l }

func (l *logbook) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, r.Message)
	return nil
}

func (l *logbook) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}
