package httplimit

import (
	"errors"
	"fmt"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/internal/bucket"
)

// Headers are the quota headers that tell a client how it stands. Combine them
// with |. 0 means XRateLimit.
//
// None of them is sent when nobody knows how the client stands: the store did
// not decide and the limiter fails open, or the request was free, skipped or
// only shadowed. Retry-After is not a quota header: every denial has it.
//
// When the local store of FailLocal has decided, the burst and its window are
// those of the whole limit; the tokens left and the times are those of the share.
//
// When two limiters see one request, the IETF headers list both, and the
// X-RateLimit headers are those of the one with fewer tokens left.
type Headers uint8

const (
	// XRateLimit sends X-RateLimit-Limit (the burst), X-RateLimit-Remaining
	// (whole tokens left) and X-RateLimit-Reset (seconds until the bucket is
	// full, rounded up).
	XRateLimit Headers = 1 << iota
	// GitHub sends the same with X-RateLimit-Reset as GitHub does: the time at
	// which the bucket is full, in seconds since 1970, by this machine's clock.
	GitHub
	// IETFDraft11 sends RateLimit-Policy and RateLimit as in
	// draft-ietf-httpapi-ratelimit-headers-11, and as in all since -08:
	//
	//	RateLimit-Policy: "api";q=20;w=2
	//	RateLimit: "api";r=19;t=2
	//
	// q is the burst, w the seconds in which it refills, r the whole tokens left.
	// t is the seconds in which these r tokens refill, so that a client that
	// spends r in t keeps to the limit; if r is 0, the seconds until the next
	// token, or, by the local store of FailLocal, until the bucket is full; on a
	// denial, Retry-After. A limiter's further limits are listed as "api.1",
	// "api.2".
	IETFDraft11
	// NoHeaders sends no quota headers.
	NoHeaders
)

func (h Headers) check() error {
	switch {
	case h >= NoHeaders<<1:
		return fmt.Errorf("httplimit: Config.Headers is %d: combine the constants XRateLimit, GitHub, IETFDraft11 and NoHeaders", h)
	case h&NoHeaders != 0 && h != NoHeaders:
		return errors.New("httplimit: Config.Headers combines NoHeaders with others: choose one or the other")
	case h&XRateLimit != 0 && h&GitHub != 0:
		return errors.New("httplimit: Config.Headers combines XRateLimit with GitHub, which send X-RateLimit-Reset in different units: choose one")
	default:
		return nil
	}
}

// orDefault replaces the zero value.
func (h Headers) orDefault() Headers {
	if h == 0 {
		return XRateLimit
	}
	return h
}

// Names in the canonical form of net/http, which spares it the conversion. On
// the wire the case of a header's name means nothing.
const (
	xRateLimitLimit     = "X-Ratelimit-Limit"
	xRateLimitRemaining = "X-Ratelimit-Remaining"
	xRateLimitReset     = "X-Ratelimit-Reset"
	rateLimitPolicy     = "Ratelimit-Policy"
	rateLimit           = "Ratelimit"
	retryAfter          = "Retry-After"
	cacheControl        = "Cache-Control"
	noStore             = "no-store"
)

// quota adds the quota headers for res to those in out.
func (h Headers) quota(set *headerSet, res *ratelimit.Result, out ResponseHeader) {
	if res.Limit.Burst == 0 || h&NoHeaders != 0 { // a policy has decided, or nobody
		return
	}
	if h&(XRateLimit|GitHub) != 0 {
		h.addXRateLimit(set, res, out)
	}
	if h&IETFDraft11 != 0 {
		addIETF(set, res, out)
	}
}

// addXRateLimit leaves the headers of another limiter in place that has fewer
// tokens left.
func (h Headers) addXRateLimit(set *headerSet, res *ratelimit.Result, out ResponseHeader) {
	if other, ok := parseNumber(out.Get(xRateLimitRemaining)); ok && other <= int64(res.Remaining) {
		return
	}
	reset := ceilSeconds(res.ResetAfter)
	if h&GitHub != 0 {
		reset = ceilUnix(time.Now().Add(res.ResetAfter))
	}
	set.number(xRateLimitLimit, int64(res.Limit.Burst))
	set.number(xRateLimitRemaining, int64(res.Remaining))
	set.number(xRateLimitReset, reset)
}

// addIETF lists each limit of res after those of other limiters.
func addIETF(set *headerSet, res *ratelimit.Result, out ResponseHeader) {
	set.begin(rateLimitPolicy, out.Get(rateLimitPolicy))
	eachLimit(res, func(i int, l ratelimit.LimitResult) {
		set.item(res.Name, i)
		set.param(";q=", int64(l.Limit.Burst))
		set.param(";w=", max(ceilMicros(capacity(l.Limit)), 1))
	})
	set.end()
	set.begin(rateLimit, out.Get(rateLimit))
	eachLimit(res, func(i int, l ratelimit.LimitResult) {
		set.item(res.Name, i)
		set.param(";r=", int64(l.Remaining))
		set.param(";t=", window(l, res.Source))
	})
	set.end()
}

// eachLimit calls f with each limit of res and its place in the order given to
// ratelimit.New.
func eachLimit(res *ratelimit.Result, f func(i int, l ratelimit.LimitResult)) {
	if res.Limits == nil {
		f(0, ratelimit.LimitResult{
			Limit:      res.Limit,
			Remaining:  res.Remaining,
			RetryAfter: res.RetryAfter,
			ResetAfter: res.ResetAfter,
		})
	}
	for i, l := range res.Limits {
		f(i, l)
	}
}

// window is the seconds that t of the RateLimit header speaks of.
func window(l ratelimit.LimitResult, source ratelimit.Source) int64 {
	switch {
	case l.RetryAfter > 0:
		return retrySeconds(l.RetryAfter)
	case l.Remaining == 0 && source == ratelimit.SourceLocal:
		// A local token takes longer than the limit says; how much longer is not
		// known here, but no longer than all of them.
		return ceilSeconds(l.ResetAfter)
	}
	level := capacity(l.Limit) - l.ResetAfter.Microseconds() // time in which what is there now has refilled
	if l.Remaining == 0 {
		level = bucket.Interval(l.Limit.Tokens, l.Limit.Period) - level
	}
	return ceilMicros(level)
}

// capacity is the time to full of l's empty bucket in microseconds.
func capacity(l ratelimit.Limit) int64 {
	return int64(l.Burst) * bucket.Interval(l.Tokens, l.Period)
}

// addRetryAfter sets Retry-After, unless another limiter has told the client to
// wait longer.
func addRetryAfter(set *headerSet, wait time.Duration, out ResponseHeader) {
	seconds := retrySeconds(wait)
	if other, ok := parseNumber(out.Get(retryAfter)); ok && other >= seconds {
		return
	}
	set.number(retryAfter, seconds)
}

// retrySeconds is wait in whole seconds, rounded up, at least 1.
func retrySeconds(wait time.Duration) int64 { return max(ceilSeconds(wait), 1) }

func ceilSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
}

func ceilMicros(micros int64) int64 {
	return ceilSeconds(time.Duration(micros) * time.Microsecond)
}

func ceilUnix(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
