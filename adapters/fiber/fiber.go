package fiberlimit

import (
	"errors"

	"github.com/gofiber/fiber/v2"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

// Config is [httplimit.Config] for fiber. The package comment lists its fields.
type Config = httplimit.Config[*fiber.Ctx, fiber.Handler]

// New returns a middleware that limits requests by limiter. There is at most one
// config.
//
// It panics on what cannot work, such as a nil limiter without Config.Limiter,
// with a sentence that says what to change.
func New(limiter *ratelimit.Limiter, configs ...Config) fiber.Handler {
	h := &handler{limit: httplimit.New(limiter, request, configs...)}
	return h.serve
}

// By lifts a neutral key, such as [httplimit.ClientIP], to fiber.
func By(key httplimit.Key[httplimit.Request]) httplimit.Key[*fiber.Ctx] {
	return httplimit.Lift(key, request)
}

// ResultFrom returns what the innermost limiter that c has passed has decided.
// ok is false if none has, because the request was skipped or free. The result
// may be kept. A middleware further out, and the app's ErrorHandler, may ask once
// c.Next has returned.
func ResultFrom(c *fiber.Ctx) (res ratelimit.Result, ok bool) {
	kept, ok := c.Locals(resultKey{}).(*ratelimit.Result)
	if !ok {
		return ratelimit.Result{}, false
	}
	return *kept, true
}

type resultKey struct{}

type handler struct {
	limit *httplimit.Middleware[*fiber.Ctx, fiber.Handler]
}

func (h *handler) serve(c *fiber.Ctx) error {
	o := h.limit.Decide(c, responseHeader{c})
	if o.Decided() {
		result := o.Result
		c.Locals(resultKey{}, &result)
	}
	switch {
	case o.Verdict == httplimit.Drop:
		// The UserContext was canceled. That need not mean that the client has gone.
		return fiber.ErrServiceUnavailable
	case o.Verdict == httplimit.Refuse:
		return h.refuse(c, o)
	case o.Refundable:
		return h.passRefundable(c, o)
	default:
		return c.Next()
	}
}

func (h *handler) refuse(c *fiber.Ctx, o httplimit.Outcome) error {
	if answer, ok := h.limit.Handler(o); ok {
		return answer(c)
	}
	return fiber.NewError(o.Answer.Status, o.Answer.Message)
}

func (h *handler) passRefundable(c *fiber.Ctx, o httplimit.Outcome) (err error) {
	h.limit.Run(c, o, func() int {
		err = c.Next()
		return status(c, err)
	})
	return err
}

// status is what a handler that has returned err has answered, or will once the
// app's ErrorHandler has rendered err.
func status(c *fiber.Ctx, err error) int {
	var coded *fiber.Error
	switch {
	case c.Context().Hijacked():
		return fiber.StatusSwitchingProtocols
	case errors.As(err, &coded):
		return coded.Code
	case err != nil:
		return fiber.StatusInternalServerError
	default:
		return c.Response().StatusCode()
	}
}
