package ginlimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	ginlimit "github.com/atomicbucket/ratelimit/adapters/gin"
	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// A request without a limiter, to be taken from the others.
func BenchmarkBare(b *testing.B) { benchmark(b) }

// What an admitted request adds: the key, the headers' text and values,
// and the context's map, of two parts, with the result in it.
func BenchmarkAdmitted(b *testing.B) {
	benchmark(b, ginlimit.New(newLimiter(b, plenty)))
}

// Refund adds the writer that sees the status.
func BenchmarkAdmittedWithRefund(b *testing.B) {
	config := ginlimit.Config{Refund: func(*gin.Context, int) bool { return false }}
	benchmark(b, ginlimit.New(newLimiter(b, plenty), config))
}

// A denied request has the same, and a body that is made once.
func BenchmarkDenied(b *testing.B) {
	benchmark(b, ginlimit.New(newLimiter(b, ratelimit.PerDay(1))))
}

// plenty is a limit that admits all that a benchmark can ask for.
var plenty = ratelimit.Per(1_000_000, time.Second).WithBurst(1_000_000_000)

func benchmark(b *testing.B, limits ...gin.HandlerFunc) {
	engine := gin.New()
	engine.GET("/", append(limits, func(*gin.Context) {})...)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept", "*/*")
	w := blank{http.Header{}}
	engine.ServeHTTP(w, r) // spends the token of a limit of one
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		engine.ServeHTTP(w, r)
	}
}

// blank is a writer that allocates nothing.
type blank struct{ header http.Header }

func (b blank) Header() http.Header       { return b.header }
func (blank) Write(p []byte) (int, error) { return len(p), nil }
func (blank) WriteHeader(int)             {}
