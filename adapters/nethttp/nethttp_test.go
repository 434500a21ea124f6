package nethttplimit_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	nethttplimit "github.com/atomicbucket/ratelimit/adapters/nethttp"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

func newLimiter(t testing.TB, limit ratelimit.Limit) *ratelimit.Limiter {
	t.Helper()
	limiter, err := ratelimit.New(memstore.New(), "api", limit)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

func always(*http.Request, int) bool { return true }

func TestPatternReachesMiddlewareOutside(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(http.ResponseWriter, *http.Request) {})
	limited := nethttplimit.New(newLimiter(t, ratelimit.PerHour(5)))(mux)
	r := httptest.NewRequest(http.MethodGet, "/items/1", nil)
	limited.ServeHTTP(httptest.NewRecorder(), r)
	if r.Pattern != "GET /items/{id}" {
		t.Errorf("pattern %q outside of the limiter", r.Pattern)
	}
}

func TestWriterIsWrappedForRefundAlone(t *testing.T) {
	t.Parallel()
	limiter := newLimiter(t, ratelimit.PerHour(9))
	for _, c := range []struct {
		config  nethttplimit.Config
		wrapped bool
	}{
		{nethttplimit.Config{}, false},
		{nethttplimit.Config{Refund: always}, true},
		{nethttplimit.Config{Refund: always, Shadow: true}, false},
		{nethttplimit.Config{Refund: always, Skip: func(*http.Request) bool { return true }}, false},
	} {
		w := httptest.NewRecorder()
		var inner http.ResponseWriter
		next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { inner = w })
		nethttplimit.New(limiter, c.config)(next).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if wrapped := inner != http.ResponseWriter(w); wrapped != c.wrapped {
			t.Errorf("%+v: wrapped %v, want %v", c.config, wrapped, c.wrapped)
		}
	}
}

func TestRefundSeesTheStatusThatWasSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    int
	}{
		"nothing written": {func(http.ResponseWriter, *http.Request) {}, 200},
		"a body alone":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x"); w.WriteHeader(500) }, 200},
		"a copied body alone": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, strings.NewReader("x"))
			w.WriteHeader(500)
		}, 200},
		"a flush alone": {func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			w.WriteHeader(500)
		}, 200},
		"the first of two":            {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); w.WriteHeader(200) }, 404},
		"after an informational one":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(404) }, 404},
		"a panic after the response":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); panic(http.ErrAbortHandler) }, 500},
		"a panic before the response": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 500},
	} {
		var got int
		refund := func(r *http.Request, status int) bool {
			if _, ok := nethttplimit.ResultFrom(r); !ok {
				t.Errorf("%s: Refund does not see the result", name)
			}
			got = status
			return false
		}
		limited := nethttplimit.New(newLimiter(t, ratelimit.PerHour(5)), nethttplimit.Config{Refund: refund})(c.handler)
		serveQuietly(limited, httptest.NewRequest(http.MethodGet, "/", nil))
		if got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// copier is a writer that copies bodies itself, as a connection's does.
type copier struct{ *httptest.ResponseRecorder }

func (c copier) ReadFrom(src io.Reader) (int64, error) { return io.Copy(c.ResponseRecorder, src) }

func TestRefundSeesTheStatusOfABodyCopiedByTheWriter(t *testing.T) {
	t.Parallel()
	var got int
	refund := func(_ *http.Request, status int) bool { got = status; return false }
	limited := nethttplimit.New(newLimiter(t, ratelimit.PerHour(5)), nethttplimit.Config{Refund: refund})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("x"))
		w.WriteHeader(http.StatusInternalServerError)
	}))
	limited.ServeHTTP(copier{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/", nil))
	if got != http.StatusOK {
		t.Errorf("%d, want 200", got)
	}
}

// serveQuietly serves r, and recovers as a server does. Its writer ignores a
// second status without a word.
func serveQuietly(h http.Handler, r *http.Request) {
	defer func() { _ = recover() }()
	h.ServeHTTP(httptest.NewRecorder(), r)
}

// takenOver is a writer whose connection can be hijacked.
type takenOver struct{ *httptest.ResponseRecorder }

func (takenOver) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

func TestAHijackedConnectionIsNeverRefunded(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(){"returns": func() {}, "panics": func() { panic(http.ErrAbortHandler) }} {
		asked := false
		config := nethttplimit.Config{Refund: func(*http.Request, int) bool { asked = true; return true }}
		limited := nethttplimit.New(newLimiter(t, ratelimit.PerHour(5)), config)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if _, _, err := http.NewResponseController(w).Hijack(); err != nil {
				t.Error(err)
			}
			then()
		}))
		func() {
			defer func() { _ = recover() }()
			limited.ServeHTTP(takenOver{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/", nil))
		}()
		if asked {
			t.Errorf("a handler that hijacks and %s: Refund was asked", name)
		}
	}
}

func TestARequestWhoseContextHasEndedIsNotAnswered(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	limited := nethttplimit.New(newLimiter(t, ratelimit.PerHour(5)))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the handler has run")
	}))
	limited.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
	if w.Body.Len() != 0 || len(w.Header()) != 0 {
		t.Errorf("answered: %v %q", w.Header(), w.Body)
	}
}

func TestARequestThatIsCancelledOnTheServersSideDoesNotLookServed(t *testing.T) {
	t.Parallel()
	limiter, err := ratelimit.New(memstore.New(), "api", ratelimit.PerHour(9))
	if err != nil {
		t.Fatal(err)
	}
	ran := false
	limited := nethttplimit.New(limiter)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	limited.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/pay", nil).WithContext(ctx))
	if ran || w.Code != http.StatusServiceUnavailable || w.Body.Len() != 0 {
		t.Errorf("handler ran: %v, status %d, body %q; want 503 and no body", ran, w.Code, w.Body)
	}
}
