// Package fiberlimit limits requests in fiber.
//
//	app.Use(fiberlimit.New(limiter))
//	app.Get("/items/:id", items)
//
// By default each address of a TCP peer has a bucket of its own. Behind a proxy
// or load balancer that is the proxy's address, so that all clients share one
// bucket. A [Config] changes that; New takes none or one. Here its Key names the
// prefixes of the proxies, trusted, which [httplimit.ParseTrusted] reads:
//
//	fiberlimit.New(limiter, fiberlimit.Config{
//		Key:    fiberlimit.By(httplimit.ClientIP(trusted...)),
//		Denied: func(c *fiber.Ctx) error { return c.Status(429).JSON(fiber.Map{"error": "slow down"}) },
//	})
//
// The fields of Config, which is [httplimit.Config]:
//
//	Key          func(*fiber.Ctx) (string, error)              whose bucket; default: the peer's address
//	Limiter      func(*fiber.Ctx) (*ratelimit.Limiter, error)  by plan or route; default: the one given to New
//	Cost         func(*fiber.Ctx) int                          tokens; default 1; 0 is free
//	Skip         func(*fiber.Ctx) bool                         admitted without a look; see httplimit.When
//	Denied       fiber.Handler                                 instead of the default 429
//	Unavailable  fiber.Handler                                 instead of the default 503
//	Refund       func(c *fiber.Ctx, status int) bool           give the tokens back
//	Headers      httplimit.Headers                             default httplimit.XRateLimit
//	RetryJitter  time.Duration                                 spreads clients that wait
//	Shadow       bool                                          decide, never enforce
//
// # Denials are errors
//
// A refused request gets its headers, and a [*fiber.Error] of 429 or 503 is
// returned, so that middleware further out sees it and the ErrorHandler of the
// app renders it. Its Message is one sentence, as in fiber's own errors. What
// Denied and Unavailable return is handed on as it is.
//
// # What fiber leaves to its users
//
// The strings that fiber hands out change once the request is over, because
// fasthttp uses their memory again. Whatever is kept here is a copy: Key may
// return c.Get("X-User") as it is, and a Result may be kept.
//
// c.IP believes what anyone sends in Config.ProxyHeader, and reads its first line
// only. It is not used here: the address is the TCP peer's, or what
// [httplimit.ClientIP] finds in all lines, in apps with DisableHeaderNormalizing
// too.
//
// fiber does not tell when a client goes away: UserContext never ends by itself,
// so the store's own budget is what bounds a decision, and deadlines that you
// set there. If it was canceled, the answer is 503 and the handler does not run.
//
// An error that a handler returns is rendered after the limiter. For Refund, it
// counts as the code of the *fiber.Error in its chain, or 500, whatever the
// ErrorHandler makes of it. A stream counts as the status it begins with.
//
// The pattern is that of the handlers that a limiter was registered with, so
// httplimit.Route is "/items/:id" in app.Get("/items/:id", limited, items). In
// Use and Group fiber has matched no more than their prefix, so the pattern is
// that, and all routes below it count as one.
//
// The response is left as it is, with Refund too: fiber knows its status. Streams
// and taking the connection over work all the same.
package fiberlimit
