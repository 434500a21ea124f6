package chilimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	chilimit "github.com/atomicbucket/ratelimit/adapters/chi"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

func ok(http.ResponseWriter, *http.Request) {}

type middlewares = func(http.Handler) http.Handler

// placements are routers with a limiter in each place that chi has for it. The
// routes below it are GET /v1/{tenant:[a-z]{2}}/items/{id} and GET /files/*.
var placements = map[string]func(limited middlewares) http.Handler{
	"Use": func(limited middlewares) http.Handler {
		r := chi.NewRouter()
		r.Use(limited)
		r.Get("/v1/{tenant:[a-z]{2}}/items/{id}", ok)
		r.Get("/files/*", ok)
		return r
	},
	"Use above Route": func(limited middlewares) http.Handler {
		r := chi.NewRouter()
		r.Use(limited)
		r.Route("/v1/{tenant:[a-z]{2}}", func(r chi.Router) { r.Get("/items/{id}", ok) })
		r.Get("/files/*", ok)
		return r
	},
	"Use above nested Mounts": func(limited middlewares) http.Handler {
		items, tenants, r := chi.NewRouter(), chi.NewRouter(), chi.NewRouter()
		r.Use(limited)
		items.Get("/{id}", ok)
		tenants.Mount("/{tenant:[a-z]{2}}/items", items)
		r.Mount("/v1", tenants)
		r.Get("/files/*", ok)
		return r
	},
	"Use in Route": func(limited middlewares) http.Handler {
		r := chi.NewRouter()
		r.Route("/v1/{tenant:[a-z]{2}}", func(r chi.Router) {
			r.Use(limited)
			r.Get("/items/{id}", ok)
		})
		r.Route("/files", func(r chi.Router) {
			r.Use(limited)
			r.Get("/*", ok)
		})
		return r
	},
	"Use in nested Routes": func(limited middlewares) http.Handler {
		r := chi.NewRouter()
		r.Route("/v1", func(r chi.Router) {
			r.Route("/{tenant:[a-z]{2}}", func(r chi.Router) {
				r.Route("/items", func(r chi.Router) {
					r.Use(limited)
					r.Get("/{id}", ok)
				})
			})
		})
		r.With(limited).Get("/files/*", ok)
		return r
	},
	"Use in a router mounted at the root": func(limited middlewares) http.Handler {
		inner, r := chi.NewRouter(), chi.NewRouter()
		inner.Use(limited)
		inner.Get("/v1/{tenant:[a-z]{2}}/items/{id}", ok)
		inner.Get("/files/*", ok)
		r.Mount("/", inner)
		return r
	},
	"With": func(limited middlewares) http.Handler {
		r := chi.NewRouter()
		r.With(limited).Get("/v1/{tenant:[a-z]{2}}/items/{id}", ok)
		r.With(limited).Get("/files/*", ok)
		return r
	},
	"With in Route": func(limited middlewares) http.Handler {
		r := chi.NewRouter()
		r.Route("/v1", func(r chi.Router) { r.With(limited).Get("/{tenant:[a-z]{2}}/items/{id}", ok) })
		r.Route("/files", func(r chi.Router) { r.With(limited).Get("/*", ok) })
		return r
	},
	"With above Route": func(limited middlewares) http.Handler {
		r := chi.NewRouter()
		r.With(limited).Route("/v1/{tenant:[a-z]{2}}", func(r chi.Router) { r.Get("/items/{id}", ok) })
		r.With(limited).Get("/files/*", ok)
		return r
	},
	"With above Route in Route": func(limited middlewares) http.Handler {
		r := chi.NewRouter()
		r.Route("/v1", func(r chi.Router) {
			r.With(limited).Route("/{tenant:[a-z]{2}}", func(r chi.Router) { r.Get("/items/{id}", ok) })
		})
		r.Route("/files", func(r chi.Router) { r.With(limited).Get("/*", ok) })
		return r
	},
	"Group": func(limited middlewares) http.Handler {
		r := chi.NewRouter()
		r.Get("/", ok)
		r.Group(func(r chi.Router) {
			r.Use(limited)
			r.Get("/v1/{tenant:[a-z]{2}}/items/{id}", ok)
			r.Get("/files/*", ok)
		})
		return r
	},
}

