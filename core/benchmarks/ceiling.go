package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// measureCeiling runs our script from redis-benchmark, which does nothing else:
// more than this Redis cannot decide one by one.
func measureCeiling(ctx context.Context, b *bench, s *section) error {
	program, err := exec.LookPath("redis-benchmark")
	if err != nil {
		s.note("redis-benchmark is not on PATH")
		return nil
	}
	rdb := redis.NewClient(b.clientOptions())
	defer rdb.Close()
	decision, err := overhear(ctx, rdb.Options(), plenty, ours)
	if err != nil {
		return err
	}
	var perSecond rounds
	for range b.rounds {
		figure, err := b.redisBenchmark(ctx, program, decision)
		if err != nil {
			return err
		}
		perSecond = append(perSecond, figure)
	}
	s.row("redis-benchmark", figure{"decisions/s", perSecond.median()})
	s.note("8 connections, pipelined %d deep, 10,000 keys; beside it, more is possible only by deciding on several calls in one", pipelined)
	return nil
}

func (b *bench) redisBenchmark(ctx context.Context, program string, d decision) (float64, error) {
	host, port, err := net.SplitHostPort(b.server.Addr())
	if err != nil {
		return 0, err
	}
	calls := max(int(100_000*b.duration.Seconds()), 1000)
	args := []string{
		"-h", host, "-p", port, "--csv", "-c", "8", "-P", strconv.Itoa(pipelined), "-r", "10000", "-n", strconv.Itoa(calls),
		"evalsha", d.hash, "1", strings.Replace(d.key, sampleKey, "user__rand_int__", 1),
	}
	out, err := exec.CommandContext(ctx, program, append(args, d.args...)...).Output()
	if err != nil {
		return 0, err
	}
	lines, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(lines) < 2 || len(lines[1]) < 2 {
		return 0, fmt.Errorf("redis-benchmark said %q: %w", out, err)
	}
	return strconv.ParseFloat(lines[1][1], 64)
}
