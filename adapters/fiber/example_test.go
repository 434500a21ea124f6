package fiberlimit_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/gofiber/fiber/v2"

	fiberlimit "github.com/atomicbucket/ratelimit/adapters/fiber"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

func hello(c *fiber.Ctx) error { return c.SendString("hello") }

// Each address of a TCP peer may make two requests per hour. (app.Test has no
// network; such requests share a bucket.)
func Example() {
	limiter, err := ratelimit.New(memstore.New(), "api", ratelimit.PerHour(2))
	if err != nil {
		panic(err)
	}
	app := fiber.New()
	app.Use(fiberlimit.New(limiter))
	app.Get("/", hello)

	for range 3 {
		res, err := app.Test(httptest.NewRequest(http.MethodGet, "/", nil))
		if err != nil {
			panic(err)
		}
		fmt.Println(res.StatusCode, res.Header.Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 200 1
	// 200 0
	// 429 0
}

// By a known API key, else by the client's address behind proxies, and for each
// route of its own; health checks pass.
func ExampleNew() {
	limiter, err := ratelimit.New(memstore.New(), "api", ratelimit.PerSecond(10).WithBurst(20))
	if err != nil {
		panic(err)
	}
	trusted, err := httplimit.ParseTrusted("192.0.2.0/24")
	if err != nil {
		panic(err)
	}
	customers := map[string]string{"demo": "customer 7"}
	customer := func(c *fiber.Ctx) (string, error) { return customers[c.Get("X-API-Key")], nil }
	caller := httplimit.FirstOf(customer, fiberlimit.By(httplimit.ClientIP(trusted...)))
	limited := fiberlimit.New(limiter, fiberlimit.Config{
		Key:     httplimit.Join(caller, fiberlimit.By(httplimit.Route)),
		Skip:    httplimit.When(fiberlimit.By, httplimit.Path("/healthz")),
		Headers: httplimit.XRateLimit | httplimit.IETFDraft11,
	})
	app := fiber.New()
	app.Get("/items/:id", limited, func(c *fiber.Ctx) error {
		res, _ := fiberlimit.ResultFrom(c)
		fmt.Println(res.Key)
		return nil
	})

	r := httptest.NewRequest(http.MethodGet, "/items/7", nil)
	r.Header.Set("X-API-Key", "demo")
	res, err := app.Test(r)
	if err != nil {
		panic(err)
	}
	fmt.Println(res.Header.Get("RateLimit"))
	// Output:
	// k:customer 7|GET /items/:id
	// "api";r=19;t=2
}

// Attempts at a password: successes are given back, so only failures count. This
// takes a handler that answers failures with 400 and above; one that redirects,
// or shows the form again with 200, would get them back too. Once the tokens are
// used up nobody gets in, whatever the password, until one is back.
// Returned errors count as their status.
func ExampleConfig_refund() {
	limiter, err := ratelimit.New(memstore.New(), "login", ratelimit.PerHour(1), ratelimit.FailClosed())
	if err != nil {
		panic(err)
	}
	limited := fiberlimit.New(limiter, fiberlimit.Config{
		Refund: func(_ *fiber.Ctx, status int) bool { return status < 400 },
	})
	app := fiber.New()
	app.Post("/login", limited, func(c *fiber.Ctx) error {
		if c.Get("X-Password") != "right" {
			return fiber.ErrUnauthorized
		}
		return nil
	})

	for _, password := range []string{"right", "right", "wrong", "right"} {
		r := httptest.NewRequest(http.MethodPost, "/login", nil)
		r.Header.Set("X-Password", password)
		res, err := app.Test(r)
		if err != nil {
			panic(err)
		}
		fmt.Println(password, res.StatusCode)
	}
	// Output:
	// right 200
	// right 200
	// wrong 401
	// right 429
}

// The app's ErrorHandler renders a denial as it does all errors; its headers are
// set.
func Example_errorHandler() {
	limiter, err := ratelimit.New(memstore.New(), "api", ratelimit.PerMinute(1).WithBurst(1))
	if err != nil {
		panic(err)
	}
	app := fiber.New(fiber.Config{ErrorHandler: func(c *fiber.Ctx, err error) error {
		code := fiber.StatusInternalServerError
		if coded, ok := errors.AsType[*fiber.Error](err); ok {
			code = coded.Code
		}
		return c.Status(code).JSON(fiber.Map{"code": code})
	}})
	app.Use(fiberlimit.New(limiter))
	app.Get("/", hello)

	for range 2 {
		res, err := app.Test(httptest.NewRequest(http.MethodGet, "/", nil))
		if err != nil {
			panic(err)
		}
		body, _ := io.ReadAll(res.Body)
		fmt.Printf("%d %q %s\n", res.StatusCode, res.Header.Get("Retry-After"), body)
	}
	// Output:
	// 200 "" hello
	// 429 "60" {"code":429}
}
