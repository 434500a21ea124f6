// Package echolimit limits requests in echo.
//
//	e.Use(echolimit.New(limiter))
//	e.GET("/items/:id", items)
//
// By default each address of a TCP peer has a bucket of its own. Behind a proxy
// or load balancer that is the proxy's address, so that all clients share one
// bucket. A [Config] changes that; New takes none or one. Here its Key names the
// prefixes of the proxies, trusted, which [httplimit.ParseTrusted] reads:
//
//	echolimit.New(limiter, echolimit.Config{
//		Key:    echolimit.By(httplimit.ClientIP(trusted...)),
//		Denied: func(c echo.Context) error { return echo.NewHTTPError(429, "slow down") },
//	})
//
// The fields of Config, which is [httplimit.Config]:
//
//	Key          func(echo.Context) (string, error)              whose bucket; default: the peer's address
//	Limiter      func(echo.Context) (*ratelimit.Limiter, error)  by plan or route; default: the one given to New
//	Cost         func(echo.Context) int                          tokens; default 1; 0 is free
//	Skip         func(echo.Context) bool                         admitted without a look; see httplimit.When
//	Denied       echo.HandlerFunc                                instead of the default 429
//	Unavailable  echo.HandlerFunc                                instead of the default 503
//	Refund       func(c echo.Context, status int) bool           give the tokens back
//	Headers      httplimit.Headers                               default httplimit.XRateLimit
//	RetryJitter  time.Duration                                   spreads clients that wait
//	Shadow       bool                                            decide, never enforce
//
// # Denials are errors
//
// A refused request gets its headers, and an [*echo.HTTPError] of 429 or 503 is
// returned, so that middleware further out sees it and the HTTPErrorHandler of
// the app renders it. Its Message is one sentence, as in echo's own errors. Its
// Internal is another HTTPError of the same code, which echo's default handler
// renders in its place: a problem as in RFC 9457, under the content type of any
// JSON. What Denied and Unavailable return is handed on as it is.
//
// # What echo leaves to its users
//
// The default handler makes a 500 of every error that is not an *echo.HTTPError
// itself. Those of the limiter are never wrapped.
//
// c.RealIP believes whatever IPExtractor does. It is not used here: the address
// is the TCP peer's, or what [httplimit.ClientIP] finds.
//
// An error that a handler returns is rendered after the limiter. For Refund, it
// counts as the code of its HTTPError, or 500, unless a failure has been written
// already.
//
// The pattern is known in Use, in groups and at routes, so httplimit.Route works
// there. In Pre it is not, and requests fall back to the peer's address.
//
// The Response is left as it is, unless Refund is set, which needs to see what is
// written. Flushing, hijacking and [http.ResponseController] work all the same.
package echolimit
