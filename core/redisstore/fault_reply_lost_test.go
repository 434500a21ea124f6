package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

// thief is a network that carries every request, and when it is armed steals the
// replies of the script: the server has carried out what the client does not
// hear of.
type thief struct {
	armed     atomic.Bool
	pipelines atomic.Int64 // stolen replies to several commands
	runs      atomic.Int64 // stolen replies to one command for several calls
}

func (t *thief) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &robbed{Conn: conn, thief: t}, nil
}

type robbed struct {
	net.Conn
	thief  *thief
	asking atomic.Pointer[[]byte] // the last request, if it is for the script
}

func (r *robbed) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p) // so that the server has answered
	request := r.asking.Load()
	if err != nil || request == nil || !r.thief.armed.Load() {
		return n, err
	}
	commands, calls := bytes.Count(*request, []byte("eval")), bytes.Count(*request, []byte("{api:"))
	switch {
	case commands > 1:
		r.thief.pipelines.Add(1)
	case calls > 1:
		r.thief.runs.Add(1)
	}
	_ = r.Close()
	return 0, io.EOF
}

func (r *robbed) Write(p []byte) (int, error) {
	if request := bytes.Clone(p); bytes.Contains(request, []byte("eval")) {
		r.asking.Store(&request)
	} else {
		r.asking.Store(nil)
	}
	return r.Conn.Write(p)
}

// runs is how often the servers have run the script.
func runs(servers ...*redistest.Server) (n int) {
	for _, srv := range servers {
		n += srv.Calls("evalsha") + srv.Calls("eval")
	}
	return n
}

// robbable makes a client whose replies can be stolen, and names its servers.
var robbable = map[string]func(t *testing.T, thief *thief) (redis.UniversalClient, []*redistest.Server){
	"Client": func(t *testing.T, thief *thief) (redis.UniversalClient, []*redistest.Server) {
		srv := redistest.Start(t)
		return connect(t, &redis.Options{Addr: srv.Addr(), Dialer: thief.dial}), []*redistest.Server{srv}
	},
	"ClusterClient": func(t *testing.T, thief *thief) (redis.UniversalClient, []*redistest.Server) {
		cluster := redistest.StartCluster(t, 3, 0)
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Dialer: thief.dial})
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb, cluster.Nodes
	},
}

func TestALostReplySpendsOnce(t *testing.T) {
	t.Parallel()
	for name, client := range robbable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			thief := new(thief)
			rdb, servers := client(t, thief)
			l := limit(t, rdb, redisstore.WithBudget(30*time.Second))
			fromStore(t, l, "user")
			before := runs(servers...)
			thief.armed.Store(true)
			if res := decide(t, l, "user"); res.Source != ratelimit.SourcePolicy {
				t.Fatalf("decided by %v although the reply was stolen", res.Source)
			}
			thief.armed.Store(false)
			if n := runs(servers...) - before; n != 1 {
				t.Errorf("the script ran %d times for one call, want once", n)
			}
		})
	}
}

// daily1000 is a limiter on a store of its own, whose breaker is closed. Nothing
// refills while a test runs.
func daily1000(t *testing.T, rdb redis.UniversalClient) watched {
	t.Helper()
	l := limit(t, rdb, redisstore.WithBudget(30*time.Second))
	daily, err := l.With(ratelimit.PerDay(1000))
	if err != nil {
		t.Fatal(err)
	}
	l.Limiter = daily
	return l
}

func TestALostReplyOfAPipelineSpendsOnce(t *testing.T) {
	t.Parallel()
	const keys = 60
	for name, client := range robbable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			thief := new(thief)
			rdb, _ := client(t, thief)
			stolen := &thief.runs
			if name == "ClusterClient" {
				stolen = &thief.pipelines
			}
			round := 0
			await(t, "several calls of which the reply was stolen", func() bool {
				l := daily1000(t, rdb)
				together(keys, func(i int) { fromStore(t, l, fmt.Sprint("warm ", i)) })
				together(keys, func(i int) { fromStore(t, l, fmt.Sprint("warm ", i)) })
				round++
				key := func(i int) string { return fmt.Sprint(round, " user ", i) }
				thief.armed.Store(true)
				together(keys, func(i int) { decide(t, l, key(i)) })
				thief.armed.Store(false)
				check := daily1000(t, rdb)
				for i := range keys {
					if res, err := check.Peek(t.Context(), key(i)); err != nil || res.Remaining < 999 {
						t.Fatalf("one call has left %d of 1000 (%v)", res.Remaining, err)
					}
				}
				return stolen.Load() > 0
			})
		})
	}
}
