package main

import (
	"context"
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
	for _, site := range sites {
		bare := s.siteRow(b, site.framework+", bare", site.bare, allocated{})
		s.siteRow(b, site.framework+", admitted by memstore", site.limitedBy(admitting), bare)
		s.siteRow(b, site.framework+", denied by the shortcut", site.limitedBy(denying), bare)
	}
	bare := b.allocations(requests(netHTTP.bare))
	s.siteRow(b, "httprate in memory, admitted", httprate.LimitByIP(1e9, time.Hour)(netHTTP.bare), bare)
	s.siteRow(b, "httprate in memory, denied", httprate.LimitByIP(1, time.Hour)(netHTTP.bare), bare)
	s.note("added: beside the bare request. Headers and a denial's body are in it")
	return nil
}

func (s *section) limiterRow(ctx context.Context, b *bench, who string, l *ratelimit.Limiter) {
	a := b.allocations(func() { _, _ = l.Allow(ctx, sampleKey) })
	s.row(who, figure{"allocations", a.count}, figure{"bytes", a.bytes}, figure{"added", a.count})
}

func (s *section) siteRow(b *bench, who string, handler http.Handler, bare allocated) allocated {
	a := b.allocations(requests(handler))
	s.row(who, figure{"allocations", a.count}, figure{"bytes", a.bytes}, figure{"added", a.count - bare.count})
	return a
}

// requests serves the same request again and again, by a writer that allocates
// nothing of its own.
func requests(handler http.Handler) func() {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	w := &discard{header: make(http.Header)}
	return func() {
		clear(w.header)
		handler.ServeHTTP(w, r)
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}
