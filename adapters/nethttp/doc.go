// Package nethttplimit limits requests in net/http.
//
//	limited := nethttplimit.New(limiter)
//	mux.Handle("GET /items/{id}", limited(items))
//
// By default each address of a TCP peer has a bucket of its own. Behind a proxy
// or load balancer that is the proxy's address, so that all clients share one
// bucket. A [Config] changes that; New takes none or one. Here its Key names the
// prefixes of the proxies, trusted, which [httplimit.ParseTrusted] reads:
//
//	nethttplimit.New(limiter, nethttplimit.Config{
//		Key:    nethttplimit.By(httplimit.ClientIP(trusted...)),
//		Denied: func(w http.ResponseWriter, r *http.Request) { http.Error(w, "slow down", 429) },
//	})
//
// The fields of Config, which is [httplimit.Config]:
//
//	Key          func(*http.Request) (string, error)              whose bucket; default: the peer's address
//	Limiter      func(*http.Request) (*ratelimit.Limiter, error)  by plan or route; default: the one given to New
//	Cost         func(*http.Request) int                          tokens; default 1; 0 is free
//	Skip         func(*http.Request) bool                         admitted without a look; see httplimit.When
//	Denied       http.HandlerFunc                                 instead of the default 429
//	Unavailable  http.HandlerFunc                                 instead of the default 503
//	Refund       func(r *http.Request, status int) bool           give the tokens back
//	Headers      httplimit.Headers                                default httplimit.XRateLimit
//	RetryJitter  time.Duration                                    spreads clients that wait
//	Shadow       bool                                             decide, never enforce
//
// # What net/http leaves to its users
//
// What a middleware further out writes to r.RemoteAddr is taken for the peer's
// address. Leave out those that believe the headers of anyone, and use
// [httplimit.ClientIP].
//
// For Refund, what counts is the first status that was written, or 200.
//
// The ServeMux fills in r.Pattern for the handlers it calls, so httplimit.Route
// works in a middleware around one handler, as above, and not in one around the
// whole mux, where requests fall back to the peer's address. Below a middleware
// around the mux, which hands on a copy of the request, r.Pattern would be lost
// to those further out, such as metrics; it is copied back.
//
// The ResponseWriter is handed on as it is, unless Refund is set, which needs to
// see the status. Flushing, hijacking and [http.ResponseController] work all the
// same, because it keeps its optional methods.
package nethttplimit
