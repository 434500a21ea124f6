package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

type config = httplimit.Config[*http.Request, http.HandlerFunc]

func by(key httplimit.Key[httplimit.Request]) httplimit.Key[*http.Request] {
	return func(r *http.Request) (string, error) { return key(httplimit.FromHTTP(r)) }
}

// decided answers every call alike, and allocates nothing.
type decided struct {
	*memstore.Store
	allowed bool
}

func (s decided) Take(_ context.Context, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	for i := range buckets {
		buckets[i].Deficit = buckets[i].Capacity
	}
	return ratelimit.Decision{Allowed: s.allowed}, nil
}

func BenchmarkDecide(b *testing.B) {
	for _, bench := range []struct {
		name    string
		allowed bool
		headers httplimit.Headers
		options []ratelimit.Option
		key     httplimit.Key[*http.Request]
	}{
		{name: "admitted", allowed: true},
		{name: "denied"},
		{name: "admitted/no headers", allowed: true, headers: httplimit.NoHeaders},
		{name: "admitted/IETF too", allowed: true, headers: httplimit.XRateLimit | httplimit.IETFDraft11},
		{name: "denied/IETF too", headers: httplimit.XRateLimit | httplimit.IETFDraft11},
		{name: "denied/two limits", headers: httplimit.IETFDraft11, options: []ratelimit.Option{ratelimit.WithLimit(ratelimit.PerHour(1000))}},
		{name: "admitted/ClientIP", allowed: true, key: by(httplimit.ClientIP())},
		{name: "admitted/Header", allowed: true, key: by(httplimit.Header("X-Api-Key"))},
		{name: "admitted/Join", allowed: true, key: by(httplimit.Join(httplimit.ClientIP(), httplimit.Route))},
	} {
		b.Run(bench.name, func(b *testing.B) {
			limiter, err := ratelimit.New(decided{memstore.New(), bench.allowed}, "api", ratelimit.PerSecond(10).WithBurst(20), bench.options...)
			if err != nil {
				b.Fatal(err)
			}
			m := httplimit.New(limiter, httplimit.FromHTTP, config{Headers: bench.headers, Key: bench.key})
			r := httptest.NewRequest(http.MethodGet, "/items/1", nil)
			r.Pattern = "GET /items/{id}"
			r.Header.Set("X-Api-Key", "5ecre7")
			header := http.Header{}
			b.ReportAllocs()
			for b.Loop() {
				clear(header)
				m.Decide(r, header)
			}
		})
	}
}
