// Package ginlimit limits requests in gin.
//
//	router.Use(ginlimit.New(limiter))
//	router.GET("/items/:id", items)
//
// By default each address of a TCP peer has a bucket of its own. Behind a proxy
// or load balancer that is the proxy's address, so that all clients share one
// bucket. A [Config] changes that; New takes none or one. Here its Key names the
// prefixes of the proxies, trusted, which [httplimit.ParseTrusted] reads:
//
//	ginlimit.New(limiter, ginlimit.Config{
//		Key:    ginlimit.By(httplimit.ClientIP(trusted...)),
//		Denied: func(c *gin.Context) { c.JSON(429, gin.H{"error": "slow down"}) },
//	})
//
// The fields of Config, which is [httplimit.Config]:
//
//	Key          func(*gin.Context) (string, error)              whose bucket; default: the peer's address
//	Limiter      func(*gin.Context) (*ratelimit.Limiter, error)  by plan or route; default: the one given to New
//	Cost         func(*gin.Context) int                          tokens; default 1; 0 is free
//	Skip         func(*gin.Context) bool                         admitted without a look; see httplimit.When
//	Denied       gin.HandlerFunc                                 instead of the default 429
//	Unavailable  gin.HandlerFunc                                 instead of the default 503
//	Refund       func(c *gin.Context, status int) bool           give the tokens back
//	Headers      httplimit.Headers                               default httplimit.XRateLimit
//	RetryJitter  time.Duration                                   spreads clients that wait
//	Shadow       bool                                            decide, never enforce
//
// # What gin leaves to its users
//
// A middleware that answers and does not abort lets the handler run all the
// same. The limiter aborts before it answers, so Denied and Unavailable need not.
//
// c.ClientIP believes X-Forwarded-For from everyone unless SetTrustedProxies was
// called. It is not used here: the address is the TCP peer's, or what
// [httplimit.ClientIP] finds.
//
// A *gin.Context never ends, unless ContextWithFallback is set. The decision runs
// on the context of c.Request, which ends when the client goes away.
//
// An error in c.Errors is rendered after the limiter, if at all. For Refund, one
// that was added behind the limiter counts as 500, unless the status is already
// that of a failure.
//
// The pattern is known wherever the limiter stands, so httplimit.Route works in
// Use, and is empty for requests that match no route.
//
// The ResponseWriter is handed on as it is, unless Refund is set, which needs to
// see whether the connection was taken over. Flushing, hijacking and
// [http.ResponseController] work all the same.
package ginlimit
