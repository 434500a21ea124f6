package nethttplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	nethttplimit "github.com/atomicbucket/ratelimit/adapters/nethttp"
	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// A request without a limiter, to be taken from the others.
func BenchmarkBare(b *testing.B) { benchmark(b, http.HandlerFunc(empty)) }

// What an admitted request adds: the key, the headers' text and values,
// and the request with its context.
func BenchmarkAdmitted(b *testing.B) {
	benchmark(b, nethttplimit.New(newLimiter(b, plenty))(http.HandlerFunc(empty)))
}

// Refund adds the writer that sees the status, with a function or two for each
// method that it hooks.
func BenchmarkAdmittedWithRefund(b *testing.B) {
	config := nethttplimit.Config{Refund: func(*http.Request, int) bool { return false }}
	benchmark(b, nethttplimit.New(newLimiter(b, plenty), config)(http.HandlerFunc(empty)))
}

// A denied request has no context, and a body that is made once.
func BenchmarkDenied(b *testing.B) {
	benchmark(b, nethttplimit.New(newLimiter(b, ratelimit.PerDay(1)))(http.HandlerFunc(empty)))
}

// plenty is a limit that admits all that a benchmark can ask for.
var plenty = ratelimit.Per(1_000_000, time.Second).WithBurst(1_000_000_000)

func empty(http.ResponseWriter, *http.Request) {}

func benchmark(b *testing.B, handler http.Handler) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept", "*/*")
	w := blank{http.Header{}}
	handler.ServeHTTP(w, r) // spends the token of a limit of one
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		handler.ServeHTTP(w, r)
	}
}

// blank is a writer that allocates nothing.
type blank struct{ header http.Header }

func (b blank) Header() http.Header       { return b.header }
func (blank) Write(p []byte) (int, error) { return len(p), nil }
func (blank) WriteHeader(int)             {}
