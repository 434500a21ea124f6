package storetest

import (
	"context"
	"errors"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

var contextChecks = []Check{
	{"a ctx that has ended is answered with its error and changes nothing", endedContext},
}

func endedContext(s subject) {
	s.Helper()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	expired, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	b := day("k", 8*time.Hour)
	s.take(b)
	s.writesNothing("calls whose ctx has ended", func() {
		for _, ctx := range []context.Context{cancelled, expired} {
			s.refuses(ctx, b)
		}
	})
	s.holds(b, 8*time.Hour)
}

// refuses checks that every call returns ctx's error.
func (s subject) refuses(ctx context.Context, b ratelimit.Bucket) {
	s.Helper()
	list := []ratelimit.Bucket{b}
	taken, takeErr := s.Store.Take(ctx, list)
	peeked, peekErr := s.Store.Peek(ctx, list)
	if taken.Allowed || peeked.Allowed {
		s.Fatalf("a call whose ctx has ended is admitted")
	}
	for name, err := range map[string]error{
		"Take":   takeErr,
		"Peek":   peekErr,
		"Refund": s.Store.Refund(ctx, list),
		"Reset":  s.Store.Reset(ctx, list),
		"Ping":   s.Store.Ping(ctx),
	} {
		if !errors.Is(err, ctx.Err()) {
			s.Fatalf("%s: error is %v, want %v", name, err, ctx.Err())
		}
	}
}