// routeKey serves the request and returns what httplimit.Route has returned for
// it.
func routeKey(t *testing.T, build func(middlewares) http.Handler, request *http.Request) string {
	t.Helper()
	key := "not limited"
	config := chilimit.Config{Key: func(r *http.Request) (string, error) {
		var err error
		key, err = chilimit.By(httplimit.Route)(r)
		return key, err
	}}
	build(chilimit.New(newLimiter(t, ratelimit.PerHour(9)), config)).ServeHTTP(httptest.NewRecorder(), request)
	return key
}

func TestRouteIsKnownWhereverTheLimiterStands(t *testing.T) {
	t.Parallel()
	for place, build := range placements {
		for target, want := range map[string]string{
			"/v1/ab/items/1":        "GET /v1/{tenant:[a-z]{2}}/items/{id}",
			"/v1/cd/items/2":        "GET /v1/{tenant:[a-z]{2}}/items/{id}",
			"/v1/ab/items/a%2Fb":    "GET /v1/{tenant:[a-z]{2}}/items/{id}",
			"/v1/ab/items/%7Bid%7D": "GET /v1/{tenant:[a-z]{2}}/items/{id}",
			"/files/a/b.txt":        "GET /files/*",
		} {
			if got := routeKey(t, build, httptest.NewRequest(http.MethodGet, target, nil)); got != want {
				t.Errorf("%s: %s: %q, want %q", place, target, got, want)
			}
		}
	}
}

// around puts a middleware of chi's outside of all that build does.
func around(outer middlewares, build func(middlewares) http.Handler) func(middlewares) http.Handler {
	return func(limited middlewares) http.Handler {
		r := chi.NewRouter()
		r.Use(outer)
		r.Mount("/", build(limited))
		return r
	}
}

func TestRouteIsThatOfTheRewrittenPath(t *testing.T) {
	t.Parallel()
	const want = "GET /v1/{tenant:[a-z]{2}}/items/{id}"
	for place, build := range placements {
		for target, outer := range map[string]middlewares{
			"/v1/ab/items/1/":     middleware.StripSlashes,
			"//v1/./ab//items/1/": middleware.CleanPath,
			"/v1/ab/items/1.json": middleware.URLFormat,
		} {
			if got := routeKey(t, around(outer, build), httptest.NewRequest(http.MethodGet, target, nil)); got != want {
				t.Errorf("%s: %s: %q, want %q", place, target, got, want)
			}
		}
	}
}

func TestRouteOfHEADIsThatOfGET(t *testing.T) {
	t.Parallel()
	const want = "GET /v1/{tenant:[a-z]{2}}/items/{id}"
	for place, build := range placements {
		if got := routeKey(t, around(middleware.GetHead, build), httptest.NewRequest(http.MethodHead, "/v1/ab/items/1", nil)); got != want {
			t.Errorf("GetHead outside: %s: %q, want %q", place, got, want)
		}
	}
	inside := func(limited middlewares) http.Handler {
		r := chi.NewRouter()
		r.Use(limited, middleware.GetHead)
		r.Get("/v1/{tenant:[a-z]{2}}/items/{id}", ok)
		return r
	}
	if got := routeKey(t, inside, httptest.NewRequest(http.MethodHead, "/v1/ab/items/1", nil)); got != want {
		t.Errorf("GetHead inside: %q, want %q", got, want)
	}
}

func TestRouteWithoutAMatchIsWhatChiHasMatchedSoFar(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ place, method, target, want string }{
		{"Use", http.MethodGet, "/missing", ""},
		{"Use", http.MethodPost, "/v1/ab/items/1", ""},
		{"Use", "BREW", "/v1/ab/items/1", ""},
		{"Use above Route", http.MethodGet, "/v1/ab/missing", ""},
		{"Use in Route", http.MethodGet, "/v1/ab/missing", "GET /v1/{tenant:[a-z]{2}}/*"},
		{"Use in Route", http.MethodPost, "/v1/ab/items/1", "POST /v1/{tenant:[a-z]{2}}/*"},
		{"Use in Route", http.MethodGet, "/missing", "not limited"},
		{"With", http.MethodGet, "/missing", "not limited"},
		{"Group", http.MethodGet, "/missing", "not limited"},
	} {
		if got := routeKey(t, placements[c.place], httptest.NewRequest(c.method, c.target, nil)); got != c.want {
			t.Errorf("%s: %s %s: %q, want %q", c.place, c.method, c.target, got, c.want)
		}
	}
}

