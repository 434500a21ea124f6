package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

// hourly is a limit of which hardly a token refills during a scenario, so that
// what is admitted beyond its burst was admitted for a write that got lost.
var hourly = ratelimit.PerHour(400)

// failovers are clients of sentinels: go-redis' own settings, and ours.
var failovers = map[string]func() *redis.FailoverOptions{
	"default client":     func() *redis.FailoverOptions { return &redis.FailoverOptions{} },
	"redisstore.Options": redisstore.FailoverOptions,
}

func TestAFailoverBySentinelsIsFollowed(t *testing.T) {
	for name, opts := range failovers {
		t.Run(name, func(t *testing.T) {
			s := begin(t, "sentinel failover, "+name)
			sentinel := redistest.StartSentinel(t)
			o := opts()
			o.MasterName, o.SentinelAddrs, o.Dialer = sentinel.MasterName(), sentinel.Addrs(), s.conns.dial
			rdb := redis.NewFailoverClient(o)
			t.Cleanup(func() { _ = rdb.Close() })

			// The buckets are half empty when the primary is killed, and empty at the end.
			const keys = 10
			l := s.under(&load{
				limiter: s.limiter(rdb, hourly), callers: callers, pace: pace,
				key: func(_, request int) string { return fmt.Sprint("key ", request%keys) },
			})
			s.more(l, ratelimit.SourceStore, int64(keys*hourly.Tokens/2))
			primary := sentinel.Primary()
			primary.Kill()
			promoted := sentinel.AwaitFailover(primary)
			s.recovered(l, 5*time.Second)
			s.more(l, ratelimit.SourceShortcut, 5_000)
			s.settled()
			s.row.over = l.over(hourly, time.Since(l.began))
			if s.row.over > keys*hourly.Tokens/2 {
				t.Errorf("%d calls were admitted beyond the limit: more than were charged before the failover", s.row.over)
			}
			s.row.sent = s.conns.sent.Load()
			if n := promoted.Calls("eval"); n == 0 {
				t.Error("the script was not sent in full to the new primary")
			}
		})
	}
}

func TestAClusterThatLosesAMasterKeepsTheOthersKeys(t *testing.T) {
	s := begin(t, "one of three masters killed")
	cluster := redistest.StartCluster(t, 3, 1, redistest.Args("--cluster-require-full-coverage", "no"))
	rdb := s.cluster(cluster)
	limiter := s.limiter(rdb, plenty)

	slot := cluster.Slot("{api:of the victim}")
	victim := cluster.MasterOf(slot)
	lost := s.under(&load{limiter: limiter, callers: callers / 2, pace: pace, key: func(int, int) string { return "of the victim" }})
	kept := s.under(&load{limiter: limiter, callers: callers / 2, pace: pace, key: elsewhere(cluster, victim)})
	s.more(lost, ratelimit.SourceStore, 500)
	s.more(kept, ratelimit.SourceStore, 500)

	policy := kept.by(ratelimit.SourcePolicy)
	victim.Kill()
	s.more(lost, ratelimit.SourcePolicy, 1)
	cluster.AwaitFailover(slot, victim)
	s.recovered(lost, 5*time.Second)
	s.settled()
	s.row.note = fmt.Sprintf("the others' keys: %d of %d by policy", kept.by(ratelimit.SourcePolicy), kept.requests.Load())
	if n := kept.by(ratelimit.SourcePolicy) - policy; n > kept.requests.Load()/100 {
		t.Errorf("the policy decided %d of %d calls for keys of nodes that are well", n, kept.requests.Load())
	}
}

// cluster makes a client of a cluster, whose connections are counted.
func (s *scenario) cluster(cluster *redistest.Cluster) *redis.ClusterClient {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Dialer: s.conns.dial})
	s.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// elsewhere returns keys that other masters than victim hold.
func elsewhere(cluster *redistest.Cluster, victim *redistest.Server) func(caller, request int) string {
	var keys []string
	for i := 0; len(keys) < 20; i++ {
		key := fmt.Sprint("key ", i)
		if cluster.MasterOf(cluster.Slot("{api:"+key+"}")) != victim {
			keys = append(keys, key)
		}
	}
	return func(caller, request int) string { return keys[(caller+request)%len(keys)] }
}

func TestDecisionsContinueWhileASlotMoves(t *testing.T) {
	limits := map[string][]ratelimit.Option{
		"one limit":  nil,
		"two limits": {ratelimit.WithLimit(ratelimit.PerHour(1_000_000))},
	}
	for name, further := range limits {
		t.Run(name, func(t *testing.T) {
			s := begin(t, "a slot moves back and forth, "+name)
			cluster := redistest.StartCluster(t, 3, 0)
			rdb := s.cluster(cluster)
			l := s.under(&load{limiter: s.limiter(rdb, plenty, further...), callers: callers, pace: pace, key: func(int, int) string { return "moving" }})
			s.more(l, ratelimit.SourceStore, 500)
			slot := cluster.Slot("{api:moving}")
			for i := range 6 {
				from := cluster.MasterOf(slot)
				to := cluster.Nodes[i%3]
				if to == from {
					continue
				}
				m := cluster.Migrate(slot, to)
				m.Begin()
				s.requested(l, 600)
				m.MoveKeys()
				s.requested(l, 600)
				m.MoveKeys() // those made since: Finish forgets them otherwise
				m.Finish()
				s.more(l, ratelimit.SourceStore, 600)
			}
			s.settled()
			s.executions(false, cluster.Nodes...) // a call that is redirected is sent twice
			s.row.note = fmt.Sprintf("%d log lines", s.logged.len())
			if s.row.open >= 0 {
				t.Error("the breaker has opened")
			}
			// Redis Cluster refuses a command on several keys of a slot on the move
			// while one of them is not there.
			for cause, n := range l.causes {
				if strings.Contains(cause, "no answer from Redis") && int64(n) < l.requests.Load()/100 {
					continue // the machine stood still
				}
				if further == nil || !strings.Contains(cause, "TRYAGAIN") {
					t.Errorf("the policy decided %d of %d calls because of %s", n, l.requests.Load(), cause)
				}
			}
		})
	}
}

// requested waits for n more decisions, whoever makes them.
func (s *scenario) requested(l *load, n int64) {
	s.Helper()
	until := l.requests.Load() + n
	s.await("requests", func() bool { return l.requests.Load() >= until })
}
