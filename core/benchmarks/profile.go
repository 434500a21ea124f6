package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// profiled is a load that is looked at closely.
type profiled struct {
	name  string
	limit ratelimit.Limit
	key   func(uint64) string
}

// writeProfiles runs ours at several loads, and writes for each what pprof says
// of CPU, allocations, mutexes and blocking. All but the CPU's add up from one
// load to the next; subtract the one before with pprof -base.
func writeProfiles(ctx context.Context, b *bench, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, callers := range []int{1, 64, 512} {
		for _, p := range []profiled{{"hot", plenty, oneKey}, {"10000", plenty, anyKey}, {"denied", none, oneKey}} {
			l := load{callers: callers, key: p.key, timedEvery: timedEvery}
			name := filepath.Join(dir, fmt.Sprintf("%s-%d", p.name, callers))
			if err := b.profile(ctx, p.limit, l, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// profile measures the CPU on its own: the other profiles slow the calls down.
func (b *bench) profile(ctx context.Context, limit ratelimit.Limit, l load, name string) error {
	contestants, leave, err := b.enter(ctx, limit, ours)
	if err != nil {
		return err
	}
	defer leave()
	c := contestants[0]
	l.put(ctx, c, b.duration)

	cpu, err := os.Create(name + ".cpu")
	if err != nil {
		return err
	}
	defer cpu.Close()
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return err
	}
	began := cpuTime()
	o := l.put(ctx, c, b.duration)
	o.cpu = cpuTime() - began
	pprof.StopCPUProfile()
	fmt.Printf("%s: %s decisions/s, p50 %s us, p99 %s us, CPU %s us\n", name,
		number(o.perSecond()), number(o.quantile(0.5)), number(o.quantile(0.99)), number(o.cpuPerDecision()))
	if o.failed > 0 {
		fmt.Printf("%s: %d of %d calls failed\n", name, o.failed, o.failed+o.decided)
	}

	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(10))
	runtime.SetBlockProfileRate(1000)
	defer runtime.SetBlockProfileRate(0)
	l.put(ctx, c, b.duration)
	for _, kind := range []string{"allocs", "mutex", "block"} {
		if err := writeProfile(kind, name); err != nil {
			return err
		}
	}
	return nil
}

func writeProfile(kind, name string) error {
	file, err := os.Create(name + "." + kind)
	if err != nil {
		return err
	}
	defer file.Close()
	return pprof.Lookup(kind).WriteTo(file, 0)
}
