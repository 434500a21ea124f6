package fiberlimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v2"

	fiberlimit "github.com/atomicbucket/ratelimit/adapters/fiber"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

func newLimiter(t testing.TB, limit ratelimit.Limit, opts ...ratelimit.Option) *ratelimit.Limiter {
	t.Helper()
	limiter, err := ratelimit.New(memstore.New(), "api", limit, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

func alice(*fiber.Ctx) (string, error) { return "alice", nil }

func ok(*fiber.Ctx) error { return nil }

// do sends a request without a network, so its peer has no address.
func do(t *testing.T, app *fiber.App, method, target string) *http.Response {
	t.Helper()
	res, err := app.Test(httptest.NewRequest(method, target, nil), -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func TestTheErrorHandlerRendersDenials(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		config fiberlimit.Config
		code   int
	}{
		"denied":      {fiberlimit.Config{Key: alice}, 429},
		"unavailable": {fiberlimit.Config{Key: func(*fiber.Ctx) (string, error) { return "", broken }}, 503},
	} {
		var outside error
		app := fiber.New(fiber.Config{ErrorHandler: func(c *fiber.Ctx, err error) error {
			var coded *fiber.Error
			if !errors.As(err, &coded) {
				t.Errorf("%s: the ErrorHandler has got %T", name, err)
				return err
			}
			res, decided := fiberlimit.ResultFrom(c)
			return c.Status(coded.Code).JSON(fiber.Map{"code": coded.Code, "denied": decided && !res.Allowed})
		}})
		app.Use(func(c *fiber.Ctx) error {
			c.Set("X-Outer", "kept")
			outside = c.Next()
			return outside
		})
		app.Get("/", fiberlimit.New(newLimiter(t, ratelimit.PerHour(1)), c.config), ok)
		do(t, app, http.MethodGet, "/")
		res := do(t, app, http.MethodGet, "/")
		body, _ := io.ReadAll(res.Body)
		if want := fmt.Sprintf(`{"code":%d,"denied":%v}`, c.code, c.code == 429); res.StatusCode != c.code || string(body) != want {
			t.Errorf("%s: %d %s, want %s", name, res.StatusCode, body, want)
		}
		if res.Header.Get("Retry-After") == "" || res.Header.Get("Cache-Control") != "no-store" || res.Header.Get("X-Outer") != "kept" {
			t.Errorf("%s: headers %v", name, res.Header)
		}
		var coded *fiber.Error
		if !errors.As(outside, &coded) || coded.Code != c.code || coded.Message == "" {
			t.Errorf("%s: a middleware outside has got %v", name, outside)
		}
	}
}

func TestRefundSeesTheStatusOfAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler fiber.Handler
		want    int
	}{
		"nothing":                  {ok, 200},
		"a status":                 {func(c *fiber.Ctx) error { return c.SendStatus(418) }, 418},
		"a fiber.Error":            {func(*fiber.Ctx) error { return fiber.NewError(401) }, 401},
		"a wrapped fiber.Error":    {func(*fiber.Ctx) error { return fmt.Errorf("login: %w", fiber.ErrForbidden) }, 403},
		"another error":            {func(*fiber.Ctx) error { return errors.New("broken") }, 500},
		"another error, status ok": {func(c *fiber.Ctx) error { _ = c.SendString("ok"); return errors.New("broken") }, 500},
		"no route":                 {func(c *fiber.Ctx) error { return c.Next() }, 404},
		"a connection taken over, then an error": {func(c *fiber.Ctx) error {
			c.Context().Hijack(func(net.Conn) {})
			return errors.New("broken")
		}, 0},
	} {
		got := 0
		app := newApp()
		app.Get("/", fiberlimit.New(newLimiter(t, ratelimit.PerHour(5)), fiberlimit.Config{
			Key: alice,
			Refund: func(c *fiber.Ctx, status int) bool {
				if _, ok := fiberlimit.ResultFrom(c); !ok {
					t.Errorf("%s: Refund does not see the result", name)
				}
				got = status
				return false
			},
		}), c.handler)
		do(t, app, http.MethodGet, "/")
		if got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestRefundLeavesTheErrorAsItIs(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var outside error
	app := newApp()
	app.Use(func(c *fiber.Ctx) error {
		outside = c.Next()
		return outside
	})
	config := fiberlimit.Config{Key: alice, Refund: func(*fiber.Ctx, int) bool { return true }}
	app.Get("/", fiberlimit.New(newLimiter(t, ratelimit.PerHour(5)), config), func(*fiber.Ctx) error { return broken })
	if do(t, app, http.MethodGet, "/"); !errors.Is(outside, broken) {
		t.Errorf("a middleware outside has got %v", outside)
	}
}

func TestTheUserContextIsThatOfTheDecision(t *testing.T) {
	t.Parallel()
	type key struct{}
	app := newApp()
	app.Use(func(c *fiber.Ctx) error {
		c.SetUserContext(context.WithValue(c.UserContext(), key{}, "mine"))
		return c.Next()
	})
	app.Use(fiberlimit.New(newLimiter(t, ratelimit.PerHour(5)), fiberlimit.Config{
		Key: fiberlimit.By(func(r httplimit.Request) (string, error) {
			if r.Context.Value(key{}) != "mine" {
				t.Error("another context")
			}
			return "alice", nil
		}),
	}))
	app.Get("/", ok)
	do(t, app, http.MethodGet, "/")
}

func TestACanceledUserContextIsAnswered503(t *testing.T) {
	t.Parallel()
	app := newApp()
	app.Use(func(c *fiber.Ctx) error {
		ctx, cancel := context.WithCancel(c.UserContext())
		cancel()
		c.SetUserContext(ctx)
		return c.Next()
	})
	app.Get("/", fiberlimit.New(newLimiter(t, ratelimit.PerHour(5)), fiberlimit.Config{Key: alice}), func(*fiber.Ctx) error {
		t.Error("the handler has run")
		return nil
	})
	if res := do(t, app, http.MethodGet, "/"); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", res.StatusCode)
	}
}

func TestRouteIsThePatternThatTheLimiterWasRegisteredWith(t *testing.T) {
	t.Parallel()
	key := ""
	limited := fiberlimit.New(newLimiter(t, ratelimit.PerHour(99)), fiberlimit.Config{Key: func(c *fiber.Ctx) (string, error) {
		var err error
		key, err = fiberlimit.By(httplimit.Route)(c)
		return key, err
	}})
	items := func(r fiber.Router, handlers ...fiber.Handler) { r.Get("/items/:id", append(handlers, ok)...) }
	for place, c := range map[string]struct {
		register     func(app *fiber.App)
		target, want string
	}{
		"a route":             {func(app *fiber.App) { items(app, limited) }, "/items/1", "GET /items/:id"},
		"a route of a Group":  {func(app *fiber.App) { items(app.Group("/v1"), limited) }, "/v1/items/1", "GET /v1/items/:id"},
		"a Group":             {func(app *fiber.App) { items(app.Group("/v1", limited)) }, "/v1/items/1", "GET /v1"},
		"Use":                 {func(app *fiber.App) { app.Use(limited); items(app) }, "/items/1", "GET /"},
		"Use without a match": {func(app *fiber.App) { app.Use(limited) }, "/missing", "GET /"},
		"a mounted app": {func(app *fiber.App) {
			mounted := newApp()
			items(mounted, limited)
			app.Mount("/v1", mounted)
		}, "/v1/items/1", "GET /v1/items/:id"},
	} {
		app := newApp()
		c.register(app)
		do(t, app, http.MethodGet, c.target)
		if key != c.want {
			t.Errorf("%s: %q, want %q", place, key, c.want)
		}
	}
}
