package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// Middleware decides on requests, for an adapter to carry out. An adapter makes
// one with [New] and, for each request, in this order:
//
//  1. calls Decide, which also sets the headers of the response;
//  2. if Outcome.Decided, keeps Outcome.Result where its ResultFrom finds it;
//  3. on [Drop], sets the status 503 and returns, without a body;
//  4. on [Refuse], runs the handler that Handler returns, or else sends
//     Outcome.Answer, and sees to it that the request goes no further;
//  5. on [Pass], runs the next handler; if Outcome.Refundable, within Run, or
//     calls Settle itself once the status is known.
//
// It is safe for concurrent use. The zero Middleware is not usable.
type Middleware[C, H any] struct {
	limiter *ratelimit.Limiter
	request func(C) Request
	config  Config[C, H]

	hasDenied, hasUnavailable bool

	name     string   // of limiter, "" if that is nil
	problems sync.Map // bodies of limiter's denials, by the limits that denied

	warnedShared atomic.Bool
	failures     notice
}

// New returns the Middleware of an adapter. request turns the framework's
// context into a Request; it is called several times for one request, so it
// should be cheap. There is at most one config.
//
// New panics on what cannot work, with a sentence that says what to change.
func New[C, H any](limiter *ratelimit.Limiter, request func(C) Request, configs ...Config[C, H]) *Middleware[C, H] {
	if len(configs) > 1 {
		panic(fmt.Sprintf("httplimit: New was given %d Configs: merge them into one", len(configs)))
	}
	m := &Middleware[C, H]{limiter: limiter, request: request}
	if len(configs) == 1 {
		m.config = configs[0]
	}
	if err := m.config.check(limiter); err != nil {
		panic(err.Error())
	}
	m.config.Headers = m.config.Headers.orDefault()
	m.hasDenied, m.hasUnavailable = isSet(m.config.Denied), isSet(m.config.Unavailable)
	if limiter != nil {
		m.name = limiter.Name()
	}
	return m
}

// Decide decides on the request of c and sets the response's headers in out.
func (m *Middleware[C, H]) Decide(c C, out ResponseHeader) Outcome {
	if m.config.Skip != nil && m.config.Skip(c) {
		return Outcome{}
	}
	cost := m.cost(c)
	if cost == 0 {
		return Outcome{}
	}
	req := m.request(c)
	limiter, key, err := m.bucket(c, req)
	if err != nil {
		return m.unavailable(req, Outcome{}, err, out)
	}
	res, err := limiter.AllowN(req.context(), key, cost)
	o := Outcome{Result: res, limiter: limiter}
	switch {
	case m.config.Shadow && err == nil:
		return Outcome{Result: res}
	case errors.Is(err, ratelimit.ErrCostExceedsBurst):
		return m.tooCostly(req, o, out)
	case err != nil:
		return m.unavailable(req, o, err, out)
	case res.Allowed:
		return m.admit(o, out)
	default:
		return m.deny(req, o, out)
	}
}

func (m *Middleware[C, H]) cost(c C) int {
	if m.config.Cost == nil {
		return 1
	}
	return m.config.Cost(c)
}

func (m *Middleware[C, H]) admit(o Outcome, out ResponseHeader) Outcome {
	set := newHeaderSet()
	m.config.Headers.quota(set, &o.Result, out)
	set.writeTo(out)
	o.Refundable = m.config.Refund != nil && o.charged()
	return o
}

func (m *Middleware[C, H]) deny(req Request, o Outcome, out ResponseHeader) Outcome {
	o.Verdict = Refuse
	sent := o.Result // what the client is told, with the jitter
	m.jitter(&sent)
	set := newHeaderSet()
	m.config.Headers.quota(set, &sent, out)
	addRetryAfter(set, sent.RetryAfter, out)
	set.literal(cacheControl, noStore)
	set.writeTo(out)
	if !m.hasDenied {
		o.Answer = newAnswer(http.StatusTooManyRequests, deniedMessage, m.problemFor(&o.Result), req)
	}
	return o
}

// tooCostly denies a request that no waiting would help.
func (m *Middleware[C, H]) tooCostly(req Request, o Outcome, out ResponseHeader) Outcome {
	if m.config.Shadow {
		return Outcome{}
	}
	o.Verdict = Refuse
	out.Set(cacheControl, noStore)
	if !m.hasDenied {
		problem := deniedProblem(costMessage, o.limiter.Name())
		o.Answer = newAnswer(http.StatusTooManyRequests, costMessage, problem, req)
	}
	return o
}

// unavailable answers a request that nobody could decide on.
func (m *Middleware[C, H]) unavailable(req Request, o Outcome, cause error, out ResponseHeader) Outcome {
	gone := errors.Is(req.context().Err(), context.Canceled)
	if !gone && !errors.Is(cause, ratelimit.ErrUnavailable) { // the limiter logs its own
		m.failures.log(req.context(), "httplimit: a request could not be decided on", "limiter", m.name, "error", cause)
	}
	switch {
	case m.config.Shadow:
		return Outcome{Result: o.Result}
	case gone:
		return Outcome{Verdict: Drop}
	}
	o.Verdict, o.unavailable = Refuse, true
	set := newHeaderSet()
	addRetryAfter(set, m.retryAfter(cause), out)
	set.literal(cacheControl, noStore)
	set.writeTo(out)
	if !m.hasUnavailable {
		o.Answer = newAnswer(http.StatusServiceUnavailable, unavailableMessage, unavailableProblem, req)
	}
	return o
}

// Handler returns the Config's own handler for an Outcome whose Verdict is
// Refuse. ok is false if there is none, and the default answer is due.
func (m *Middleware[C, H]) Handler(o Outcome) (handler H, ok bool) {
	if o.unavailable {
		return m.config.Unavailable, m.hasUnavailable
	}
	return m.config.Denied, m.hasDenied
}
