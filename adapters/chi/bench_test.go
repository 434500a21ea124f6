package chilimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	chilimit "github.com/atomicbucket/ratelimit/adapters/chi"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

// A request without a limiter, to be taken from the others.
func BenchmarkBare(b *testing.B) { benchmark(b) }

// What an admitted request adds: the key, the headers' text and values,
// and the request with its context.
func BenchmarkAdmitted(b *testing.B) {
	benchmark(b, chilimit.New(newLimiter(b, plenty)))
}

// Refund adds the writer that sees the status, with a function or two for each
// method that it hooks.
func BenchmarkAdmittedWithRefund(b *testing.B) {
	config := chilimit.Config{Refund: func(*http.Request, int) bool { return false }}
	benchmark(b, chilimit.New(newLimiter(b, plenty), config))
}

// Route in Use adds a search in chi's tree, which allocates nothing, and the
// key's text.
func BenchmarkAdmittedByRoute(b *testing.B) {
	config := chilimit.Config{Key: chilimit.By(httplimit.Route)}
	benchmark(b, chilimit.New(newLimiter(b, plenty), config))
}

// A denied request has no context, and a body that is made once.
func BenchmarkDenied(b *testing.B) {
	benchmark(b, chilimit.New(newLimiter(b, ratelimit.PerDay(1))))
}

// plenty is a limit that admits all that a benchmark can ask for.
var plenty = ratelimit.Per(1_000_000, time.Second).WithBurst(1_000_000_000)

func benchmark(b *testing.B, middlewares ...func(http.Handler) http.Handler) {
	router := chi.NewRouter()
	router.Use(middlewares...)
	router.Get("/items/{id}", ok)
	r := httptest.NewRequest(http.MethodGet, "/items/1", nil)
	r.Header.Set("Accept", "*/*")
	w := blank{http.Header{}}
	router.ServeHTTP(w, r) // spends the token of a limit of one
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		router.ServeHTTP(w, r)
	}
}

// blank is a writer that allocates nothing.
type blank struct{ header http.Header }

func (b blank) Header() http.Header       { return b.header }
func (blank) Write(p []byte) (int, error) { return len(p), nil }
func (blank) WriteHeader(int)             {}
