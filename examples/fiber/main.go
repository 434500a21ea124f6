// Command fiber is a small service on fiber whose clients are limited.
//
// Its twins on net/http and in gin, echo and chi do the same, so that they can
// be read side by side. What they share is in examples/internal/service.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/gofiber/fiber/v2"

	fiberlimit "github.com/atomicbucket/ratelimit/adapters/fiber"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/examples/internal/service"
)

func main() { service.Main("fiber", newServer) }

func newServer(e *service.Env) (service.Server, error) {
	l, err := newLimits(e)
	if err != nil {
		return nil, err
	}
	r := fiber.New(fiber.Config{DisableStartupMessage: true, ReadTimeout: 5 * time.Second})
	r.Get("/", l.perCall, hello) // HEAD too
	r.Get("/search", l.perSearch, search)
	r.Post("/login", l.perFailure, login)
	r.Get("/stream", l.perCall, stream)
	r.Get("/healthz", healthz) // has no limit
	return server{r}, nil
}

// server is an app with the methods of an http.Server.
type server struct{ app *fiber.App }

func (s server) Serve(l net.Listener) error { return s.app.Listener(l) }

func (s server) Shutdown(ctx context.Context) error { return s.app.ShutdownWithContext(ctx) }

// limits are the middlewares that the routes choose from.
type limits struct {
	perCall, perSearch, perFailure fiber.Handler
}

func newLimits(e *service.Env) (limits, error) {
	store, err := redisstore.New(e.Redis)
	if err != nil {
		return limits{}, err
	}
	api, err := ratelimit.New(store, "api", e.Limit)
	if err != nil {
		return limits{}, err
	}
	attempts, err := ratelimit.New(store, "login", ratelimit.PerMinute(5), ratelimit.FailClosed())
	if err != nil {
		return limits{}, err
	}

	const headers = httplimit.XRateLimit | httplimit.IETFDraft11
	address := fiberlimit.By(httplimit.ClientIP(e.Trusted...))
	client := httplimit.FirstOf(apiKey(e), address)
	return limits{
		perCall: fiberlimit.New(api, fiberlimit.Config{Key: client, Headers: headers}),
		// A search is worth five other calls, of the same bucket.
		perSearch: fiberlimit.New(api, fiberlimit.Config{
			Key:     client,
			Headers: headers,
			Cost:    func(*fiber.Ctx) int { return 5 },
		}),
		// A success is given back, so only failures count: those answered with 400
		// and above. After five, nobody at that address gets in, whatever the
		// password, until a token is back; one comes every 12 s.
		perFailure: fiberlimit.New(attempts, fiberlimit.Config{
			Key:     address,
			Headers: headers,
			Refund:  func(_ *fiber.Ctx, status int) bool { return status < 400 },
		}),
	}, nil
}

// apiKey is the key of a client that is known by its X-API-Key. A key that is
// not known says nothing about who sent it, so such a client has none.
func apiKey(e *service.Env) httplimit.Key[*fiber.Ctx] {
	hashed := fiberlimit.By(httplimit.Header("X-Api-Key"))
	return func(c *fiber.Ctx) (string, error) {
		if !e.Known(c.Get("X-Api-Key")) {
			return "", nil
		}
		return hashed(c)
	}
}

func hello(c *fiber.Ctx) error { return c.SendString("hello") }

func search(c *fiber.Ctx) error { return c.SendString("found") }

func healthz(c *fiber.Ctx) error { return c.SendString("healthy") }

func login(c *fiber.Ctx) error {
	if c.Get("X-Password") != "right" {
		return fiber.NewError(fiber.StatusUnauthorized, "wrong password")
	}
	return c.SendString("ok")
}

// stream sends five server-sent events, one every half second: the time.
func stream(c *fiber.Ctx) error {
	c.Set("Content-Type", "text/event-stream")
	c.Context().SetBodyStreamWriter(func(out *bufio.Writer) { // runs when the handler has returned
		for range 5 {
			if _, err := fmt.Fprintf(out, "data: %s\n\n", time.Now().Format(time.RFC3339Nano)); err != nil {
				return
			}
			if err := out.Flush(); err != nil {
				return // the client has gone
			}
			time.Sleep(500 * time.Millisecond)
		}
	})
	return nil
}
