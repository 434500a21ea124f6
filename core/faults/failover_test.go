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

// failovers are settings for clients of sentinels.
var failovers = map[string]func() *redis.FailoverOptions{
	"default client":                    func() *redis.FailoverOptions { return &redis.FailoverOptions{} },
	"redisstore.FailoverOptions":        redisstore.FailoverOptions,
	"redisstore.FailoverOptions" + bare: redisstore.FailoverOptions,
}

// clusters are settings for clients of a cluster.
var clusters = map[string]func() *redis.ClusterOptions{
	"default client":                   func() *redis.ClusterOptions { return &redis.ClusterOptions{} },
	"redisstore.ClusterOptions":        redisstore.ClusterOptions,
	"redisstore.ClusterOptions" + bare: redisstore.ClusterOptions,
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
			denied := l.denied.Load() + 2_000
			s.await("denials", func() bool { return l.denied.Load() >= denied })
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

// eachCluster runs a scenario with a client of each of the settings.
func eachCluster(t *testing.T, fault string, run func(s *scenario, opts *redis.ClusterOptions)) {
	t.Helper()
	for name, opts := range clusters {
		t.Run(name, func(t *testing.T) { run(begin(t, fault+", "+name), opts()) })
	}
}

// cluster makes a client of a cluster, whose connections are counted.
func (s *scenario) cluster(opts *redis.ClusterOptions, cluster *redistest.Cluster) *redis.ClusterClient {
	opts.Addrs, opts.Dialer = cluster.Addrs(), s.conns.dial
	rdb := redis.NewClusterClient(opts)
	s.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestAClusterThatLosesAMasterKeepsTheOthersKeys(t *testing.T) {
	eachCluster(t, "one of three masters killed", func(s *scenario, opts *redis.ClusterOptions) {
		cluster := redistest.StartCluster(s, 3, 1, redistest.Args("--cluster-require-full-coverage", "no"))
		limiter := s.limiter(s.cluster(opts, cluster), plenty)

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
			s.Errorf("the policy decided %d of %d calls for keys of nodes that are well", n, kept.requests.Load())
		}
	})
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
			eachCluster(t, "a slot moves back and forth, "+name, func(s *scenario, opts *redis.ClusterOptions) {
				cluster := redistest.StartCluster(s, 3, 0)
				limiter := s.limiter(s.cluster(opts, cluster), plenty, further...)
				pace := pace
				if s.isBare() { // each call is redirected by itself, and goes out three times
					pace *= 2
				}
				l := s.under(&load{limiter: limiter, callers: callers, pace: pace, key: func(int, int) string { return "moving" }})
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
				s.executions(false, cluster.Nodes...) // a call that is redirected is sent again
				s.row.note = fmt.Sprintf("%d log lines", s.logged.len())
				if s.row.open >= 0 {
					s.Error("the breaker has opened")
				}
				// Redis Cluster refuses a command on several keys of a slot on the move
				// while one of them is not there.
				late := 0
				for cause, n := range l.causes {
					switch {
					case isLate(cause):
						late += n
					case further == nil || !strings.Contains(cause, "TRYAGAIN"):
						s.Errorf("the policy decided %d of %d calls because of %s", n, l.requests.Load(), cause)
					}
				}
				if int64(late) > l.requests.Load()/100 && s.stall() < s.budget/2 {
					s.Errorf("%d of %d calls were late", late, l.requests.Load())
				}
			})
		})
	}
}

// isLate reports whether a call was late, for which the machine may be to blame.
func isLate(cause string) bool {
	return strings.Contains(cause, "no answer from Redis within") || strings.Contains(cause, "i/o timeout") ||
		strings.Contains(cause, "have not come back yet")
}

// requested waits for n more decisions, whoever makes them.
func (s *scenario) requested(l *load, n int64) {
	s.Helper()
	until := l.requests.Load() + n
	s.await("requests", func() bool { return l.requests.Load() >= until })
}