func TestRouteOfAnEmptyWildcardIsThatOfAFullOne(t *testing.T) {
	t.Parallel()
	build := func(limited middlewares) http.Handler {
		r := chi.NewRouter()
		r.Route("/v1", func(r chi.Router) { r.With(limited).Get("/files/*", ok) })
		return r
	}
	for _, target := range []string{"/v1/files/", "/v1/files/a"} {
		if got := routeKey(t, build, httptest.NewRequest(http.MethodGet, target, nil)); got != "GET /v1/files/*" {
			t.Errorf("%s: %q", target, got)
		}
	}
}

func TestRouteIsThatOfTheMethodRoutedBy(t *testing.T) {
	t.Parallel()
	asGet := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			chi.RouteContext(r.Context()).RouteMethod = http.MethodGet
			next.ServeHTTP(w, r)
		})
	}
	for place, build := range placements {
		got := routeKey(t, around(asGet, build), httptest.NewRequest(http.MethodPost, "/v1/ab/items/1", nil))
		if want := "POST /v1/{tenant:[a-z]{2}}/items/{id}"; got != want {
			t.Errorf("%s: %q, want %q", place, got, want)
		}
	}
}

func TestRouteIsNoneInARoutingContextWithoutARouter(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/items/1", nil)
	r = r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, chi.NewRouteContext()))
	limitedAlone := func(limited middlewares) http.Handler { return limited(http.HandlerFunc(ok)) }
	if got := routeKey(t, limitedAlone, r); got != "" {
		t.Errorf("%q, want none", got)
	}
}

func TestRouteOutsideOfChiIsThatOfNetHTTP(t *testing.T) {
	t.Parallel()
	inServeMux := func(limited middlewares) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("GET /items/{id}", limited(http.HandlerFunc(ok)))
		return mux
	}
	aroundChi := func(limited middlewares) http.Handler {
		r := chi.NewRouter()
		r.Get("/items/{id}", ok)
		return limited(r)
	}
	if got := routeKey(t, inServeMux, httptest.NewRequest(http.MethodGet, "/items/1", nil)); got != "GET /items/{id}" {
		t.Errorf("in a ServeMux: %q", got)
	}
	if got := routeKey(t, aroundChi, httptest.NewRequest(http.MethodGet, "/items/1", nil)); got != "" {
		t.Errorf("around the router: %q, want none", got)
	}
}

func TestLookingAheadLeavesRoutingAsItWas(t *testing.T) {
	t.Parallel()
	r := chi.NewRouter()
	r.Use(chilimit.New(newLimiter(t, ratelimit.PerHour(9)), chilimit.Config{Key: chilimit.By(httplimit.Route)}))
	r.Route("/v1/{tenant}", func(r chi.Router) {
		r.Use(chilimit.New(newLimiter(t, ratelimit.PerHour(9)), chilimit.Config{Key: chilimit.By(httplimit.Route)}))
		r.Get("/items/{id}", func(w http.ResponseWriter, r *http.Request) {
			if tenant, id := chi.URLParam(r, "tenant"), chi.URLParam(r, "id"); tenant != "ab" || id != "7" || r.PathValue("id") != "7" {
				t.Errorf("parameters %q, %q", tenant, id)
			}
			if pattern := chi.RouteContext(r.Context()).RoutePattern(); pattern != "/v1/{tenant}/items/{id}" {
				t.Errorf("pattern %q", pattern)
			}
			w.WriteHeader(http.StatusTeapot)
		})
	})
	for method, want := range map[string]int{http.MethodGet: http.StatusTeapot, http.MethodPost: http.StatusMethodNotAllowed} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(method, "/v1/ab/items/7", nil))
		if w.Code != want {
			t.Errorf("%s: status %d, want %d", method, w.Code, want)
		}
	}
}
