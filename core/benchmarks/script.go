package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

const (
	// pipelined is how many calls go out together, so that Redis is at work all
	// the time and what it spends on the network is shared.
	pipelined = 32
	// scriptRounds for each of -rounds: one takes some 30 ms only.
	scriptRounds = 5
)

// pipelines are sent for one figure: 150 in a round of half a second.
func (b *bench) pipelines() int { return max(int(b.duration/(3300*time.Microsecond)), 1) }

// scripted is a script that is run again and again, on one key after the other.
type scripted struct {
	who      string
	commands [][]any
}

// measureScripts compares the time that Redis itself counts for each call.
func measureScripts(ctx context.Context, b *bench, s *section) error {
	rdb := redis.NewClient(b.clientOptions())
	defer rdb.Close()
	subjects, err := b.scripts(ctx, rdb)
	if err != nil {
		return err
	}
	measures := make([]func() float64, len(subjects))
	for i, subject := range subjects {
		measures[i] = func() float64 { return b.microsecondsPerCall(ctx, rdb, subject) }
	}
	all := inTurns(b.rounds*scriptRounds, measures...)
	yardstick := rounds(all[0])
	for i, subject := range subjects {
		s.row(subject.who,
			figure{"us/call", rounds(all[i]).median()},
			figure{"over GET + SET PX", rounds(all[i]).over(yardstick).median()})
	}
	s.atMost("admitted over GET + SET PX", rounds(all[2]).over(yardstick), 1.75, "x")
	s.atMost("denied over GET + SET PX", rounds(all[3]).over(yardstick), 1.1, "x")
	s.note("INFO commandstats after CONFIG RESETSTAT, %d calls a round, pipelined %d deep over %d keys", pipelined*b.pipelines(), pipelined, pipelined)
	s.note("throttled decides in three commands, of which only the last is a script, and is not here")
	return nil
}

func (b *bench) scripts(ctx context.Context, rdb *redis.Client) ([]scripted, error) {
	subjects := make([]scripted, 0, 8)
	for _, yardstick := range []struct{ who, script string }{
		{"GET + SET PX", "local v = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return v"},
		{"empty script", "return 0"},
	} {
		hash, err := rdb.ScriptLoad(ctx, yardstick.script).Result()
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, repeat(yardstick.who, decision{hash: hash, key: sampleKey, args: []string{"1700000000000000", "60000"}}))
	}
	for _, heard := range []struct {
		who, limiter string
		limit        ratelimit.Limit
	}{
		{"ours, admitted", ours, plenty},
		{"ours, denied", ours, none},
		{"redis_rate, admitted", redisRate, plenty},
		{"redis_rate, denied", redisRate, none},
		{"ulule/limiter, admitted", ulule, plenty},
		{"ulule/limiter, denied", ulule, none},
	} {
		decision, err := overhear(ctx, rdb.Options(), heard.limit, heard.limiter)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", heard.who, err)
		}
		subjects = append(subjects, repeat(heard.who, decision))
		rdb.Del(ctx, decision.key)
	}
	return subjects, nil
}

// repeat is d on as many keys as go out together.
func repeat(who string, d decision) scripted {
	s := scripted{who: who}
	for i := range pipelined {
		s.commands = append(s.commands, d.command(d.redisKey(keyOf(i))))
	}
	return s
}

// microsecondsPerCall empties the database before, so that nobody meets the keys
// of others, and runs the script once on each key: denials are of the second
// call.
func (b *bench) microsecondsPerCall(ctx context.Context, rdb *redis.Client, s scripted) float64 {
	b.server.Do("FLUSHALL")
	s.run(ctx, rdb)
	b.server.Do("CONFIG", "RESETSTAT")
	for range b.pipelines() {
		s.run(ctx, rdb)
	}
	return float64(b.server.Usec("evalsha")) / float64(b.server.Calls("evalsha"))
}

func (s scripted) run(ctx context.Context, rdb *redis.Client) {
	pipe := rdb.Pipeline()
	for _, command := range s.commands {
		pipe.Do(ctx, command...)
	}
	_, _ = pipe.Exec(ctx) // a failed call is counted by Redis as well
}

// measureMemory asks Redis what one key costs.
func measureMemory(ctx context.Context, b *bench, s *section) error {
	for _, name := range append([]string{ours}, peers...) {
		bytes, err := b.memoryOf(ctx, name)
		if err != nil {
			return err
		}
		s.row(name, figure{"bytes", bytes})
		if name == ours {
			s.atMost("MEMORY USAGE", rounds{bytes}, 88, " bytes")
		}
	}
	s.note("a key of %d bytes, called once at %v; what is asked is MEMORY USAGE of the one key in the database", len(sampleKey), ordinary)
	return nil
}

func (b *bench) memoryOf(ctx context.Context, name string) (float64, error) {
	b.server.Do("FLUSHALL")
	contestants, leave, err := b.enter(ctx, ordinary, name)
	if err != nil {
		return 0, err
	}
	defer leave()
	if _, err := contestants[0].allow(ctx, sampleKey); err != nil {
		return 0, err
	}
	rdb := redis.NewClient(b.clientOptions())
	defer rdb.Close()
	keys, err := rdb.Keys(ctx, "*").Result()
	if err != nil || len(keys) != 1 {
		return 0, fmt.Errorf("%s keeps %q for one key: %w", name, keys, err)
	}
	bytes, err := rdb.MemoryUsage(ctx, keys[0]).Result()
	return float64(bytes), err
}
