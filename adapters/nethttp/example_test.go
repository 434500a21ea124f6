package nethttplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	nethttplimit "github.com/atomicbucket/ratelimit/adapters/nethttp"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }

// Each address of a TCP peer may make two requests per hour.
func Example() {
	limiter, err := ratelimit.New(memstore.New(), "api", ratelimit.PerHour(2))
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", hello)
	limited := nethttplimit.New(limiter)(mux)

	for range 3 {
		w := httptest.NewRecorder()
		limited.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 200 1
	// 200 0
	// 429 0
}

// Behind proxies, by the address that they report, and for each route of its
// own; health checks pass.
func ExampleNew() {
	limiter, err := ratelimit.New(memstore.New(), "api", ratelimit.PerSecond(10).WithBurst(20))
	if err != nil {
		panic(err)
	}
	trusted, err := httplimit.ParseTrusted("192.0.2.0/24")
	if err != nil {
		panic(err)
	}
	limited := nethttplimit.New(limiter, nethttplimit.Config{
		Key:     nethttplimit.By(httplimit.Join(httplimit.ClientIP(trusted...), httplimit.Route)),
		Skip:    httplimit.When(nethttplimit.By, httplimit.Path("/healthz")),
		Headers: httplimit.XRateLimit | httplimit.IETFDraft11,
	})
	mux := http.NewServeMux()
	mux.Handle("GET /items/{id}", limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		res, _ := nethttplimit.ResultFrom(r)
		fmt.Println(res.Key)
	})))

	r := httptest.NewRequest(http.MethodGet, "/items/7", nil)
	r.Header.Set("X-Forwarded-For", "203.0.113.7")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	fmt.Println(w.Header().Get("RateLimit"))
	// Output:
	// k:203.0.113.7|GET /items/{id}
	// "api";r=19;t=2
}

// Attempts at a password: successes are given back, so only failures count. This
// takes a handler that answers failures with 400 and above; one that redirects,
// or shows the form again with 200, would get them back too. Once the tokens are
// used up nobody gets in, whatever the password, until one is back.
func ExampleConfig_refund() {
	limiter, err := ratelimit.New(memstore.New(), "login", ratelimit.PerHour(1), ratelimit.FailClosed())
	if err != nil {
		panic(err)
	}
	limited := nethttplimit.New(limiter, nethttplimit.Config{
		Refund: func(_ *http.Request, status int) bool { return status < 400 },
	})
	login := limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))

	for _, password := range []string{"right", "right", "wrong", "right"} {
		r := httptest.NewRequest(http.MethodPost, "/login", nil)
		r.Header.Set("X-Password", password)
		w := httptest.NewRecorder()
		login.ServeHTTP(w, r)
		fmt.Println(password, w.Code)
	}
	// Output:
	// right 200
	// right 200
	// wrong 401
	// right 429
}
