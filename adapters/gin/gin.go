package ginlimit

import (
	"net/http"

	"github.com/gin-gonic/gin"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

// Config is [httplimit.Config] for gin. The package comment lists its fields.
type Config = httplimit.Config[*gin.Context, gin.HandlerFunc]

// New returns a middleware that limits requests by limiter. There is at most one
// config.
//
// It panics on what cannot work, such as a nil limiter without Config.Limiter,
// with a sentence that says what to change.
func New(limiter *ratelimit.Limiter, configs ...Config) gin.HandlerFunc {
	h := &handler{limit: httplimit.New(limiter, request, configs...)}
	return h.serve
}

// By lifts a neutral key, such as [httplimit.ClientIP], to gin.
func By(key httplimit.Key[httplimit.Request]) httplimit.Key[*gin.Context] {
	return httplimit.Lift(key, request)
}

// ResultFrom returns what the innermost limiter that c has passed has decided.
// ok is false if none has, because the request was skipped or free. A middleware
// further out may ask once c.Next has returned.
func ResultFrom(c *gin.Context) (res ratelimit.Result, ok bool) {
	value, _ := c.Get(resultKey{})
	res, ok = value.(ratelimit.Result)
	return res, ok
}

type resultKey struct{}

// request is what a neutral key sees: the peer as net/http knows it, and the
// pattern as gin does.
func request(c *gin.Context) httplimit.Request {
	r := httplimit.FromHTTP(c.Request)
	r.Route = c.FullPath()
	return r
}

type handler struct {
	limit *httplimit.Middleware[*gin.Context, gin.HandlerFunc]
}

func (h *handler) serve(c *gin.Context) {
	o := h.limit.Decide(c, c.Writer.Header())
	if o.Decided() {
		c.Set(resultKey{}, o.Result)
	}
	switch {
	case o.Verdict == httplimit.Drop:
		c.AbortWithStatus(http.StatusServiceUnavailable)
	case o.Verdict == httplimit.Refuse:
		h.refuse(c, o)
	case o.Refundable:
		h.passRefundable(c, o)
	default: // gin runs the next handler when this one returns
	}
}

// refuse aborts first: an answer that calls c.Next runs nothing then.
func (h *handler) refuse(c *gin.Context, o httplimit.Outcome) {
	c.Abort()
	if answer, ok := h.limit.Handler(o); ok {
		answer(c)
		return
	}
	o.Answer.Send(c.Writer)
	c.Writer.WriteHeaderNow() // after HEAD too, so that nobody adds a body
}

func (h *handler) passRefundable(c *gin.Context, o httplimit.Outcome) {
	s := capture(c)
	panicked := true
	defer func() { h.limit.Settle(c, o, s.final(c, panicked)) }()
	c.Next()
	panicked = false
}
