package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
)

const (
	budget = 100 * time.Millisecond
	// slack is what a busy machine and the race detector may add to a decision.
	// The promise is budget + 20 ms; core/faults prints what it takes.
	slack = 400 * time.Millisecond
	// patience is how long a condition may take before the test fails.
	patience = 30 * time.Second
)

// plenty is a limit that nobody reaches.
var plenty = ratelimit.PerSecond(100_000).WithBurst(1_000_000)

// settings are those that every client is tested with: go-redis' own, and ours,
// which is tested without shortcut and batch too.
var settings = map[string]func() *redis.Options{
	"default options":           func() *redis.Options { return &redis.Options{} },
	"redisstore.Options":        redisstore.Options,
	"redisstore.Options" + bare: redisstore.Options,
}

// bare ends the names of tests whose stores have neither shortcut nor batch.
const bare = ", no shortcut, no batch"

// eachClient runs a test with a client of each of the settings.
func eachClient(t *testing.T, test func(t *testing.T, opts *redis.Options)) {
	t.Helper()
	for name, opts := range settings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, opts())
		})
	}
}

func connect(t *testing.T, opts *redis.Options) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func connectTo(t *testing.T, opts *redis.Options, addr string) *redis.Client {
	t.Helper()
	opts.Addr = addr
	return connect(t, opts)
}

// watched is a limiter, and what it has told its observer and its logger.
type watched struct {
	*ratelimit.Limiter
	decisions *decisions
	logged    *logbook
}

// limit makes a limiter that fails open, on a store of its own.
func limit(t *testing.T, rdb redis.UniversalClient, opts ...redisstore.Option) watched {
	t.Helper()
	if strings.HasSuffix(t.Name(), strings.ReplaceAll(bare, " ", "_")) {
		opts = append(opts, redisstore.WithoutShortcut(), redisstore.WithoutBatch())
	}
	store, err := redisstore.New(rdb, opts...)
	if err != nil {
		t.Fatal(err)
	}
	w := watched{decisions: new(decisions), logged: new(logbook)}
	w.Limiter, err = ratelimit.New(store, "api", plenty, ratelimit.WithObserver(w.decisions), ratelimit.WithLogger(slog.New(w.logged)))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// decisions is an Observer that keeps what it sees.
type decisions struct {
	mu   sync.Mutex
	all  []ratelimit.Result
	took []time.Duration
}

func (d *decisions) ObserveDecision(_ context.Context, res ratelimit.Result, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all, d.took = append(d.all, res), append(d.took, took)
}

func (d *decisions) ObserveRefund(context.Context, string, string, int, error) {}

func (d *decisions) by(source ratelimit.Source) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, res := range d.all {
		if res.Source == source {
			n++
		}
	}
	return n
}

func (d *decisions) longest() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Max(append(d.took, 0))
}

// logbook is a slog.Handler that keeps the messages.
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
	l.lines = append(l.lines, r.Level.String()+" "+r.Message)
	return nil
}

func (l *logbook) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// await waits for a condition.
func await(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// decide is one decision, which has to be made.
func decide(t *testing.T, l watched, key string) ratelimit.Result {
	t.Helper()
	res, err := l.Allow(t.Context(), key)
	if err != nil {
		t.Fatalf("Allow: %v", err)
	}
	return res
}

// fromStore is one decision, which Redis has to make.
func fromStore(t *testing.T, l watched, key string) ratelimit.Result {
	t.Helper()
	res := decide(t, l, key)
	if res.Source != ratelimit.SourceStore {
		t.Fatalf("decided by %v because of %v, want by the store", res.Source, res.Cause)
	}
	return res
}

// warm waits until Redis decides: the first call may take longer than the budget
// on a slow machine.
func warm(t *testing.T, l watched) {
	t.Helper()
	await(t, "Redis to decide", func() bool { return decide(t, l, "is it warm").Source == ratelimit.SourceStore })
}

// refusal is the cause of a decision for which Redis was not asked.
type refusal interface{ RetryAfter() time.Duration }

func refused(err error) bool {
	var r refusal
	return errors.As(err, &r)
}

// opened reports whether the breaker is open: a decision is not sent to Redis.
func opened(t *testing.T, l watched) bool {
	t.Helper()
	return refused(decide(t, l, "is it open").Cause)
}

// awaitRecovery waits until Redis decides again, and returns how long that took.
func awaitRecovery(t *testing.T, l watched) time.Duration {
	t.Helper()
	start := time.Now()
	await(t, "recovery", func() bool { return decide(t, l, "is it back").Source == ratelimit.SourceStore })
	return time.Since(start)
}

// together runs f n times at once.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// under runs f while callers ask for keys of their own, one decision after the
// other, and returns when they have stopped.
func under(t *testing.T, callers int, l watched, f func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = l.Allow(context.Background(), fmt.Sprintf("caller %d", i)) // the observer sees it
				time.Sleep(200 * time.Microsecond)
			}
		})
	}
	defer wg.Wait()
	defer stop()
	f()
}

// deaf listens, accepts and never answers. It counts the connections.
func deaf(t *testing.T) (addr string, accepted func() int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			wg.Go(func() { _, _ = io.Copy(io.Discard, conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return listener.Addr().String(), func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(conns)
	}
}

// silence is a logger for go-redis, which has a line for each dial that fails.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// nobody is an address that refuses connections.
func nobody(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
