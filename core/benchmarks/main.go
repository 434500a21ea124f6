package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"time"

	"github.com/atomicbucket/ratelimit/core/redistest"
)

// bench is one run: its settings and the server it measures on.
type bench struct {
	rounds   int
	duration time.Duration // of one subject in one round
	pool     int           // connections of each client; 0 is go-redis' default
	fit      bool          // all clients have redisstore.Options
	server   *redistest.Server
}

// sections are what can be measured, in the order in which it is printed.
var sections = []struct {
	title   string
	long    bool // only with -growth
	measure func(ctx context.Context, b *bench, s *section) error
}{
	{"script: Redis time per call", false, measureScripts},
	{"memory: one tracked client", false, measureMemory},
	{"one caller: beside a bare EVALSHA, all clients with redisstore.Options()", false, measureFitCaller},
	{"one caller: beside a bare EVALSHA", false, measureOneCaller},
	{"four callers: beside a bare EVALSHA", false, measureFourCallers},
	{"allocations: per decision", false, measureAllocations},
	{"admitted: 10,000 keys, 64 callers", false, throughput(tenThousandKeys(64, 1.6))},
	{"admitted: 10,000 keys, 512 callers", false, throughput(tenThousandKeys(512, 2))},
	{"admitted: one hot key, 512 callers", false, throughput(oneHotKey)},
	{"admitted: half one hot key, half 10,000 others, 512 callers", false, throughput(hotAndCold)},
	{"denied: one key under attack, 64 callers", false, measureAttack},
	{"mixed: nine of ten calls attack one key, 64 callers", false, throughput(attackAndOthers)},
	{"ceiling: the same script from redis-benchmark", false, measureCeiling},
	{"http: allocations per request", false, measureHTTP},
	{"growth: keys", true, measureGrowthOfKeys},
	{"growth: callers", true, measureGrowthOfCallers},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func run() error {
	b := &bench{}
	flag.IntVar(&b.rounds, "rounds", 5, "how often each subject is measured")
	flag.DurationVar(&b.duration, "duration", 500*time.Millisecond, "how long each subject is measured in a round")
	flag.IntVar(&b.pool, "pool", 0, "connections of each client, peers' included; 0 is go-redis' default, 10 per processor")
	flag.BoolVar(&b.fit, "fit", false, "give all clients redisstore.Options(), peers' included, instead of go-redis' defaults")
	growth := flag.Bool("growth", false, "also measure how time and memory grow; takes minutes more")
	asJSON := flag.Bool("json", false, "print JSON")
	only := flag.String("only", "", "measure only the sections whose title matches this regular expression")
	profiles := flag.String("profile", "", "write pprof profiles of Allow into this directory, and measure nothing else")
	flag.Parse()

	titles, err := regexp.Compile(*only)
	switch {
	case err != nil:
		return fmt.Errorf("-only: %w", err)
	case b.rounds < 1 || b.duration <= 0:
		return errors.New("-rounds and -duration must be positive")
	}
	// A limiter that fails says so in its errors, which are counted.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	return b.onServer(func(ctx context.Context) error {
		if *profiles != "" {
			return writeProfiles(ctx, b, *profiles)
		}
		return b.measure(ctx, newPrinter(os.Stdout, *asJSON), titles, *growth)
	})
}

// onServer calls f while b has a server.
func (b *bench) onServer(f func(ctx context.Context) error) error {
	var failed error
	err := redistest.Run(func(tb redistest.TB) {
		b.server = redistest.Start(tb)
		failed = f(context.Background())
	})
	return errors.Join(err, failed)
}

func (b *bench) measure(ctx context.Context, p printer, titles *regexp.Regexp, growth bool) error {
	p.machine(describeMachine(b))
	for _, chosen := range sections {
		if chosen.long && !growth || !titles.MatchString(chosen.title) {
			continue
		}
		s := &section{Title: chosen.title}
		b.server.Do("FLUSHALL")
		if err := chosen.measure(ctx, b, s); err != nil {
			return fmt.Errorf("%s: %w", chosen.title, err)
		}
		p.section(s)
	}
	return p.end()
}
