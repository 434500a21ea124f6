package ginlimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	ginlimit "github.com/atomicbucket/ratelimit/adapters/gin"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

func hello(c *gin.Context) { c.String(http.StatusOK, "hello") }

// Each address of a TCP peer may make two requests per hour.
func Example() {
	limiter, err := ratelimit.New(memstore.New(), "api", ratelimit.PerHour(2))
	if err != nil {
		panic(err)
	}
	router := gin.New()
	router.Use(ginlimit.New(limiter))
	router.GET("/", hello)

	for range 3 {
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 200 1
	// 200 0
	// 429 0
}

// Behind proxies, by the address that they report, and for each route of its
// own; health checks pass.
func ExampleNew() {
	limiter, err := ratelimit.New(memstore.New(), "api", ratelimit.PerSecond(10).WithBurst(20))
	if err != nil {
		panic(err)
	}
	trusted, err := httplimit.ParseTrusted("192.0.2.0/24")
	if err != nil {
		panic(err)
	}
	router := gin.New()
	router.Use(ginlimit.New(limiter, ginlimit.Config{
		Key:     ginlimit.By(httplimit.Join(httplimit.ClientIP(trusted...), httplimit.Route)),
		Skip:    httplimit.When(ginlimit.By, httplimit.Path("/healthz")),
		Headers: httplimit.XRateLimit | httplimit.IETFDraft11,
	}))
	router.GET("/items/:id", func(c *gin.Context) {
		res, _ := ginlimit.ResultFrom(c)
		fmt.Println(res.Key)
	})

	r := httptest.NewRequest(http.MethodGet, "/items/7", nil)
	r.Header.Set("X-Forwarded-For", "203.0.113.7")
	w := httptest.NewRecorder()
	router.ServeHTTP(w, r)
	fmt.Println(w.Header().Get("RateLimit"))
	// Output:
	// k:203.0.113.7|GET /items/:id
	// "api";r=19;t=2
}

// Attempts at a password: successes are given back, so only failures count. This
// takes a handler that answers failures with 400 and above; one that redirects,
// or shows the form again with 200, would get them back too. Once the tokens are
// used up nobody gets in, whatever the password, until one is back.
func ExampleConfig_refund() {
	limiter, err := ratelimit.New(memstore.New(), "login", ratelimit.PerHour(1), ratelimit.FailClosed())
	if err != nil {
		panic(err)
	}
	router := gin.New()
	router.POST("/login", ginlimit.New(limiter, ginlimit.Config{
		Refund: func(_ *gin.Context, status int) bool { return status < 400 },
	}), func(c *gin.Context) {
		if c.GetHeader("X-Password") != "right" {
			c.AbortWithStatus(http.StatusUnauthorized)
		}
	})

	for _, password := range []string{"right", "right", "wrong", "right"} {
		r := httptest.NewRequest(http.MethodPost, "/login", nil)
		r.Header.Set("X-Password", password)
		w := httptest.NewRecorder()
		router.ServeHTTP(w, r)
		fmt.Println(password, w.Code)
	}
	// Output:
	// right 200
	// right 200
	// wrong 401
	// right 429
}
