package echolimit_test

import (
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	echolimit "github.com/atomicbucket/ratelimit/adapters/echo"
	"github.com/atomicbucket/ratelimit/core/httplimit/adaptertest"
)

type route = adaptertest.Route[echo.Context, echo.HandlerFunc]

func TestAdapter(t *testing.T) {
	adaptertest.Run(t, adaptertest.Adapter[echo.Context, echo.HandlerFunc]{
		Serve:         serve,
		Handler:       handler,
		By:            echolimit.By,
		ResultFrom:    echolimit.ResultFrom,
		Header:        func(c echo.Context, name string) string { return c.Request().Header.Get(name) },
		ReturnsErrors: true,
		RendersErrors: true,
	})
}

func serve(t testing.TB, l net.Listener, routes []route) {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(middleware.Recover())
	for _, r := range routes {
		middlewares := []echo.MiddlewareFunc{outer(r)}
		for _, limit := range r.Limits {
			middlewares = append(middlewares, echolimit.New(limit.Limiter, limit.Configs...))
		}
		e.Any(adaptertest.Colons(r.Path), r.Handler, middlewares...)
	}
	adaptertest.ServeHTTP(t, l, e)
}

func outer(r route) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			defer r.Done()
			for name, value := range r.Outer {
				c.Response().Header().Set(name, value)
			}
			return next(c)
		}
	}
}

func handler(reply adaptertest.Reply) echo.HandlerFunc {
	return func(c echo.Context) error {
		reply.Seen(echolimit.ResultFrom(c))
		switch {
		case reply.Panic:
			panic("handler")
		case reply.Err != nil:
			return reply.Err
		case reply.Upgrade:
			return upgrade(c)
		case reply.Chunks != nil:
			stream(c, reply)
			return nil
		default:
			c.Response().Header().Set(echo.HeaderContentType, echo.MIMETextPlainCharsetUTF8)
			c.Response().WriteHeader(reply.Status)
			fmt.Fprint(c.Response(), reply.Body) // 204 has none, which is no error here
			return nil
		}
	}
}

func upgrade(c echo.Context) error {
	conn, rw, err := c.Response().Hijack()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, _ = rw.WriteString(adaptertest.Switching)
	_ = rw.Flush()
	line, _ := rw.ReadString('\n')
	_, _ = rw.WriteString(line)
	return rw.Flush()
}

func stream(c echo.Context, reply adaptertest.Reply) {
	for _, chunk := range reply.Chunks {
		<-reply.Gate
		fmt.Fprint(c.Response(), chunk)
		c.Response().Flush()
	}
}
