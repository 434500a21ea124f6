package fiberlimit_test

import (
	"bufio"
	"net"
	"testing"

	"github.com/gofiber/fiber/v2"
	recovery "github.com/gofiber/fiber/v2/middleware/recover"

	fiberlimit "github.com/atomicbucket/ratelimit/adapters/fiber"
	"github.com/atomicbucket/ratelimit/core/httplimit/adaptertest"
)

type route = adaptertest.Route[*fiber.Ctx, fiber.Handler]

func TestAdapter(t *testing.T) {
	adaptertest.Run(t, adaptertest.Adapter[*fiber.Ctx, fiber.Handler]{
		Serve:          serve,
		Handler:        handler,
		By:             fiberlimit.By,
		ResultFrom:     fiberlimit.ResultFrom,
		Header:         func(c *fiber.Ctx, name string) string { return c.Get(name) },
		ReturnsErrors:  true,
		RendersErrors:  true,
		IgnoresClients: true,
	})
}

func serve(t testing.TB, l net.Listener, routes []route) {
	app := newApp()
	app.Use(recovery.New())
	for _, r := range routes {
		handlers := []fiber.Handler{outer(r)}
		for _, limit := range r.Limits {
			handlers = append(handlers, fiberlimit.New(limit.Limiter, limit.Configs...))
		}
		app.All(adaptertest.Colons(r.Path), append(handlers, r.Handler)...)
	}
	listen(t, app, l)
}

func newApp() *fiber.App {
	return fiber.New(fiber.Config{DisableStartupMessage: true})
}

func listen(t testing.TB, app *fiber.App, l net.Listener) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = app.Listener(l) // nil after Shutdown
	}()
	t.Cleanup(func() {
		_ = app.Shutdown()
		<-done
	})
}

func outer(r route) fiber.Handler {
	return func(c *fiber.Ctx) error {
		defer r.Done()
		for name, value := range r.Outer {
			c.Set(name, value)
		}
		return c.Next()
	}
}

func handler(reply adaptertest.Reply) fiber.Handler {
	return func(c *fiber.Ctx) error {
		reply.Seen(fiberlimit.ResultFrom(c))
		switch {
		case reply.Panic:
			panic("handler")
		case reply.Err != nil:
			return reply.Err
		case reply.Upgrade:
			return upgrade(c)
		case reply.Chunks != nil:
			return stream(c, reply)
		default:
			c.Set("Content-Type", "text/plain; charset=utf-8")
			return c.Status(reply.Status).SendString(reply.Body)
		}
	}
}

func upgrade(c *fiber.Ctx) error {
	c.Context().Hijack(func(conn net.Conn) {
		line, _ := bufio.NewReader(conn).ReadBytes('\n')
		_, _ = conn.Write(line)
	})
	c.Set("Connection", "Upgrade")
	c.Set("Upgrade", "echo")
	c.Status(fiber.StatusSwitchingProtocols)
	return nil
}

func stream(c *fiber.Ctx, reply adaptertest.Reply) error {
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		for _, chunk := range reply.Chunks {
			<-reply.Gate
			_, _ = w.WriteString(chunk)
			_ = w.Flush()
		}
	})
	return nil
}
