package echolimit

import (
	"net/http"

	"github.com/labstack/echo/v4"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

// Config is [httplimit.Config] for echo. The package comment lists its fields.
type Config = httplimit.Config[echo.Context, echo.HandlerFunc]

// New returns a middleware that limits requests by limiter. There is at most one
// config.
//
// It panics on what cannot work, such as a nil limiter without Config.Limiter,
// with a sentence that says what to change.
func New(limiter *ratelimit.Limiter, configs ...Config) echo.MiddlewareFunc {
	h := &handler{limit: httplimit.New(limiter, request, configs...)}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error { return h.serve(c, next) }
	}
}

// By lifts a neutral key, such as [httplimit.ClientIP], to echo.
func By(key httplimit.Key[httplimit.Request]) httplimit.Key[echo.Context] {
	return httplimit.Lift(key, request)
}

// ResultFrom returns what the innermost limiter that c has passed has decided.
// ok is false if none has, because the request was skipped or free. A middleware
// further out may ask once the next handler has returned, and so may the
// HTTPErrorHandler.
func ResultFrom(c echo.Context) (res ratelimit.Result, ok bool) {
	res, ok = c.Get(resultKey).(ratelimit.Result)
	return res, ok
}

// resultKey is under what the context keeps the result of a limiter.
const resultKey = "github.com/atomicbucket/ratelimit/adapters/echo"

// request is what a neutral key sees: the peer as net/http knows it, and the
// pattern as echo does.
func request(c echo.Context) httplimit.Request {
	r := httplimit.FromHTTP(c.Request())
	r.Route = c.Path()
	return r
}

type handler struct {
	limit *httplimit.Middleware[echo.Context, echo.HandlerFunc]
}

func (h *handler) serve(c echo.Context, next echo.HandlerFunc) error {
	o := h.limit.Decide(c, c.Response().Header())
	if o.Decided() {
		c.Set(resultKey, o.Result)
	}
	switch {
	case o.Verdict == httplimit.Drop:
		return c.NoContent(http.StatusServiceUnavailable)
	case o.Verdict == httplimit.Refuse:
		return h.refuse(c, o)
	case o.Refundable:
		return h.passRefundable(c, o, next)
	default:
		return next(c)
	}
}

func (h *handler) refuse(c echo.Context, o httplimit.Outcome) error {
	if answer, ok := h.limit.Handler(o); ok {
		return answer(c)
	}
	return refusal(o.Answer)
}

func (h *handler) passRefundable(c echo.Context, o httplimit.Outcome, next echo.HandlerFunc) (err error) {
	s := capture(c.Response())
	panicked := true
	defer func() { h.limit.Settle(c, o, s.final(err, panicked)) }()
	err = next(c)
	panicked = false
	return err
}
