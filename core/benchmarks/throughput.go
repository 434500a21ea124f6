package main

import (
	"context"
	"strconv"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// workload is a load on several contestants, and what ours has to reach.
type workload struct {
	load  load
	limit ratelimit.Limit
	names []string
	goal  float64 // decisions per second over the best peer; 0 for none
}

type limitAndNames struct {
	limit ratelimit.Limit
	names []string
}

// timedEvery is used where a decision may take less than a microsecond.
const timedEvery = 32

func tenThousandKeys(callers int, goal float64) workload {
	return workload{
		load:  load{callers: callers, key: anyKey, timedEvery: timedEvery},
		limit: plenty,
		names: append([]string{ours, withoutBatch, bare}, peers...),
		goal:  goal,
	}
}

var oneHotKey = workload{
	load:  load{callers: 512, key: oneKey, timedEvery: timedEvery},
	limit: plenty,
	names: append([]string{ours, withoutBatch, bare}, peers...),
	goal:  20,
}

var hotAndCold = workload{
	load:  load{callers: 512, key: oftenOneKey(50), timedEvery: timedEvery},
	limit: plenty,
	names: append([]string{ours, withoutBatch}, peers...),
}

var underAttack = workload{
	load:  load{callers: 64, key: oneKey, timedEvery: timedEvery},
	limit: ordinary,
	names: append([]string{ours, withoutShortcut}, peers...),
	goal:  100,
}

// attackAndOthers has a limit that the others never meet: what they get is
// decided by Redis.
var attackAndOthers = workload{
	load:  load{callers: 64, key: oftenOneKey(90), timedEvery: timedEvery},
	limit: ratelimit.PerSecond(100).WithBurst(200),
	names: append([]string{ours, withoutShortcut}, peers...),
}

func throughput(w workload) func(context.Context, *bench, *section) error {
	return func(ctx context.Context, b *bench, s *section) error { return b.measureThroughput(ctx, w, s) }
}

func (b *bench) measureThroughput(ctx context.Context, w workload, s *section) error {
	contestants, leave, err := b.enter(ctx, w.limit, w.names...)
	if err != nil {
		return err
	}
	defer leave()
	outcomes := b.compete(ctx, w.load, contestants, b.rounds, b.duration)
	first := roundsOf(outcomes[0], outcome.perSecond)
	var rivals []rounds
	for i, c := range contestants {
		decided := roundsOf(outcomes[i], outcome.perSecond)
		s.row(c.name,
			figure{"decisions/s", decided.median()},
			figure{"p50 us", roundsOf(outcomes[i], func(o outcome) float64 { return o.quantile(0.5) }).median()},
			figure{"p99 us", roundsOf(outcomes[i], func(o outcome) float64 { return o.quantile(0.99) }).median()},
			figure{"CPU us", roundsOf(outcomes[i], outcome.cpuPerDecision).median()},
			figure{"Redis CPU us", roundsOf(outcomes[i], outcome.redisCPUPerDecision).median()},
			figure{"denied %", roundsOf(outcomes[i], outcome.deniedPercent).median()},
			figure{"ours over it", first.over(decided).median()})
		if c.peer {
			rivals = append(rivals, decided)
		}
	}
	if w.goal > 0 {
		s.atLeast("decisions/s over the best peer", first.over(best(rivals)), w.goal, "x")
	}
	s.complain(contestants, outcomes)
	return nil
}

// compete puts l on each contestant in turns. Before the first round each has a
// while to connect and to make its keys.
func (b *bench) compete(ctx context.Context, l load, contestants []contestant, rounds int, duration time.Duration) [][]outcome {
	measures := make([]func() outcome, len(contestants))
	for i, c := range contestants {
		l.put(ctx, c, b.duration/2)
		measures[i] = func() outcome {
			before, redisBefore := cpuTime(), b.redisCPU()
			o := l.put(ctx, c, duration)
			o.cpu, o.redisCPU = cpuTime()-before, b.redisCPU()-redisBefore
			return o
		}
	}
	return inTurns(rounds, measures...)
}

// redisCPU is what the server has had of the processors.
func (b *bench) redisCPU() time.Duration {
	user, _ := strconv.ParseFloat(b.server.Info("used_cpu_user"), 64)
	system, _ := strconv.ParseFloat(b.server.Info("used_cpu_sys"), 64)
	return time.Duration((user + system) * float64(time.Second))
}

// deniedPercent is the part of the decisions that were denials.
func (o outcome) deniedPercent() float64 {
	return 100 * float64(o.denied) / float64(max(o.decided, 1))
}

// complain notes who has not decided every call.
func (s *section) complain(contestants []contestant, outcomes [][]outcome) {
	for i, c := range contestants {
		failed, calls := 0, 0
		for _, o := range outcomes[i] {
			failed += o.failed
			calls += o.failed + o.decided
		}
		if failed > 0 {
			s.note("%s: %d of %d calls failed, and are not counted as decisions", c.name, failed, calls)
		}
	}
}

// measureAttack also counts what reaches Redis.
func measureAttack(ctx context.Context, b *bench, s *section) error {
	if err := b.measureThroughput(ctx, underAttack, s); err != nil {
		return err
	}
	for _, limit := range []ratelimit.Limit{logins, ordinary} {
		calls, err := b.callsUnderAttack(ctx, limit)
		if err != nil {
			return err
		}
		refilled := float64(limit.Tokens) / limit.Period.Seconds()
		s.atMost("Redis calls per second at "+limit.String(), rounds{calls}, roundUp(1.5*(1+refilled)), "/s")
	}
	s.note("a process asks Redis once a second, and once for each token refilled; the goal allows for half more, since bounds decay a little faster than buckets refill")
	return nil
}

// watched is how long calls to Redis are counted: some times the second that
// passes between two.
const watched = 4 * time.Second

func (b *bench) callsUnderAttack(ctx context.Context, limit ratelimit.Limit) (float64, error) {
	b.server.Do("FLUSHALL")
	contestants, leave, err := b.enter(ctx, limit, ours)
	if err != nil {
		return 0, err
	}
	defer leave()
	underAttack.load.put(ctx, contestants[0], b.duration) // spends the burst
	b.server.Do("CONFIG", "RESETSTAT")
	o := underAttack.load.put(ctx, contestants[0], watched)
	return float64(b.server.Calls("evalsha")+b.server.Calls("eval")) / o.elapsed.Seconds(), nil
}

func roundUp(v float64) float64 { return float64(int(v*10+0.999)) / 10 }
