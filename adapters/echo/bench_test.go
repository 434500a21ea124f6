package echolimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	echolimit "github.com/atomicbucket/ratelimit/adapters/echo"
	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// A request without a limiter, to be taken from the others.
func BenchmarkBare(b *testing.B) { benchmark(b) }

// What an admitted request adds: the key, the headers' text and values, the
// context's map, of two parts, with the result in it, and the handler, which echo
// has each middleware wrap for each request.
func BenchmarkAdmitted(b *testing.B) {
	benchmark(b, echolimit.New(newLimiter(b, plenty)))
}

// Refund adds the writer that sees the status, with a function or two for each
// method that it hooks.
func BenchmarkAdmittedWithRefund(b *testing.B) {
	config := echolimit.Config{Refund: func(echo.Context, int) bool { return false }}
	benchmark(b, echolimit.New(newLimiter(b, plenty), config))
}

// A denied request has the same, and what echo makes a body of: an error within
// an error, the message and the problem in them, the query, which echo looks for
// "pretty" in, and the content type.
func BenchmarkDenied(b *testing.B) {
	benchmark(b, echolimit.New(newLimiter(b, ratelimit.PerDay(1))))
}

// plenty is a limit that admits all that a benchmark can ask for.
var plenty = ratelimit.Per(1_000_000, time.Second).WithBurst(1_000_000_000)

func benchmark(b *testing.B, limits ...echo.MiddlewareFunc) {
	e := echo.New()
	e.GET("/", func(echo.Context) error { return nil }, limits...)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept", "*/*")
	w := blank{http.Header{}}
	e.ServeHTTP(w, r) // spends the token of a limit of one
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		e.ServeHTTP(w, r)
	}
}

// blank is a writer that allocates nothing.
type blank struct{ header http.Header }

func (b blank) Header() http.Header       { return b.header }
func (blank) Write(p []byte) (int, error) { return len(p), nil }
func (blank) WriteHeader(int)             {}
