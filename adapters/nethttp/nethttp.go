package nethttplimit

import (
	"context"
	"net/http"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

// Config is [httplimit.Config] for net/http. The package comment lists its
// fields.
type Config = httplimit.Config[*http.Request, http.HandlerFunc]

// New returns a middleware that limits requests by limiter. There is at most one
// config.
//
// It panics on what cannot work, such as a nil limiter without Config.Limiter,
// with a sentence that says what to change.
func New(limiter *ratelimit.Limiter, configs ...Config) func(http.Handler) http.Handler {
	limit := httplimit.New(limiter, httplimit.FromHTTP, configs...)
	return func(next http.Handler) http.Handler {
		return &handler{limit: limit, next: next}
	}
}

// By lifts a neutral key, such as [httplimit.ClientIP], to net/http.
func By(key httplimit.Key[httplimit.Request]) httplimit.Key[*http.Request] {
	return httplimit.Lift(key, httplimit.FromHTTP)
}

// ResultFrom returns what the innermost limiter that r has passed has decided.
// ok is false if none has, because the request was skipped or free.
func ResultFrom(r *http.Request) (res ratelimit.Result, ok bool) {
	ctx, ok := r.Context().Value(resultKey{}).(*resultContext)
	if !ok {
		return ratelimit.Result{}, false
	}
	return ctx.result, true
}

type handler struct {
	limit *httplimit.Middleware[*http.Request, http.HandlerFunc]
	next  http.Handler
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o := h.limit.Decide(r, w.Header())
	switch o.Verdict {
	case httplimit.Drop:
		w.WriteHeader(http.StatusServiceUnavailable)
	case httplimit.Refuse:
		h.refuse(w, r, o)
	default:
		h.pass(w, r, o)
	}
}

func (h *handler) refuse(w http.ResponseWriter, r *http.Request, o httplimit.Outcome) {
	if answer, ok := h.limit.Handler(o); ok {
		answer(w, withResult(r, o))
		return
	}
	o.Answer.Send(w)
}

func (h *handler) pass(w http.ResponseWriter, r *http.Request, o httplimit.Outcome) {
	inner := withResult(r, o)
	if inner != r {
		// A ServeMux further in leaves its pattern in the copy.
		defer func() { r.Pattern = inner.Pattern }()
	}
	if !o.Refundable {
		h.next.ServeHTTP(w, inner)
		return
	}
	h.passRefundable(w, inner, o)
}

func (h *handler) passRefundable(w http.ResponseWriter, r *http.Request, o httplimit.Outcome) {
	var s status
	panicked := true
	defer func() { h.limit.Settle(r, o, s.final(panicked)) }()
	h.next.ServeHTTP(s.capture(w), r)
	panicked = false
}

type resultKey struct{}

// resultContext carries the result of a limiter. A type of its own takes one
// allocation, where context.WithValue takes two.
type resultContext struct {
	context.Context
	result ratelimit.Result
}

// Value implements context.Context.
func (c *resultContext) Value(key any) any {
	if key == (resultKey{}) {
		return c
	}
	return c.Context.Value(key)
}

func withResult(r *http.Request, o httplimit.Outcome) *http.Request {
	if !o.Decided() {
		return r
	}
	return r.WithContext(&resultContext{Context: r.Context(), result: o.Result})
}
