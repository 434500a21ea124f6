package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

// callers of most scenarios, and their pace: about 6,000 requests/s, which a
// server can also answer one by one.
const (
	callers = 64
	pace    = 10 * time.Millisecond
)

// inFlight is how many calls can be on their way at once without batch.
const inFlight = 16

// eachClient runs a scenario with a client of each of the settings.
func eachClient(t *testing.T, fault string, run func(s *scenario, opts *redis.Options)) {
	t.Helper()
	for name, opts := range settings {
		t.Run(name, func(t *testing.T) { run(begin(t, fault+", "+name), opts()) })
	}
}

func TestDecisionsEndInTimeWhenTheServerIsStopped(t *testing.T) {
	eachClient(t, "server stopped", func(s *scenario, opts *redis.Options) {
		srv := redistest.Start(s)
		l := s.under(&load{limiter: s.limiter(s.client(opts, srv.Addr()), plenty), callers: callers, pace: pace})
		s.outage(l, srv.Pause, srv.Resume, time.Second)
		s.settled()
		s.executions(true, srv)
	})
}

func TestDecisionsEndInTimeWhenTheServerIsKilled(t *testing.T) {
	eachClient(t, "server killed and restarted", func(s *scenario, opts *redis.Options) {
		srv := redistest.Start(s)
		l := s.under(&load{limiter: s.limiter(s.client(opts, srv.Addr()), plenty), callers: callers, pace: pace})
		s.outage(l, srv.Kill, srv.Restart, time.Second)
		s.settled()
		s.row.sent = s.conns.sent.Load()
	})
}

func TestDecisionsEndInTimeInABlackHole(t *testing.T) {
	eachClient(t, "black hole", func(s *scenario, opts *redis.Options) {
		srv := redistest.Start(s)
		p := s.proxy(srv.Addr())
		l := s.under(&load{limiter: s.limiter(s.client(opts, p.Listen), plenty), callers: callers, pace: pace})
		s.outage(l, func() {
			p.infect("there", "timeout", "upstream", attributes{"timeout": 0})
			p.infect("back", "timeout", "downstream", attributes{"timeout": 0})
		}, p.heal, time.Second)
		s.settled()
		s.executions(false, srv)
	})
}

func TestDecisionsEndInTimeWhenRepliesAreLate(t *testing.T) {
	eachClient(t, "200 ms late", func(s *scenario, opts *redis.Options) {
		srv := redistest.Start(s)
		p := s.proxy(srv.Addr())
		l := s.under(&load{limiter: s.limiter(s.client(opts, p.Listen), plenty), callers: callers, pace: pace})
		s.outage(l, func() { p.infect("late", "delayed", "downstream", attributes{"by": 200}) }, p.heal, time.Second)
		s.settled()
		s.executions(true, srv)
	})
}

func TestMostDecisionsAreRedisWhenConnectionsBreak(t *testing.T) {
	eachClient(t, "1% of replies break the connection", func(s *scenario, opts *redis.Options) {
		srv := redistest.Start(s)
		p := s.proxy(srv.Addr())
		p.infect("break", "lose_one_in", "downstream", attributes{"n": 100})
		l := s.under(&load{limiter: s.limiter(s.client(opts, p.Listen), plenty), callers: callers, pace: pace})
		s.await("many decisions", func() bool { return l.requests.Load() > 15_000 })
		s.settled()
		s.executions(false, srv)
		if n := l.by(ratelimit.SourceStore); n < l.requests.Load()*9/10 {
			s.Errorf("%d of %d decisions are the store's, want most", n, l.requests.Load())
		}
	})
}

func TestHalfOpenConnectionsAreReplaced(t *testing.T) {
	eachClient(t, "half-open connections", func(s *scenario, opts *redis.Options) {
		srv := redistest.Start(s)
		p := s.proxy(srv.Addr())
		p.infect("there", "half_open", "upstream", nil)
		p.infect("back", "half_open", "downstream", nil)
		l := s.under(&load{limiter: s.limiter(s.client(opts, p.Listen), plenty), callers: callers, pace: pace})
		s.more(l, ratelimit.SourceStore, 500)
		for l.requests.Load() < s.enough {
			forgotten.Add(1)
			s.more(l, ratelimit.SourcePolicy, 1)
			s.recovered(l, 10*time.Second) // each trial finds out about a connection
		}
		s.settled()
		s.executions(false, srv)
	})
}

