// Command echo is a small service on echo whose clients are limited.
//
// Its twins on net/http and in gin, chi and fiber do the same, so that they can
// be read side by side. What they share is in examples/internal/service.
package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	echolimit "github.com/atomicbucket/ratelimit/adapters/echo"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/examples/internal/service"
)

func main() { service.Main("echo", newServer) }

func newServer(e *service.Env) (service.Server, error) {
	l, err := newLimits(e)
	if err != nil {
		return nil, err
	}
	r := echo.New()
	r.GET("/", hello, l.perCall)
	r.HEAD("/", hello, l.perCall)
	r.GET("/search", search, l.perSearch)
	r.POST("/login", login, l.perFailure)
	r.GET("/stream", stream, l.perCall)
	r.GET("/healthz", healthz) // has no limit
	return &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second}, nil
}

// limits are the middlewares that the routes choose from.
type limits struct {
	perCall, perSearch, perFailure echo.MiddlewareFunc
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
	address := echolimit.By(httplimit.ClientIP(e.Trusted...))
	client := httplimit.FirstOf(apiKey(e), address)
	return limits{
		perCall: echolimit.New(api, echolimit.Config{Key: client, Headers: headers}),
		// A search is worth five other calls, of the same bucket.
		perSearch: echolimit.New(api, echolimit.Config{
			Key:     client,
			Headers: headers,
			Cost:    func(echo.Context) int { return 5 },
		}),
		// A success is given back, so only failures count: those answered with 400
		// and above. After five, nobody at that address gets in, whatever the
		// password, until a token is back; one comes every 12 s.
		perFailure: echolimit.New(attempts, echolimit.Config{
			Key:     address,
			Headers: headers,
			Refund:  func(_ echo.Context, status int) bool { return status < 400 },
		}),
	}, nil
}

// apiKey is the key of a client that is known by its X-API-Key. A key that is
// not known says nothing about who sent it, so such a client has none.
func apiKey(e *service.Env) httplimit.Key[echo.Context] {
	hashed := echolimit.By(httplimit.Header("X-Api-Key"))
	return func(c echo.Context) (string, error) {
		if !e.Known(c.Request().Header.Get("X-Api-Key")) {
			return "", nil
		}
		return hashed(c)
	}
}

func hello(c echo.Context) error { return c.String(http.StatusOK, "hello") }

func search(c echo.Context) error { return c.String(http.StatusOK, "found") }

func healthz(c echo.Context) error { return c.String(http.StatusOK, "healthy") }

func login(c echo.Context) error {
	if c.Request().Header.Get("X-Password") != "right" {
		return echo.NewHTTPError(http.StatusUnauthorized, "wrong password")
	}
	return c.String(http.StatusOK, "ok")
}

// stream sends five server-sent events, one every half second: the time.
func stream(c echo.Context) error {
	out := c.Response()
	out.Header().Set("Content-Type", "text/event-stream")
	for range 5 {
		if _, err := fmt.Fprintf(out, "data: %s\n\n", time.Now().Format(time.RFC3339Nano)); err != nil {
			return err
		}
		out.Flush()
		select {
		case <-c.Request().Context().Done():
			return nil
		case <-time.After(500 * time.Millisecond):
		}
	}
	return nil
}
