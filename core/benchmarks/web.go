package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-chi/httprate"
	"github.com/redis/go-redis/v9"

	nethttplimit "github.com/atomicbucket/ratelimit/adapters/nethttp"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/memstore"
	"github.com/atomicbucket/ratelimit/core/redisstore"
)

// site is a framework's application with one route, limited or not.
type site struct {
	framework string
	bare      http.Handler
	limitedBy func(*ratelimit.Limiter) http.Handler
}

// sites are all frameworks that are measured.
var sites = []site{netHTTP}

var netHTTP = site{
	framework: "net/http",
	bare:      http.HandlerFunc(noContent),
	limitedBy: func(l *ratelimit.Limiter) http.Handler {
		return nethttplimit.New(l)(http.HandlerFunc(noContent))
	},
}

func noContent(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// measureHTTP counts what a limiter allocates in a request beside the same
// request without one. What the limiter's own Allow allocates is in it, and
// shown on its own.
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
	var requests []request
	for _, site := range sites {
		requests = append(requests,
			request{site.framework + ", bare", site.bare, site.bare, http.StatusNoContent},
			request{site.framework + ", admitted by memstore", site.limitedBy(admitting), site.bare, http.StatusNoContent},
			request{site.framework + ", denied by the shortcut", site.limitedBy(denying), site.bare, http.StatusTooManyRequests})
	}
	requests = append(requests,
		request{"httprate in memory, admitted", httprate.LimitByIP(1e9, time.Hour)(netHTTP.bare), netHTTP.bare, http.StatusNoContent},
		request{"httprate in memory, denied", httprate.LimitByIP(1, time.Hour)(netHTTP.bare), netHTTP.bare, http.StatusTooManyRequests})
	for _, r := range requests {
		if err := s.requestRow(b, r); err != nil {
			return err
		}
	}
	s.note("added: beside the bare request. Headers and a denial's body are in it")
	return nil
}

// request is served again and again. The status is what it has to be answered
// with from the second time on.
type request struct {
	who     string
	handler http.Handler
	bare    http.Handler // without a limiter
	status  int
}

func (s *section) limiterRow(ctx context.Context, b *bench, who string, l *ratelimit.Limiter) {
	a := b.allocations(func() { _, _ = l.Allow(ctx, sampleKey) })
	s.row(who, figure{"allocations", a.count}, figure{"bytes", a.bytes}, figure{"added", a.count})
}

func (s *section) requestRow(b *bench, r request) error {
	a, status := b.serve(r.handler)
	bare, _ := b.serve(r.bare)
	if status != r.status {
		return fmt.Errorf("%s: status is %d, want %d", r.who, status, r.status)
	}
	s.row(r.who, figure{"allocations", a.count}, figure{"bytes", a.bytes}, figure{"added", a.count - bare.count})
	return nil
}

// serve counts what handler allocates for a request, and returns the status of
// the last one. The writer allocates nothing of its own.
func (b *bench) serve(handler http.Handler) (a allocated, status int) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	w := &discard{header: make(http.Header)}
	a = b.allocations(func() {
		clear(w.header)
		handler.ServeHTTP(w, r)
	})
	return a, w.status
}

// discard keeps nothing of an answer but its status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }
