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
	pipelines atomic.Int64 // requests of several calls at once
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
	asking atomic.Bool // for a reply of the script
}

func (r *robbed) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p) // so that the server has answered
	if err == nil && r.asking.Load() && r.thief.armed.Load() {
		_ = r.Close()
		return 0, io.EOF
	}
	return n, err
}

func (r *robbed) Write(p []byte) (int, error) {
	calls := bytes.Count(p, []byte("eval"))
	r.asking.Store(calls > 0)
	if calls > 1 {
		r.thief.pipelines.Add(1)
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

func TestALostReplyOfAPipelineSpendsOnce(t *testing.T) {
	t.Parallel()
	const keys = 60
	for name, client := range robbable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			thief := new(thief)
			rdb, servers := client(t, thief)
			round := 0
			await(t, "a pipeline of which the reply was stolen", func() bool {
				l := limit(t, rdb, redisstore.WithBudget(30*time.Second)) // its breaker is closed
				for i := range keys {                                     // on every node, for the script
					fromStore(t, l, fmt.Sprint("warm ", i))
				}
				before, pipelines := runs(servers...), thief.pipelines.Load()
				round++
				thief.armed.Store(true)
				var sent atomic.Int64
				together(keys, func(i int) {
					if res := decide(t, l, fmt.Sprint(round, " user ", i)); !refused(res.Cause) {
						sent.Add(1)
					}
				})
				thief.armed.Store(false)
				if n := runs(servers...) - before; n != int(sent.Load()) {
					t.Fatalf("the script ran %d times for %d calls", n, sent.Load())
				}
				return thief.pipelines.Load() > pipelines
			})
		})
	}
}
