package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/httprate"
	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/memstore"
	"github.com/atomicbucket/ratelimit/core/redisstore"
)

// measureHTTP counts what a limiter allocates in a request, in each framework
// beside the same request without one. What the limiter's own Allow allocates is
// in it, and shown on its own.
//
// Admitted, the store is a memstore, so that what a Redis client allocates does
// not hide the adapter. Denied, it is the store in Redis by its shortcut.
func measureHTTP(ctx context.Context, b *bench, s *section) error {
	admitting, err := ratelimit.New(memstore.New(), "http", plenty)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(b.clientOptions())
	defer rdb.Close()
	store, err := redisstore.New(rdb)
	if err != nil {
		return err
	}
	denying, err := ratelimit.New(store, "http", none, ratelimit.FailClosed())
	if err != nil {
		return err
	}
	s.limiterRow(ctx, b, "Allow alone, admitted by memstore", admitting)
	s.limiterRow(ctx, b, "Allow alone, denied by the shortcut", denying)
	for _, site := range sites {
		if err := s.requestRows(b, []request{
			{site.framework + ", bare", site.limitedBy(nil), http.StatusNoContent},
			{site.framework + ", admitted by memstore", site.limitedBy(admitting), http.StatusNoContent},
			{site.framework + ", denied by the shortcut", site.limitedBy(denying), http.StatusTooManyRequests},
		}); err != nil {
			return err
		}
	}
	s.note("added: beside the bare request of the same framework. Headers, and a denial's body, are in it")
	return s.requestRows(b, []request{
		{"net/http again, bare", netHTTP(nil), http.StatusNoContent},
		{"httprate in memory, admitted", overHTTP(httprate.LimitByIP(1e9, time.Hour)(noContent)), http.StatusNoContent},
		{"httprate in memory, denied", overHTTP(httprate.LimitByIP(1, time.Hour)(noContent)), http.StatusTooManyRequests},
	})
}

// request is served again and again. The status is what it has to be answered
// with from the second time on.
type request struct {
	who    string
	serve  server
	status int
}

func (s *section) limiterRow(ctx context.Context, b *bench, who string, l *ratelimit.Limiter) {
	a := b.allocations(func() { _, _ = l.Allow(ctx, sampleKey) })
	s.allocatedRow(who, a, allocated{})
}

// requestRows puts the others beside the first, which is the bare one.
func (s *section) requestRows(b *bench, requests []request) error {
	var bare allocated
	for i, r := range requests {
		a := b.allocations(func() { r.serve() })
		if status := r.serve(); status != r.status {
			return fmt.Errorf("%s: status is %d, want %d", r.who, status, r.status)
		}
		if i == 0 {
			bare = a
		}
		s.allocatedRow(r.who, a, bare)
	}
	return nil
}

func (s *section) allocatedRow(who string, a, bare allocated) {
	s.row(who,
		figure{"allocations", a.count},
		figure{"bytes", a.bytes},
		figure{"added", a.count - bare.count},
		figure{"bytes added", a.bytes - bare.bytes})
}
