package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// load is what callers do: each asks, and asks again as soon as it has an
// answer.
type load struct {
	callers int
	// key is what a caller asks for next; n is a random number.
	key func(n uint64) string
	// timedEvery is of how many calls one is timed. A look at the clock costs as
	// much as a tenth of the fastest decisions.
	timedEvery int
}

// outcome is what came of a load.
type outcome struct {
	decided int // calls that were decided, admitted or denied
	denied  int
	failed  int // calls that were not
	elapsed time.Duration
	times   []time.Duration // of the decisions that were timed, sorted

	// Processor time of this program and of Redis. Unlike the time that passes,
	// it hardly depends on what else the machine is doing.
	cpu, redisCPU time.Duration
}

func (o outcome) perSecond() float64 { return float64(o.decided) / o.elapsed.Seconds() }

func (o outcome) cpuPerDecision() float64 { return o.per(o.cpu) }

func (o outcome) redisCPUPerDecision() float64 { return o.per(o.redisCPU) }

// per is a share of d for each decision, in microseconds.
func (o outcome) per(d time.Duration) float64 {
	return float64(d.Nanoseconds()) / 1e3 / float64(max(o.decided, 1))
}

// quantile is the time in microseconds in which that part of the calls was decided.
func (o outcome) quantile(q float64) float64 {
	if len(o.times) == 0 {
		return 0
	}
	at := o.times[min(int(q*float64(len(o.times))), len(o.times)-1)]
	return float64(at.Nanoseconds()) / 1e3
}

// put puts l on c for a while.
func (l load) put(ctx context.Context, c contestant, duration time.Duration) outcome {
	var (
		stop    atomic.Bool
		callers sync.WaitGroup
		start   = make(chan struct{})
		each    = make([]outcome, l.callers)
	)
	for i := range each {
		callers.Go(func() {
			<-start
			each[i] = l.call(ctx, c, &stop)
		})
	}
	began := time.Now()
	close(start)
	time.Sleep(duration)
	stop.Store(true)
	callers.Wait()
	return sum(each, time.Since(began))
}

// call is one caller.
func (l load) call(ctx context.Context, c contestant, stop *atomic.Bool) outcome {
	var o outcome
	random := rand.NewPCG(rand.Uint64(), rand.Uint64())
	for n := 0; !stop.Load(); n++ {
		var asked time.Time
		timed := n%l.timedEvery == 0
		if timed {
			asked = time.Now()
		}
		allowed, err := c.allow(ctx, l.key(random.Uint64()))
		if err != nil {
			o.failed++
			continue
		}
		if timed {
			o.times = append(o.times, time.Since(asked))
		}
		o.decided++
		if !allowed {
			o.denied++
		}
	}
	return o
}

func sum(each []outcome, elapsed time.Duration) outcome {
	total := outcome{elapsed: elapsed}
	for _, o := range each {
		total.decided += o.decided
		total.denied += o.denied
		total.failed += o.failed
		total.times = append(total.times, o.times...)
	}
	slices.Sort(total.times)
	return total
}

// keys of 16 bytes.
var tenThousand = func() []string {
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = keyOf(i)
	}
	return keys
}()

// anyKey is one of ten thousand keys.
func anyKey(n uint64) string { return tenThousand[n%uint64(len(tenThousand))] }

// oneKey is always the same.
func oneKey(uint64) string { return sampleKey }

// oftenOneKey is the same key in hot of 100 calls, and else one of ten thousand.
func oftenOneKey(hot uint64) func(uint64) string {
	return func(n uint64) string {
		if n>>32%100 < hot {
			return sampleKey
		}
		return anyKey(n)
	}
}
