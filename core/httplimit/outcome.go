package httplimit

import ratelimit "github.com/atomicbucket/ratelimit/core"

// Verdict is what an adapter does with a request.
type Verdict uint8

const (
	// Pass runs the next handler.
	Pass Verdict = iota
	// Refuse answers the request in the handler's place.
	Refuse
	// Drop does neither, because the request's context was cancelled: its client
	// has gone. Set the status 503, without a body: should the client be there
	// after all, because somebody else has cancelled, it must not take silence for
	// success.
	Drop
)

// Outcome is what a Middleware has decided on one request. The zero Outcome
// passes it.
type Outcome struct {
	// Verdict is what to do.
	Verdict Verdict
	// Result of the limiter, for the adapter's ResultFrom. See Decided.
	Result ratelimit.Result
	// Refundable is true on Pass if the call was charged and Config.Refund may
	// give it back: run the next handler within Run, or call Settle after it.
	Refundable bool
	// Answer is the default answer on Refuse, if Handler returns none.
	Answer Answer

	limiter     *ratelimit.Limiter // that has decided
	unavailable bool               // Refuse is a 503
}

// Decided reports whether a limiter has decided, by its store or its policy. A
// request that was skipped or free, or that met an error first, has no Result.
func (o Outcome) Decided() bool { return o.Result.Source != 0 }

// charged reports whether a store was charged.
func (o Outcome) charged() bool {
	return o.Result.Allowed && o.Result.Source != ratelimit.SourcePolicy && o.Result.Source != 0
}
