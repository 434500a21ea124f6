package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// measureGrowthOfKeys shows what more clients cost, admitted and denied.
func measureGrowthOfKeys(ctx context.Context, b *bench, s *section) error {
	for _, keys := range []int{1000, 10_000, 100_000, 1_000_000} {
		names := make([]string, keys)
		for i := range names {
			names[i] = keyOf(i)
		}
		l := load{callers: 64, key: func(n uint64) string { return names[n%uint64(keys)] }, timedEvery: timedEvery}
		if err := b.grow(ctx, s, fmt.Sprintf("admitted, %s keys", number(float64(keys))), l, lasting, names); err != nil {
			return err
		}
		if err := b.grow(ctx, s, fmt.Sprintf("denied, %s keys", number(float64(keys))), l, none, names); err != nil {
			return err
		}
	}
	s.note("each key has been asked for before; process is what the Go program has from the system, the names of the keys included")
	s.note("of denied keys the shortcut knows a bounded number, each for a second")
	return nil
}

// measureGrowthOfCallers shows what more callers at a time cost.
func measureGrowthOfCallers(ctx context.Context, b *bench, s *section) error {
	for callers := 1; callers <= 4096; callers *= 4 {
		l := load{callers: callers, key: anyKey, timedEvery: timedEvery}
		if err := b.grow(ctx, s, fmt.Sprintf("%d callers", callers), l, plenty, tenThousand); err != nil {
			return err
		}
	}
	return nil
}

// grow measures one size. The keys are made by the callers themselves, each
// once.
func (b *bench) grow(ctx context.Context, s *section, who string, l load, limit ratelimit.Limit, keys []string) error {
	b.server.Do("FLUSHALL")
	contestants, leave, err := b.enter(ctx, limit, ours)
	if err != nil {
		return err
	}
	defer leave()
	makeKeys(ctx, contestants[0], keys)
	runtime.GC()
	outcomes := b.compete(ctx, l, contestants, b.rounds, b.duration)[0]
	decided := roundsOf(outcomes, outcome.perSecond).median()
	s.row(who,
		figure{"decisions/s", decided},
		figure{"us/decision", 1e6 / max(decided, 1)},
		figure{"p50 us", roundsOf(outcomes, func(o outcome) float64 { return o.quantile(0.5) }).median()},
		figure{"p99 us", roundsOf(outcomes, func(o outcome) float64 { return o.quantile(0.99) }).median()},
		figure{"denied %", roundsOf(outcomes, outcome.deniedPercent).median()},
		figure{"Redis MB", b.redisMegabytes()},
		figure{"process MB", processMegabytes()},
		figure{"heap MB", heapMegabytes()})
	s.complain(contestants, [][]outcome{outcomes})
	return nil
}

// makeKeys asks for each key once, by many callers.
func makeKeys(ctx context.Context, c contestant, keys []string) {
	const makers = 256
	done := make(chan struct{})
	for m := range makers {
		go func() {
			for i := m; i < len(keys); i += makers {
				_, _ = c.allow(ctx, keys[i])
			}
			done <- struct{}{}
		}()
	}
	for range makers {
		<-done
	}
}

func (b *bench) redisMegabytes() float64 {
	bytes, _ := strconv.ParseFloat(b.server.Info("used_memory"), 64)
	return bytes / 1e6
}

func heapMegabytes() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}

// processMegabytes is the memory of this process that is resident, where the
// system tells, or else what Go has taken.
func processMegabytes() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				kilobytes, _ := strconv.ParseFloat(strings.Fields(value)[0], 64)
				return kilobytes / 1e3
			}
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.Sys) / 1e6
}
