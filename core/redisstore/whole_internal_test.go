package redisstore

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

// storeAt is a store on the server of that address, and its lane.
func storeAt(t *testing.T, addr string) (*Store, *lane) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, DialerRetries: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	store, err := New(rdb, WithBudget(30*time.Second), WithoutShortcut())
	if err != nil {
		t.Fatal(err)
	}
	l, err := store.router.lane(t.Context(), &probe[0])
	if err != nil {
		t.Fatal(err)
	}
	return store, l
}

// proxy answers the script's commands by pass, which hands them on to one of the
// servers behind it.
func proxy(t *testing.T, pass func(keys []string) (backend string, refusal string)) (addr string) {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	var mu sync.Mutex
	clients := make(map[string]*redis.Client)
	t.Cleanup(func() {
		for _, rdb := range clients {
			_ = rdb.Close()
		}
	})
	to := func(addr string) *redis.Client {
		mu.Lock()
		defer mu.Unlock()
		if clients[addr] == nil {
			clients[addr] = redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
		}
		return clients[addr]
	}
	handle := func(c *server.Peer, cmd string, args []string) {
		var n int
		_, _ = fmt.Sscan(args[1], &n)
		backend, refusal := pass(args[2 : 2+n])
		if refusal != "" {
			c.WriteError(refusal)
			return
		}
		command := []any{cmd}
		for _, arg := range args {
			command = append(command, arg)
		}
		write(c, to(backend).Do(context.Background(), command...))
	}
	for _, name := range []string{"EVALSHA", "EVAL"} {
		if err := s.Register(name, handle); err != nil {
			t.Fatal(err)
		}
	}
	return s.Addr().String()
}

func write(c *server.Peer, cmd *redis.Cmd) {
	each, err := cmd.Slice()
	if n, notEach := cmd.Int64(); notEach == nil {
		c.WriteInt(int(n))
		return
	}
	if cmd.Err() != nil || err != nil {
		c.WriteError(cmd.Err().Error())
		return
	}
	c.WriteLen(len(each))
	for _, one := range each {
		if n, ok := one.(int64); ok {
			c.WriteInt(int(n))
		} else {
			c.WriteError(fmt.Sprint(one))
		}
	}
}

// split hands each command on by its first key, as proxies do that spread keys
// over several servers.
func split(servers ...string) func(keys []string) (string, string) {
	return func(keys []string) (string, string) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(keys[0]))
		return servers[int(h.Sum32())%len(servers)], ""
	}
}

// overAdmitted has many callers ask for many buckets of 4 tokens at once, and
// counts the buckets that admit more.
func overAdmitted(t *testing.T, store *Store, round string) (n int) {
	t.Helper()
	const keys, calls = 64, 8
	var admitted [keys]atomic.Int64
	var wg sync.WaitGroup
	for key := range keys {
		for range calls {
			wg.Go(func() {
				decision, err := store.Take(context.Background(), oneOf(fmt.Sprint(round, key), 1))
				if err != nil {
					t.Errorf("Take: %v", err)
				}
				if decision.Allowed {
					admitted[key].Add(1)
				}
			})
		}
	}
	wg.Wait()
	for key := range keys {
		switch {
		case admitted[key].Load() < 4:
			t.Errorf("%d calls are allowed, want 4 or more", admitted[key].Load())
		case admitted[key].Load() > 4:
			n++
		}
	}
	return n
}

// findsOut has l find out whether its node is whole.
func findsOut(t *testing.T, l *lane) (shown bool, forEver bool) {
	t.Helper()
	l.whole.asked.CompareAndSwap(0, 1) // nobody else asks
	l.findOut()
	return l.isWhole(), l.whole.asked.Load() == never
}

func TestRunsAreNotSharedThroughAProxyThatSplitsKeys(t *testing.T) {
	t.Parallel()
	a, b := miniredis.RunT(t), miniredis.RunT(t)
	store, l := storeAt(t, proxy(t, split(a.Addr(), b.Addr())))
	for round := range 5 { // also while it finds out
		if n := overAdmitted(t, store, fmt.Sprint("round ", round, " ")); n > 0 {
			t.Errorf("%d buckets are in two places", n)
		}
	}
	if shown, forEver := findsOut(t, l); shown || !forEver {
		t.Errorf("the lane believes that its node is whole: %v, for ever: %v", shown, forEver)
	}
	if len(a.Keys()) == 0 || len(b.Keys()) == 0 {
		t.Error("the proxy splits nothing")
	}
	// Or else they would be.
	l.whole.shown.Store(true)
	n := 0
	for round := range 20 {
		n += overAdmitted(t, store, fmt.Sprint("believing round ", round, " "))
	}
	if n == 0 {
		t.Error("runs were shared, and no bucket was in two places")
	}
}

