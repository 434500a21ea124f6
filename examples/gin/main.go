// Command gin is a small service on gin whose clients are limited.
//
// Its twins on net/http and in echo, chi and fiber do the same, so that they can
// be read side by side. What they share is in examples/internal/service.
package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	ginlimit "github.com/atomicbucket/ratelimit/adapters/gin"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/examples/internal/service"
)

func main() { service.Main("gin", newServer) }

func newServer(e *service.Env) (service.Server, error) {
	l, err := newLimits(e)
	if err != nil {
		return nil, err
	}
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.GET("/", l.perCall, hello)
	r.HEAD("/", l.perCall, hello)
	r.GET("/search", l.perSearch, search)
	r.POST("/login", l.perFailure, login)
	r.GET("/stream", l.perCall, stream)
	r.GET("/healthz", healthz) // has no limit
	return &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second}, nil
}

// limits are the middlewares that the routes choose from.
type limits struct {
	perCall, perSearch, perFailure gin.HandlerFunc
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
	address := ginlimit.By(httplimit.ClientIP(e.Trusted...))
	client := httplimit.FirstOf(apiKey(e), address)
	return limits{
		perCall: ginlimit.New(api, ginlimit.Config{Key: client, Headers: headers}),
		// A search is worth five other calls, of the same bucket.
		perSearch: ginlimit.New(api, ginlimit.Config{
			Key:     client,
			Headers: headers,
			Cost:    func(*gin.Context) int { return 5 },
		}),
		// A success is given back, so only failures count: those answered with 400
		// and above. After five, nobody at that address gets in, whatever the
		// password, until a token is back; one comes every 12 s.
		perFailure: ginlimit.New(attempts, ginlimit.Config{
			Key:     address,
			Headers: headers,
			Refund:  func(_ *gin.Context, status int) bool { return status < 400 },
		}),
	}, nil
}

// apiKey is the key of a client that is known by its X-API-Key. A key that is
// not known says nothing about who sent it, so such a client has none.
func apiKey(e *service.Env) httplimit.Key[*gin.Context] {
	hashed := ginlimit.By(httplimit.Header("X-Api-Key"))
	return func(c *gin.Context) (string, error) {
		if !e.Known(c.GetHeader("X-Api-Key")) {
			return "", nil
		}
		return hashed(c)
	}
}

func hello(c *gin.Context) { c.String(http.StatusOK, "hello") }

func search(c *gin.Context) { c.String(http.StatusOK, "found") }

func healthz(c *gin.Context) { c.String(http.StatusOK, "healthy") }

func login(c *gin.Context) {
	if c.GetHeader("X-Password") != "right" {
		c.String(http.StatusUnauthorized, "wrong password")
		return
	}
	c.String(http.StatusOK, "ok")
}

// stream sends five server-sent events, one every half second: the time.
func stream(c *gin.Context) {
	c.Header("Content-Type", "text/event-stream")
	for range 5 {
		if _, err := fmt.Fprintf(c.Writer, "data: %s\n\n", time.Now().Format(time.RFC3339Nano)); err != nil {
			return
		}
		c.Writer.Flush()
		select {
		case <-c.Request.Context().Done():
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}
