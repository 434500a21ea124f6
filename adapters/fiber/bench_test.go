package fiberlimit_test

import (
	"net"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	fiberlimit "github.com/atomicbucket/ratelimit/adapters/fiber"
	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// A request without a limiter, to be taken from the others.
func BenchmarkBare(b *testing.B) { benchmark(b) }

// What an admitted request adds: the key, the headers' text, and the result
// in c.Locals.
func BenchmarkAdmitted(b *testing.B) {
	benchmark(b, fiberlimit.New(newLimiter(b, plenty)))
}

// Refund adds the function that runs the handler: fiber knows the status.
func BenchmarkAdmittedWithRefund(b *testing.B) {
	config := fiberlimit.Config{Refund: func(*fiber.Ctx, int) bool { return false }}
	benchmark(b, fiberlimit.New(newLimiter(b, plenty), config))
}

// A denied request adds the error, and what the ErrorHandler looks for it with.
func BenchmarkDenied(b *testing.B) {
	benchmark(b, fiberlimit.New(newLimiter(b, ratelimit.PerDay(1))))
}

// plenty is a limit that admits all that a benchmark can ask for.
var plenty = ratelimit.Per(1_000_000, time.Second).WithBurst(1_000_000_000)

func benchmark(b *testing.B, middlewares ...fiber.Handler) {
	app := newApp()
	app.Get("/items/:id", append(middlewares, ok)...)
	serve := app.Handler()
	var request fasthttp.Request
	request.SetRequestURI("/items/1")
	request.Header.Set("Accept", "*/*")
	var c fasthttp.RequestCtx
	c.Init(&request, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1234}, nil)
	serve(&c) // spends the token of a limit of one
	b.ReportAllocs()
	for b.Loop() {
		c.Response.Reset()
		c.ResetUserValues()
		serve(&c)
	}
}
