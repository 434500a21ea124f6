package chilimit

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	nethttplimit "github.com/atomicbucket/ratelimit/adapters/nethttp"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

// Config is [httplimit.Config] for chi, and the same type as that of
// nethttplimit. The package comment lists its fields.
type Config = httplimit.Config[*http.Request, http.HandlerFunc]

// New returns a middleware that limits requests by limiter. There is at most one
// config.
//
// It panics on what cannot work, such as a nil limiter without Config.Limiter,
// with a sentence that says what to change.
func New(limiter *ratelimit.Limiter, configs ...Config) func(http.Handler) http.Handler {
	return nethttplimit.New(limiter, configs...)
}

// By lifts a neutral key, such as [httplimit.ClientIP], to chi.
func By(key httplimit.Key[httplimit.Request]) httplimit.Key[*http.Request] {
	return httplimit.Lift(key, request)
}

// ResultFrom returns what the innermost limiter that r has passed has decided.
// ok is false if none has, because the request was skipped or free.
func ResultFrom(r *http.Request) (res ratelimit.Result, ok bool) {
	return nethttplimit.ResultFrom(r)
}

func request(r *http.Request) httplimit.Request {
	req := httplimit.FromHTTP(r)
	if routing := chi.RouteContext(r.Context()); routing != nil {
		req.Route = route(r, routing)
	}
	return req
}
