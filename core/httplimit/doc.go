// Package httplimit is the HTTP policy of the rate limiter: which key a request
// has, what its response says about the limit, and how a denial is answered.
// It is the same for every framework. The adapters (nethttplimit, ginlimit,
// echolimit, chilimit, fiberlimit) only translate between it and theirs.
//
//	mux.Handle("/", nethttplimit.New(limiter)(handler))
//	router.Use(ginlimit.New(limiter, ginlimit.Config{
//		Key: ginlimit.By(httplimit.ClientIP(trusted...)),
//	}))
//
// # Without any configuration
//
// Each address of a TCP peer has a bucket of its own, an IPv6 address together
// with the rest of its /64. Behind a proxy or load balancer that is the proxy's
// address, so that all clients share one bucket, until Config.Key names the
// prefixes of the proxies, which [ParseTrusted] reads:
//
//	Key: ginlimit.By(httplimit.ClientIP(trusted...))
//
// Requests over a unix socket have no address, and share one bucket too; see
// ClientAddress.UnixSocket. No header of a request is believed.
//
// An admitted response carries X-RateLimit-Limit, -Remaining and -Reset. A denied
// request is answered 429 with an exact Retry-After; one that nobody could decide
// on, by a limiter that fails closed, 503.
//
// [Config] changes each of these.
//
// # Keys
//
// A [Key] says whose bucket a request spends from. [ClientIP], [Header] and
// [Route] know no framework; the function By of each adapter lifts them to its
// own context. [FirstOf] and [Join] combine keys of either kind. In the store a
// key carries a tag, so that what Config.Key returns never meets an address:
//
//	k:...   what Config.Key has returned
//	a:...   the address of the peer, because there was no key
//	*       shared by requests that have neither
//
// A header names an identity only after something has verified it. A key taken
// from an unverified header limits nobody: each new random value is a new
// bucket. Look the API key up, or check the token, and take the address when
// that fails.
//
// # Browsers
//
// A script in a browser reads none of these headers, Retry-After included,
// unless Access-Control-Expose-Headers lists them. Put the CORS middleware
// outside the limiter, so that its headers are on denials too.
//
// # Writing an adapter
//
// An adapter makes a [Middleware] with [New], and for each request calls
// [Middleware.Decide], keeps the Result for its ResultFrom, and does what the
// [Outcome] says. The suite in adaptertest checks that it does. See Middleware
// for the calls in order.
package httplimit
