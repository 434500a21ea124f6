package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// writeProfiles runs ours at several loads, and writes for each what pprof says
// of CPU, allocations, mutexes and blocking.
func writeProfiles(ctx context.Context, b *bench, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, callers := range []int{1, 64, 512} {
		for _, keys := range []struct {
			name string
			key  func(uint64) string
		}{{"hot", oneKey}, {"10000", anyKey}} {
			l := load{callers: callers, key: keys.key, timedEvery: timedEvery}
			name := filepath.Join(dir, fmt.Sprintf("%s-%d", keys.name, callers))
			if err := b.profile(ctx, l, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// profile measures the CPU on its own: the other profiles slow the calls down.
func (b *bench) profile(ctx context.Context, l load, name string) error {
	contestants, leave, err := b.enter(ctx, plenty, ours)
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
	o := l.put(ctx, c, b.duration)
	pprof.StopCPUProfile()
	fmt.Printf("%s: %s decisions/s, p50 %s us, p99 %s us\n", name, number(o.perSecond()), number(o.quantile(0.5)), number(o.quantile(0.99)))

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
