package main

import (
	"context"
	"runtime"
	"time"
)

// callerRounds for each of -rounds: the difference is small, and turns are short
// so that the machine is the same for both.
const callerRounds = 4

func measureOneCaller(ctx context.Context, b *bench, s *section) error {
	latency, err := b.besideBare(ctx, s, 1)
	if err != nil {
		return err
	}
	s.atMost("p50 over a bare EVALSHA", latency, 1.15, "x")
	return nil
}

// measureFitCaller gives all clients the options that redisstore recommends: ours
// then sends a lone call on its caller's own goroutine.
func measureFitCaller(ctx context.Context, b *bench, s *section) error {
	fit := *b
	fit.fit = true
	return measureOneCaller(ctx, &fit, s)
}

func measureFourCallers(ctx context.Context, b *bench, s *section) error {
	_, err := b.besideBare(ctx, s, 4)
	return err
}

// besideBare measures the time of a decision, and returns ours over that of the
// command alone.
func (b *bench) besideBare(ctx context.Context, s *section, callers int) (rounds, error) {
	contestants, leave, err := b.enter(ctx, plenty, ours, bare, withoutBatch, redisRate)
	if err != nil {
		return nil, err
	}
	defer leave()
	l := load{callers: callers, key: anyKey, timedEvery: 1}
	outcomes := b.compete(ctx, l, contestants, b.rounds*callerRounds, b.duration/callerRounds)
	p50 := func(o outcome) float64 { return o.quantile(0.5) }
	p99 := func(o outcome) float64 { return o.quantile(0.99) }
	yardstick := roundsOf(outcomes[1], p50)
	for i, c := range contestants {
		times := roundsOf(outcomes[i], p50)
		s.row(c.name,
			figure{"p50 us", times.median()},
			figure{"p99 us", roundsOf(outcomes[i], p99).median()},
			figure{"CPU us", roundsOf(outcomes[i], outcome.cpuPerDecision).median()},
			figure{"p50 over bare", times.over(yardstick).median()})
	}
	s.complain(contestants, outcomes)
	return roundsOf(outcomes[0], p50).over(yardstick), nil
}

// measureAllocations counts what one caller allocates, with what others do for
// it in the background.
func measureAllocations(ctx context.Context, b *bench, s *section) error {
	for _, decided := range []struct {
		how   string
		limit limitAndNames
	}{
		{", admitted", limitAndNames{plenty, []string{ours, bare, withoutBatch, redisRate, throttledRate, ulule}}},
		{", denied", limitAndNames{none, []string{ours, withoutShortcut, redisRate, throttledRate, ulule}}},
	} {
		contestants, leave, err := b.enter(ctx, decided.limit.limit, decided.limit.names...)
		if err != nil {
			return err
		}
		for _, c := range contestants {
			a := b.allocations(func() { _, _ = c.allow(ctx, sampleKey) })
			s.row(c.name+decided.how, figure{"allocations", a.count}, figure{"bytes", a.bytes})
		}
		leave()
	}
	s.note("of the whole process, over a number of calls of one caller; a bare EVALSHA makes its key's name too")
	return nil
}

// allocated is what one call allocates.
type allocated struct{ count, bytes float64 }

// allocations is the least of several counts: what others allocate meanwhile
// only adds. A count is over 5,000 calls in a round of half a second.
func (b *bench) allocations(f func()) allocated {
	calls := max(int(b.duration/(100*time.Microsecond)), 50)
	var least allocated
	for i := range 3 {
		if a := count(calls, f); i == 0 || a.count < least.count {
			least = a
		}
	}
	return least
}

func count(calls int, f func()) allocated {
	f() // connects
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		f()
	}
	runtime.ReadMemStats(&after)
	per := func(before, after uint64) float64 { return float64(after-before) / float64(calls) }
	return allocated{per(before.Mallocs, after.Mallocs), per(before.TotalAlloc, after.TotalAlloc)}
}