func TestDecisionsEndInTimeWhenOthersHoldAllConnections(t *testing.T) {
	eachClient(t, "pool full of others' calls", func(s *scenario, opts *redis.Options) {
		srv := redistest.Start(s)
		opts.PoolSize, opts.PipelinePoolSize = 2, -1
		opts.MaxRetries = -1
		rdb := s.client(opts, srv.Addr())
		l := s.under(&load{limiter: s.limiter(rdb, plenty), callers: callers, pace: pace})
		blocked := make(chan error, opts.PoolSize)
		s.outage(l, func() {
			for range opts.PoolSize {
				go func() {
					err := redis.ErrPoolTimeout
					for errors.Is(err, redis.ErrPoolTimeout) {
						err = rdb.BLPop(context.Background(), time.Minute, "list").Err()
					}
					blocked <- err
				}()
			}
			s.await("a full pool", func() bool { return srv.Info("blocked_clients") == fmt.Sprint(opts.PoolSize) })
		}, func() {
			for range opts.PoolSize {
				srv.Do("RPUSH", "list", "x")
			}
		}, time.Second)
		for range opts.PoolSize {
			if err := <-blocked; err != nil {
				s.Errorf("BLPOP: %v", err)
			}
		}
		s.settled()
		s.executions(true, srv)
	})
}

func TestThroughputFollowsFromTheDistanceAndTheNumberOfCallers(t *testing.T) {
	const distance, callers = 10 * time.Millisecond, 100
	eachClient(t, "10 ms away, budget 1 s", func(s *scenario, opts *redis.Options) {
		srv := redistest.Start(s)
		p := s.proxy(srv.Addr())
		p.infect("far", "delayed", "downstream", attributes{"by": distance.Milliseconds()})
		s.budget = time.Second // this is about throughput
		l := s.under(&load{limiter: s.limiter(s.client(opts, p.Listen), plenty), callers: callers})
		s.more(l, ratelimit.SourceStore, 2*callers) // connections are there
		const decisions = 10_000
		start := time.Now()
		s.more(l, ratelimit.SourceStore, decisions)
		perSecond := decisions / time.Since(start).Seconds()
		atOnce := callers
		if s.isBare() {
			atOnce = inFlight
		}
		ideal := float64(atOnce) / distance.Seconds()
		s.row.note = fmt.Sprintf("%.0f decisions/s, %d at once allow %.0f", perSecond, atOnce, ideal)
		if perSecond < ideal/5 {
			s.Errorf("%.0f decisions/s, want about %.0f", perSecond, ideal)
		}
		s.settled()
		s.executions(true, srv)
	})
}

// A connection takes several replies to set up, which is longer than the budget
// here: the call that needs one more is late, and so are those that go with it.
// Many such calls at the start open the breaker. Later ones must not: between
// them others have their answers. With more callers than calls may be on their
// way, some would wait for two answers, and be late without a reason.
func TestItDoesNotFlapWhenRedisIsFarAway(t *testing.T) {
	const distance, callers = 150 * time.Millisecond, 10
	eachClient(t, "150 ms away, budget 250 ms", func(s *scenario, opts *redis.Options) {
		srv := redistest.Start(s)
		p := s.proxy(srv.Addr())
		p.infect("far", "delayed", "downstream", attributes{"by": distance.Milliseconds()})
		s.budget, s.enough = 250*time.Millisecond, 0
		if opts.ReadTimeout > 0 { // redisstore.Options are for the default budget
			opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = s.budget, s.budget, s.budget
		}
		l := s.under(&load{limiter: s.limiter(s.client(opts, p.Listen), plenty), callers: callers, pace: pace})
		policy, dials := s.steady(l, 10*callers)
		refused, lines := l.refused.Load(), s.logged.len()
		s.more(l, ratelimit.SourceStore, 20*callers)
		dials, refused = s.conns.made.Load()-dials, l.refused.Load()-refused
		late := l.by(ratelimit.SourcePolicy) - policy
		s.row.note = fmt.Sprintf("once steady: %d by policy, %d more connections", late, dials)
		if s.stall() > (s.budget-distance)/2 {
			s.Logf("the machine stood still for %v: calls may be late for that", s.stall())
		} else if late > dials*callers || refused > 0 {
			s.Errorf("once steady, %d calls were late for %d more connections, and the breaker refused %d", late-refused, dials, refused)
		}
		// That the store is back; and that it is lost and back for each that was late.
		if n := s.logged.len() - lines; n > 1+2*int(late) {
			s.Errorf("%d lines are logged", n)
		}
		s.settled()
		s.executions(true, srv)
	})
}

// steady waits until the store has made n decisions without any by the policy in
// between. It returns how many the policy has made until then, and how many
// connections were made before the last of these: whom later ones make late is
// still to be seen.
func (s *scenario) steady(l *load, n int64) (policy, dials int64) {
	s.Helper()
	start := time.Now()
	var store, made int64
	s.await("decisions by the store alone", func() bool {
		if now := l.by(ratelimit.SourcePolicy); now != policy {
			policy, dials, store = now, made, l.by(ratelimit.SourceStore)
			s.row.recovery = time.Since(start)
		}
		made = s.conns.made.Load()
		return l.by(ratelimit.SourceStore) > store+n
	})
	return policy, dials
}
