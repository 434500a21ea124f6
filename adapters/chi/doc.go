// Package chilimit limits requests in chi.
//
//	r.Use(chilimit.New(limiter))
//	r.Get("/items/{id}", items)
//
// By default each address of a TCP peer has a bucket of its own. Behind a proxy
// or load balancer that is the proxy's address, so that all clients share one
// bucket. A [Config] changes that; New takes none or one. Here its Key names the
// prefixes of the proxies, trusted, which [httplimit.ParseTrusted] reads:
//
//	chilimit.New(limiter, chilimit.Config{
//		Key:    chilimit.By(httplimit.ClientIP(trusted...)),
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
// # What chi leaves to its users
//
// Use of the outermost router also runs for requests that no route matches, so
// these are limited too. chi panics if Use comes after a route; With and Group
// may.
//
// chi's RealIP, and what other middlewares write to r.RemoteAddr, is taken for
// the peer's address. RealIP believes the headers of anyone: leave it out, and
// use [httplimit.ClientIP].
//
// For Refund, what counts is the first status that was written, or 200.
//
// chi routes after the middlewares of Use have run, so its RoutePattern is empty
// there, and "/v1/*" in Use of a sub-router. httplimit.Route works wherever the
// limiter stands, in Use, With, Group, Route and below Mount: it looks the route
// up as chi will. Where chi will find none, it is what chi has matched on the
// way, such as "/v1/*", and no key in Use of the outermost router or around it.
// A router that is mounted inside a plain http.Handler cannot be looked into.
//
// The ResponseWriter is handed on as it is, unless Refund is set, which needs to
// see the status. Flushing, hijacking and [http.ResponseController] work all the
// same, because it keeps its optional methods.
package chilimit
