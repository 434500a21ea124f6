// Command nethttp is a small service on net/http whose clients are limited.
//
// Its twins in gin, echo, chi and fiber do the same, so that they can be read
// side by side. What they share is in examples/internal/service.
package main

import (
	"fmt"
	"io"
	"net/http"
	"time"

	nethttplimit "github.com/atomicbucket/ratelimit/adapters/nethttp"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/examples/internal/service"
)

func main() { service.Main("nethttp", newServer) }

func newServer(e *service.Env) (service.Server, error) {
	l, err := newLimits(e)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", l.perCall(http.HandlerFunc(hello))) // HEAD too
	mux.Handle("GET /search", l.perSearch(http.HandlerFunc(search)))
	mux.Handle("POST /login", l.perFailure(http.HandlerFunc(login)))
	mux.Handle("GET /stream", l.perCall(http.HandlerFunc(stream)))
	mux.HandleFunc("GET /healthz", healthz) // has no limit
	return &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, nil
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
	address := nethttplimit.By(httplimit.ClientIP(e.Trusted...))
	client := httplimit.FirstOf(apiKey(e), address)
	return limits{
		perCall: nethttplimit.New(api, nethttplimit.Config{Key: client, Headers: headers}),
		// A search is worth five other calls, of the same bucket.
		perSearch: nethttplimit.New(api, nethttplimit.Config{
			Key:     client,
			Headers: headers,
			Cost:    func(*http.Request) int { return 5 },
		}),
		// A success is given back, so only failures count: those answered with 400
		// and above. After five, nobody at that address gets in, whatever the
		// password, until a token is back; one comes every 12 s.
		perFailure: nethttplimit.New(attempts, nethttplimit.Config{
			Key:     address,
			Headers: headers,
			Refund:  func(_ *http.Request, status int) bool { return status < 400 },
		}),
	}, nil
}

// apiKey is the key of a client that is known by its X-API-Key. A key that is
// not known says nothing about who sent it, so such a client has none.
func apiKey(e *service.Env) httplimit.Key[*http.Request] {
	hashed := nethttplimit.By(httplimit.Header("X-Api-Key"))
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
