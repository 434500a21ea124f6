package main

import (
	"net"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"
	"github.com/valyala/fasthttp"

	chilimit "github.com/atomicbucket/ratelimit/adapters/chi"
	echolimit "github.com/atomicbucket/ratelimit/adapters/echo"
	fiberlimit "github.com/atomicbucket/ratelimit/adapters/fiber"
	ginlimit "github.com/atomicbucket/ratelimit/adapters/gin"
	nethttplimit "github.com/atomicbucket/ratelimit/adapters/nethttp"
	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// site is a framework's application with one route, behind l unless that is nil.
type site struct {
	framework string
	limitedBy func(l *ratelimit.Limiter) server
}

// server serves the same request once more, and returns the status.
type server func() int

// sites are all frameworks that are measured.
var sites = []site{
	{"net/http", netHTTP},
	{"chi", chiRouter},
	{"gin", ginEngine},
	{"echo", echoApp},
	{"fiber", fiberApp},
}

func netHTTP(l *ratelimit.Limiter) server {
	if l == nil {
		return overHTTP(noContent)
	}
	return overHTTP(nethttplimit.New(l)(noContent))
}

func chiRouter(l *ratelimit.Limiter) server {
	r := chi.NewRouter()
	if l != nil {
		r.Use(chilimit.New(l))
	}
	r.Get("/", noContent)
	return overHTTP(r)
}

func ginEngine(l *ratelimit.Limiter) server {
	gin.SetMode(gin.ReleaseMode) // prints nothing
	r := gin.New()
	if l != nil {
		r.Use(ginlimit.New(l))
	}
	r.GET("/", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	return overHTTP(r)
}

func echoApp(l *ratelimit.Limiter) server {
	e := echo.New()
	if l != nil {
		e.Use(echolimit.New(l))
	}
	e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	return overHTTP(e)
}

func fiberApp(l *ratelimit.Limiter) server {
	app := fiber.New()
	if l != nil {
		app.Use(fiberlimit.New(l))
	}
	app.Get("/", func(c *fiber.Ctx) error { return c.SendStatus(http.StatusNoContent) })
	return overFastHTTP(app.Handler())
}

var noContent http.HandlerFunc = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// overHTTP serves by handler. The writer allocates nothing of its own.
func overHTTP(handler http.Handler) server {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept", acceptAll)
	w := &discard{header: make(http.Header)}
	return func() int {
		clear(w.header)
		handler.ServeHTTP(w, r)
		return w.status
	}
}

func overFastHTTP(handler fasthttp.RequestHandler) server {
	var c fasthttp.RequestCtx
	c.Init(&fasthttp.Request{}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1234}, nil)
	c.Request.SetRequestURI("/")
	c.Request.Header.Set("Accept", acceptAll)
	return func() int {
		c.Response.Reset()
		c.ResetUserValues()
		handler(&c)
		return c.Response.StatusCode()
	}
}

// acceptAll is what most clients send.
const acceptAll = "*/*"

// discard keeps nothing of an answer but its status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }
