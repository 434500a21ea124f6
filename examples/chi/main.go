// Command chi is a small service on chi whose clients are limited.
//
// Its twins on net/http and in gin, echo and fiber do the same, so that they can
// be read side by side. What they share is in examples/internal/service.
package main

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	chilimit "github.com/atomicbucket/ratelimit/adapters/chi"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/examples/internal/service"
)

func main() { service.Main("chi", newServer) }

func newServer(e *service.Env) (service.Server, error) {
	l, err := newLimits(e)
	if err != nil {
		return nil, err
	}
	r := chi.NewRouter()
	r.With(l.perCall).Get("/", hello)
	r.With(l.perCall).Head("/", hello)
	r.With(l.perSearch).Get("/search", search)
	r.With(l.perFailure).Post("/login", login)
	r.With(l.perCall).Get("/stream", stream)
	r.Get("/healthz", healthz) // has no limit
	return &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second}, nil
}

// limits are the middlewares that the routes choose from.
type limits struct {
	perCall, perSearch, perFailure func(http.Handler) http.Handler
}

func newLimits(e *service.Env) (limits, error) {
	store, err := redisstore.New(e.Redis)
	if err != nil {
		return limits{}, err
	}
	api, err := ratelimit.New(store, "api", e.Limit)
	if err != nil {
		return limits{}, err
	}
	attempts, err := ratelimit.New(store, "login", ratelimit.PerMinute(5), ratelimit.FailClosed())
	if err != nil {
		return limits{}, err
	}

	const headers = httplimit.XRateLimit | httplimit.IETFDraft11
	address := chilimit.By(httplimit.ClientIP(e.Trusted...))
	client := httplimit.FirstOf(apiKey(e), address)
	return limits{
		perCall: chilimit.New(api, chilimit.Config{Key: client, Headers: headers}),
		// A search is worth five other calls, of the same bucket.
		perSearch: chilimit.New(api, chilimit.Config{
			Key:     client,
			Headers: headers,
			Cost:    func(*http.Request) int { return 5 },
		}),
		// A success is given back, so only failures count: those answered with 400
		// and above. After five, nobody at that address gets in, whatever the
		// password, until a token is back; one comes every 12 s.
		perFailure: chilimit.New(attempts, chilimit.Config{
			Key:     address,
			Headers: headers,
			Refund:  func(_ *http.Request, status int) bool { return status < 400 },
		}),
	}, nil
}

// apiKey is the key of a client that is known by its X-API-Key. A key that is
// not known says nothing about who sent it, so such a client has none.
func apiKey(e *service.Env) httplimit.Key[*http.Request] {
	hashed := chilimit.By(httplimit.Header("X-Api-Key"))
	return func(r *http.Request) (string, error) {
		if !e.Known(r.Header.Get("X-Api-Key")) {
			return "", nil
		}
		return hashed(r)
	}
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func search(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "found") }

func healthz(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "healthy") }

func login(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Password") != "right" {
		http.Error(w, "wrong password", http.StatusUnauthorized)
		return
	}
	_, _ = io.WriteString(w, "ok")
}

// stream sends five server-sent events, one every half second: the time.
func stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	for range 5 {
		if _, err := fmt.Fprintf(w, "data: %s\n\n", time.Now().Format(time.RFC3339Nano)); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}
