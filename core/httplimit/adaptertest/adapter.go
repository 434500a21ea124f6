// Package adaptertest is the suite that every adapter must pass. It knows no
// framework: an adapter's test describes in an [Adapter] how to serve an app, and
// [Run] drives that app over real connections.
//
//	func TestAdapter(t *testing.T) {
//		adaptertest.Run(t, adaptertest.Adapter[*gin.Context, gin.HandlerFunc]{
//			Serve:   serve,
//			Handler: handler,
//			...
//		})
//	}
//
// What is particular to a framework is for the adapter's own tests.
package adaptertest

import (
	"net"
	"net/http"
	"strings"
	"testing"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

// Adapter describes an adapter to the suite. C and H are those of its Config.
type Adapter[C, H any] struct {
	// Serve starts an app with the routes on l and returns. It stops the app, and
	// waits for that, in t.Cleanup. Frameworks on net/http call [ServeHTTP]. The
	// app recovers from panics and handles errors by the framework's defaults.
	Serve func(t testing.TB, l net.Listener, routes []Route[C, H])

	// Handler returns a handler of the framework that does what reply says.
	Handler func(reply Reply) H

	// By and ResultFrom are the adapter's own.
	By         func(httplimit.Key[httplimit.Request]) httplimit.Key[C]
	ResultFrom func(C) (ratelimit.Result, bool)

	// Header returns the first line of a header of the request as the framework
	// hands it out, without copying it.
	Header func(c C, name string) string

	// ReturnsErrors is whether handlers return errors, or record them, so that
	// Reply.Err means something.
	ReturnsErrors bool

	// RendersErrors is whether the app's error handler renders the default
	// answers, so that their body and its type are the framework's.
	RendersErrors bool

	// IgnoresClients is whether the framework cannot tell a handler that its
	// client has gone.
	IgnoresClients bool
}

// Route is one route of an app. It answers any method.
type Route[C, H any] struct {
	// Path in the form of net/http, such as "/items/{id}". See [Colons].
	Path string
	// Outer are response headers that a middleware outside the limiters sets
	// before it calls them.
	Outer map[string]string
	// Done is called by that middleware when they have returned or panicked.
	// It is never nil.
	Done func()
	// Limits are the middlewares made by the adapter's New, the outermost first.
	Limits []Limit[C, H]
	// Handler is made by Adapter.Handler.
	Handler H
}

// Limit holds the arguments of the adapter's New.
type Limit[C, H any] struct {
	Limiter *ratelimit.Limiter
	Configs []httplimit.Config[C, H]
}

// Reply is what a handler does. It calls Seen first, with what ResultFrom
// returns, then does one thing, in this order of preference: panics, returns Err,
// upgrades, streams Chunks, or answers with Status and Body.
type Reply struct {
	// Seen is never nil.
	Seen func(res ratelimit.Result, ok bool)
	// Panic panics. The value does not matter, but let it not be
	// http.ErrAbortHandler, for which some frameworks make an exception.
	Panic bool
	// Err is returned, or recorded without writing anything.
	Err error
	// Upgrade takes the connection over, writes [Switching] itself or has the
	// framework answer 101 with the same headers, copies one line that the client
	// sends back to it, and closes the connection.
	Upgrade bool
	// Chunks are written and flushed one by one. Before each, the handler receives
	// from Gate.
	Chunks []string
	Gate   <-chan struct{}
	// Status and Body are written as text/plain.
	Status int
	Body   string
}

// Switching is the answer of a handler that upgrades.
const Switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"

// Run tests the adapter. Call it from a test that is not parallel: it captures
// the default logger for a moment.
func Run[C, H any](t *testing.T, adapter Adapter[C, H]) {
	s := suite[C, H]{adapter}
	t.Run("requests without key or address share a bucket, with one warning", s.testSharedBucket)
	for name, test := range map[string]func(*testing.T){
		"registration":  s.testRegistration,
		"defaults":      s.testDefaults,
		"addresses":     s.testAddresses,
		"keys":          s.testKeys,
		"limiters":      s.testLimiters,
		"costs":         s.testCosts,
		"skip":          s.testSkip,
		"headers":       s.testHeaders,
		"stacked":       s.testStacked,
		"answers":       s.testAnswers,
		"own answers":   s.testOwnAnswers,
		"failing store": s.testFailingStore,
		"refund":        s.testRefund,
		"shadow":        s.testShadow,
		"connections":   s.testConnections,
		"clients gone":  s.testClientsGone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

type suite[C, H any] struct{ Adapter[C, H] }

// ServeHTTP starts an [http.Server] on l for Adapter.Serve.
func ServeHTTP(t testing.TB, l net.Listener, handler http.Handler) {
	server := &http.Server{Handler: handler, ErrorLog: discard}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // http.ErrServerClosed
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
}

// Colons turns a path with "{id}" into one with ":id".
func Colons(path string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(path)
}
