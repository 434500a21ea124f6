package redisstore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

// The load of a fleet: processes of this test binary, each with as many
// goroutines, share a number of calls at one key.
const (
	fleetProcesses  = 4
	fleetGoroutines = 64
	fleetCalls      = 20_000
)

// workerEnv holds the task of a process that is a worker of a fleet.
const workerEnv = "RATELIMIT_TEST_WORKER"

// task is what each process of a fleet does.
type task struct {
	Addr    string
	Variant int  // of variants
	Naive   bool // use the naive limiter
	Limit   ratelimit.Limit
	Calls   int
}

// grant is when a call that was admitted was made and answered, in microseconds.
type grant struct{ Sent, Received int64 }

// runFleet makes the calls from several processes at once and returns what was
// admitted.
func runFleet(t *testing.T, tk task) []grant {
	t.Helper()
	tk.Calls = fleetCalls / fleetProcesses
	spec, err := json.Marshal(tk)
	if err != nil {
		t.Fatal(err)
	}
	var workers []*exec.Cmd
	var starts []io.WriteCloser
	var outs []*bufio.Reader
	for range fleetProcesses {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), workerEnv+"="+string(spec))
		cmd.Stderr = os.Stderr
		in, _ := cmd.StdinPipe()
		out, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		workers, starts, outs = append(workers, cmd), append(starts, in), append(outs, bufio.NewReader(out))
	}
	for _, out := range outs { // each says that it is connected
		if _, err := out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	for _, in := range starts {
		_ = in.Close()
	}
	var grants []grant
	for i, out := range outs {
		var some []grant
		if err := json.NewDecoder(out).Decode(&some); err != nil {
			t.Fatal(err)
		}
		grants = append(grants, some...)
		if err := workers[i].Wait(); err != nil {
			t.Fatal(err)
		}
	}
	return grants
}

// work is the main function of a worker.
func work() int {
	var tk task
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &tk); err != nil {
		panic(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: tk.Addr, PoolSize: fleetGoroutines})
	defer rdb.Close()
	if err := rdb.Ping(context.Background()).Err(); err != nil {
		panic(err)
	}
	decide := tk.decider(rdb)

	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)

	var left atomic.Int64
	left.Store(int64(tk.Calls))
	var mu sync.Mutex
	grants := []grant{}
	var wg sync.WaitGroup
	for range fleetGoroutines {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				sent := time.Now().UnixMicro()
				if decide() {
					mu.Lock()
					grants = append(grants, grant{sent, time.Now().UnixMicro()})
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(grants); err != nil {
		panic(err)
	}
	return 0
}

func (tk task) decider(rdb *redis.Client) func() bool {
	if tk.Naive {
		return func() bool { return naive(rdb, tk.Limit.Burst) }
	}
	store, err := redisstore.New(rdb, append(variants[tk.Variant].opts, redisstore.WithBudget(30*time.Second))...)
	if err != nil {
		panic(err)
	}
	limiter, err := ratelimit.New(store, "fleet", tk.Limit, ratelimit.FailClosed())
	if err != nil {
		panic(err)
	}
	return func() bool {
		res, err := limiter.Allow(context.Background(), "one")
		if err != nil {
			panic(err)
		}
		return res.Allowed
	}
}

// naive reads, decides and writes in three steps, as limiters do that have not
// met two servers at the same moment yet.
func naive(rdb *redis.Client, burst int) bool {
	ctx := context.Background()
	spent, err := rdb.Get(ctx, "naive").Int()
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
		panic(err)
	}
	if spent >= burst {
		return false
	}
	if err := rdb.Set(ctx, "naive", strconv.Itoa(spent+1), 0).Err(); err != nil {
		panic(err)
	}
	return true
}

func TestAFleetAdmitsExactlyTheBurst(t *testing.T) {
	const burst = 100
	for i, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			server := redistest.Start(t)
			grants := runFleet(t, task{Addr: server.Addr(), Variant: i, Limit: never(burst)})
			if len(grants) != burst {
				t.Errorf("%d calls were admitted, want exactly %d", len(grants), burst)
			}
		})
	}
}

func TestTheProofOfAtomicityFailsANaiveLimiter(t *testing.T) {
	const burst = 100
	server := redistest.Start(t)
	grants := runFleet(t, task{Addr: server.Addr(), Naive: true, Limit: never(burst)})
	if len(grants) <= burst {
		t.Errorf("a naive limiter admitted %d of %d: the load does not tell it from an atomic one", len(grants), burst)
	}
	t.Logf("the naive limiter admitted %d calls where %d are allowed", len(grants), burst)
}

func TestNoWindowAdmitsMoreThanBurstAndRefill(t *testing.T) {
	limit := ratelimit.PerSecond(500).WithBurst(50)
	for i, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			server := redistest.Start(t)
			grants := runFleet(t, task{Addr: server.Addr(), Variant: i, Limit: limit})
			if len(grants) < limit.Burst {
				t.Errorf("only %d calls were admitted, want at least the burst of %d", len(grants), limit.Burst)
			}
			if window, admitted := worstWindow(grants, limit); admitted > 0 {
				t.Errorf("%d calls were admitted within %v", admitted, window)
			}
		})
	}
}

// worstWindow returns a window that admitted more than the limit allows, and how
// many; 0 if there is none. A window reaches from the sending of its first call
// to the receipt of its last answer, so the decisions lie within.
func worstWindow(grants []grant, limit ratelimit.Limit) (time.Duration, int) {
	received := slices.Clone(grants)
	slices.SortFunc(received, func(a, b grant) int { return int(a.Received - b.Received) })
	for _, first := range grants {
		admitted := 0
		for _, last := range received {
			if last.Sent < first.Sent {
				continue
			}
			admitted++
			window := time.Duration(last.Received-first.Sent) * time.Microsecond
			refilled := int(int64(limit.Tokens) * int64(window) / int64(limit.Period))
			if admitted > limit.Burst+refilled+1 { // a token may be about to be whole when the window opens
				return window, admitted
			}
		}
	}
	return 0, 0
}