func TestRunsAreSharedOnRedisAndNothingIsLeftOfFindingOut(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	store, l := storeAt(t, srv.Addr())
	if shown, _ := findsOut(t, l); !shown {
		t.Error("the lane does not believe that its node is whole")
	}
	until(t, "its buckets to be gone", func() bool { return fmt.Sprint(srv.Do("DBSIZE")) == "0" })
	var calls []*call
	for i := range 50 {
		calls = append(calls, newCall(take, oneOf(fmt.Sprint("key ", i), 1)))
		calls[i].callers = 1
	}
	before := srv.Calls("evalsha")
	l.exchange(t.Context(), calls)
	if n := srv.Calls("evalsha") - before; n != 1 {
		t.Errorf("50 calls were %d commands", n)
	}
	for _, c := range calls {
		if c.err != nil || c.granted != 1 || c.found[0] != 0 {
			t.Fatalf("granted %d at a deficit of %v, %v", c.granted, c.found, c.err)
		}
	}
	if n := overAdmitted(t, store, "round "); n > 0 {
		t.Errorf("%d buckets have admitted too much", n)
	}
}

func TestRunsAreNotSharedWhereThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{"CROSSSLOT Keys in request don't hash to the same slot", "NOPERM No permissions to access a key"} {
		t.Run(refusal[:5], func(t *testing.T) {
			t.Parallel()
			behind := miniredis.RunT(t)
			store, l := storeAt(t, proxy(t, func(keys []string) (string, string) {
				if len(keys) > 1 {
					return "", refusal
				}
				return behind.Addr(), ""
			}))
			l.believe(true, time.Now().UnixNano()) // as it was when it was found out
			if n := overAdmitted(t, store, "first "); n > 0 || l.isWhole() {
				t.Errorf("%d buckets have admitted too much, runs are still shared: %v", n, l.isWhole())
			}
			if shown, forEver := findsOut(t, l); shown || forEver != (refusal[0] == 'C') {
				t.Errorf("the lane believes that its node is whole: %v, for ever: %v", shown, forEver)
			}
		})
	}
}

func TestANodeOutOfReachIsAskedAgain(t *testing.T) {
	t.Parallel()
	srv := miniredis.RunT(t)
	_, l := storeAt(t, srv.Addr())
	srv.Close()
	if shown, forEver := findsOut(t, l); shown || forEver {
		t.Errorf("the lane believes that its node is whole: %v, for ever: %v", shown, forEver)
	}
	if err := srv.Restart(); err != nil {
		t.Fatal(err)
	}
	if l.isWhole() {
		t.Error("it is asked again without a pause")
	}
	l.whole.asked.Add(-int64(askAgain))
	until(t, "the lane to know its node", func() bool { return l.isWhole() })
}

func TestABucketThatCannotBeDecidedFailsNoOther(t *testing.T) {
	t.Parallel()
	for name, addr := range map[string]func() string{
		"redis":     func() string { return redistest.Start(t).Addr() },
		"miniredis": func() string { return miniredis.RunT(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			_, l := storeAt(t, addr())
			rdb := l.node.(*redis.Client)
			spoil := map[string]func(key string){
				"set":  func(key string) { rdb.SAdd(t.Context(), key, "member") },
				"text": func(key string) { rdb.Set(t.Context(), key, "soon", 0) },
			}
			var calls []*call
			for _, key := range []string{"first", "set", "second", "text", "third"} {
				buckets := oneOf(key, 1)
				if f := spoil[key]; f != nil {
					f(redisKey("", &buckets[0]))
				}
				c := newCall(take, buckets)
				c.callers = 1
				calls = append(calls, c)
			}
			l.believe(true, time.Now().UnixNano())
			l.exchange(t.Context(), calls)
			for _, c := range calls {
				advice, refused := misconfiguration(c.err)
				if spoil[c.buckets[0].Key] != nil {
					if !refused || advice != otherValue {
						t.Errorf("%s: %v, want a mistake in what the key holds", c.buckets[0].Key, c.err)
					}
				} else if c.err != nil || c.granted != 1 {
					t.Errorf("%s: %d granted, %v", c.buckets[0].Key, c.granted, c.err)
				}
			}
		})
	}
}

