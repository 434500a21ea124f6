package chilimit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"

	chilimit "github.com/atomicbucket/ratelimit/adapters/chi"
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

func TestRequestsWithoutARouteAreLimitedInUse(t *testing.T) {
	t.Parallel()
	r := chi.NewRouter()
	r.Use(chilimit.New(newLimiter(t, ratelimit.PerHour(2))))
	r.Get("/", ok)
	for i, want := range []int{404, 405, 429, 429} {
		w := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodGet, "/missing", nil)
		if i == 1 {
			request = httptest.NewRequest(http.MethodPost, "/", nil)
		}
		r.ServeHTTP(w, request)
		if w.Code != want {
			t.Errorf("request %d: status %d, want %d", i, w.Code, want)
		}
	}
}

func TestSubRoutersLimitWhatIsBelowThemAlone(t *testing.T) {
	t.Parallel()
	mounted := chi.NewRouter()
	mounted.Use(chilimit.New(newLimiter(t, ratelimit.PerHour(1))))
	mounted.Get("/", ok)
	r := chi.NewRouter()
	r.Get("/", ok)
	r.Mount("/sub", mounted)
	for _, c := range []struct {
		target string
		want   int
	}{{"/sub", 200}, {"/sub/", 429}, {"/sub/missing", 429}, {"/", 200}, {"/", 200}, {"/missing", 404}} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.target, nil))
		if w.Code != c.want {
			t.Errorf("%s: status %d, want %d", c.target, w.Code, c.want)
		}
	}
}

func TestTheInnermostResultIsThatOfTheInnerRouter(t *testing.T) {
	t.Parallel()
	r := chi.NewRouter()
	r.Use(chilimit.New(newLimiter(t, ratelimit.PerHour(100))))
	r.Route("/sub", func(r chi.Router) {
		r.Use(chilimit.New(newLimiter(t, ratelimit.PerHour(5))))
		r.Get("/", func(_ http.ResponseWriter, r *http.Request) {
			if res, ok := chilimit.ResultFrom(r); !ok || res.Limit.Burst != 5 {
				t.Errorf("result %+v, %v", res, ok)
			}
		})
	})
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/sub", nil))
	if got := w.Header().Get("X-RateLimit-Remaining"); got != "4" {
		t.Errorf("remaining %q, want 4", got)
	}
}

func TestWriterIsWrappedForRefundAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config  chilimit.Config
		wrapped bool
	}{{chilimit.Config{}, false}, {chilimit.Config{Refund: always}, true}} {
		w := httptest.NewRecorder()
		var inner http.ResponseWriter
		r := chi.NewRouter()
		r.Use(chilimit.New(newLimiter(t, ratelimit.PerHour(9)), c.config))
		r.Get("/", func(w http.ResponseWriter, _ *http.Request) { inner = w })
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if wrapped := inner != http.ResponseWriter(w); wrapped != c.wrapped {
			t.Errorf("%+v: wrapped %v, want %v", c.config, wrapped, c.wrapped)
		}
	}
}

func TestWriterKeepsItsOptionalMethods(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]chilimit.Config{"without Refund": {}, "with Refund": {Refund: always}} {
		r := chi.NewRouter()
		r.Use(chilimit.New(newLimiter(t, ratelimit.PerHour(9)), config))
		r.Get("/", func(w http.ResponseWriter, _ *http.Request) {
			if _, ok := w.(http.Flusher); !ok {
				t.Errorf("%s: no http.Flusher", name)
			}
			if _, ok := w.(http.Hijacker); !ok {
				t.Errorf("%s: no http.Hijacker", name)
			}
			if _, ok := w.(io.ReaderFrom); !ok {
				t.Errorf("%s: no io.ReaderFrom", name)
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Errorf("%s: Flush: %v", name, err)
			}
		})
		server := httptest.NewServer(r)
		res, err := server.Client().Get(server.URL)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %+v, %v", name, res, err)
		}
		_ = res.Body.Close()
		server.Close()
	}
}