// A bucket that is empty is denied also while Redis is out of memory: nothing is
// written for that.
func TestABucketThatCannotBeWrittenFailsNoOther(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	_, l := storeAt(t, srv.Addr())
	all := func(key string) *call {
		c := newCall(take, oneOf(key, 4))
		c.callers = 1
		return c
	}
	l.exchange(t.Context(), []*call{all("empty")})
	srv.Do("CONFIG", "SET", "maxmemory", "1")
	l.believe(true, time.Now().UnixNano())
	for range 5 {
		empty, fresh, other := all("empty"), all("fresh"), all("other")
		l.exchange(t.Context(), []*call{fresh, empty, other})
		if empty.err != nil || empty.granted != 0 {
			t.Errorf("the empty bucket: %d granted, %v; want a denial", empty.granted, empty.err)
		}
		if !redis.IsOOMError(fresh.err) || !isFailure(fresh.err) || !redis.IsOOMError(other.err) {
			t.Errorf("the fresh buckets: %v, %v; want OOM", fresh.err, other.err)
		}
	}
	if n := l.node.(*redis.Client).PoolStats().Misses; n > 1 {
		t.Errorf("%d connections were made: replies were not read to their end", n)
	}
}

func TestANodeThatIsSplitLaterIsFoundOut(t *testing.T) {
	t.Parallel()
	a, b := miniredis.RunT(t), miniredis.RunT(t)
	var two atomic.Bool
	both := split(a.Addr(), b.Addr())
	_, l := storeAt(t, proxy(t, func(keys []string) (string, string) {
		if !two.Load() {
			return a.Addr(), ""
		}
		return both(keys)
	}))
	if shown, _ := findsOut(t, l); !shown {
		t.Error("the lane does not believe that its node is whole")
	}
	two.Store(true)
	l.whole.asked.Add(-int64(askAgain))
	until(t, "the lane to know its node", func() bool { return !l.isWhole() })
}

// The Redis user needs +del for Reset alone.
func TestAResetThatIsRefusedKeepsNoCallsApart(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Do("ACL", "SETUSER", "limiter", "on", ">password", "resetchannels", "~rl1:*", "+eval", "+evalsha", "+get", "+set", "+time", "+ping")
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr(), Username: "limiter", Password: "password"})
	t.Cleanup(func() { _ = rdb.Close() })
	l := newLane(settings{budget: 30 * time.Second, batch: true}, rdb, nil, nil)
	if shown, _ := findsOut(t, l); !shown {
		t.Error("the lane does not believe that its node is whole")
	}
	calls := []*call{newCall(reset, oneOf("a", 1)), newCall(take, oneOf("b", 1)), newCall(take, oneOf("c", 1))}
	l.exchange(t.Context(), calls)
	if calls[0].err == nil || calls[1].err != nil || calls[2].err != nil || !l.isWhole() {
		t.Errorf("reset: %v, takes: %v and %v, runs are shared: %v", calls[0].err, calls[1].err, calls[2].err, l.isWhole())
	}
}

func TestCallsKeepTheirOrderInSharedRuns(t *testing.T) {
	t.Parallel()
	one := func(op operation) *call { return newCall(op, oneOf("k", 1)) }
	several := newCall(take, append(oneOf("k", 1), ratelimit.Bucket{Name: "test", Key: "k", Capacity: 5e9, Charge: 1e9}))
	calls := []*call{one(take), one(refund), several, one(peek), one(take), one(reset), one(reset), one(take)}
	var sizes []int
	var all []*call
	for _, r := range together(calls) {
		sizes = append(sizes, len(r))
		all = append(all, r...)
	}
	if !slices.Equal(all, calls) || !slices.Equal(sizes, []int{2, 1, 2, 1, 1, 1}) {
		t.Errorf("8 calls make runs of %v", sizes)
	}
}

func TestAReplyThatIsNoDeficitIsAnError(t *testing.T) {
	t.Parallel()
	pair := append(oneOf("a", 1), oneOf("b", 1)...)
	for _, reply := range []any{nil, "1", 1.5, int64(-1), int64(4e9 + 1), []any{}, []any{int64(1)}, []any{nil, nil}, []any{"1", nil}, []any{[]any{int64(1)}, int64(-1)}} {
		calls := []*call{newCall(take, pair), newCall(take, oneOf("a", 1)), newCall(take, oneOf("a", 1)), newCall(take, oneOf("b", 1))}
		calls[0].answer(reply, nil)
		calls[1].answer(reply, nil)
		run(calls[2:]).answer(reply, nil)
		for i, c := range calls {
			if c.err == nil {
				t.Errorf("call %d takes %#v for deficits %v", i, reply, c.found)
			}
		}
	}
}
