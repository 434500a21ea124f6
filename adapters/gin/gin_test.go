package ginlimit_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	ginlimit "github.com/atomicbucket/ratelimit/adapters/gin"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

var errLogin = errors.New("wrong password")

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode) // otherwise it prints each route
	os.Exit(m.Run())
}

func newLimiter(t testing.TB, limit ratelimit.Limit) *ratelimit.Limiter {
	t.Helper()
	limiter, err := ratelimit.New(memstore.New(), "api", limit)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// denying is a limiter whose bucket for the peers of httptest is empty.
func denying(t testing.TB) *ratelimit.Limiter {
	t.Helper()
	limiter := newLimiter(t, ratelimit.PerDay(1))
	if _, err := limiter.Allow(t.Context(), "a:192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	return limiter
}

func get(engine *gin.Engine, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	engine.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func TestARefusedRequestNeverReachesTheHandler(t *testing.T) {
	t.Parallel()
	broken := func(*gin.Context) (string, error) { return "", errLogin }
	for name, c := range map[string]struct {
		config ginlimit.Config
		status int
	}{
		"by default":                          {ginlimit.Config{}, 429},
		"Denied that does not abort":          {ginlimit.Config{Denied: func(c *gin.Context) { c.String(418, "no") }}, 418},
		"Denied that goes on":                 {ginlimit.Config{Denied: func(c *gin.Context) { c.Status(418); c.Next() }}, 418},
		"Denied that does nothing":            {ginlimit.Config{Denied: func(*gin.Context) {}}, 200},
		"unavailable by default":              {ginlimit.Config{Key: broken}, 503},
		"Unavailable that does not abort":     {ginlimit.Config{Key: broken, Unavailable: func(c *gin.Context) { c.String(504, "no") }}, 504},
		"Denied that aborts, as the docs say": {ginlimit.Config{Denied: func(c *gin.Context) { c.AbortWithStatusJSON(429, gin.H{}) }}, 429},
	} {
		engine := gin.New()
		engine.Use(ginlimit.New(denying(t), c.config))
		for range 2 {
			engine.Use(func(*gin.Context) { t.Errorf("%s: a middleware further in has run", name) })
		}
		engine.GET("/", func(*gin.Context) { t.Errorf("%s: the handler has run", name) })
		if w := get(engine, "/"); w.Code != c.status {
			t.Errorf("%s: status %d, want %d", name, w.Code, c.status)
		}
	}
}

func TestADenialIsWrittenBeforeOuterMiddlewareGoesOn(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		engine := gin.New()
		engine.Use(func(c *gin.Context) {
			c.Next()
			if res, ok := ginlimit.ResultFrom(c); !ok || res.Allowed || !c.IsAborted() || !c.Writer.Written() || c.Writer.Status() != 429 {
				t.Errorf("%s: %+v, %v, status %d, written %v", method, res, ok, c.Writer.Status(), c.Writer.Written())
			}
		}, ginlimit.New(denying(t)))
		engine.Handle(method, "/", func(*gin.Context) {})
		engine.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, "/", nil))
	}
}

func TestRequestsWithoutARouteAreLimitedToo(t *testing.T) {
	t.Parallel()
	engine := gin.New()
	engine.HandleMethodNotAllowed = true
	engine.Use(ginlimit.New(denying(t)))
	engine.POST("/items", func(*gin.Context) {})
	for _, path := range []string{"/nowhere", "/items"} {
		w := get(engine, path)
		if kind := w.Header().Get("Content-Type"); w.Code != 429 || kind != "application/problem+json" {
			t.Errorf("GET %s: %d %s %q", path, w.Code, kind, w.Body)
		}
	}
}

func TestRouteIsKnownInUse(t *testing.T) {
	t.Parallel()
	var key string
	engine := gin.New()
	engine.Use(func(c *gin.Context) {
		c.Next()
		res, _ := ginlimit.ResultFrom(c)
		key = res.Key
	}, ginlimit.New(newLimiter(t, ratelimit.PerHour(9)), ginlimit.Config{Key: ginlimit.By(httplimit.Route)}))
	engine.Group("/v1").GET("/items/:id", func(*gin.Context) {})
	for path, want := range map[string]string{"/v1/items/7": "k:GET /v1/items/:id", "/nowhere": "a:192.0.2.1"} {
		if get(engine, path); key != want {
			t.Errorf("%s: key %q, want %q", path, key, want)
		}
	}
}

func TestGinsTrustInProxiesIsNotOurs(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{"203.0.113.7:1": "a:203.0.113.7", "@": "*", "": "*", "[fe80::1%eth0]:1": "a:fe80::/64"} {
		engine := gin.New() // trusts every proxy
		engine.TrustedPlatform = gin.PlatformCloudflare
		engine.GET("/", ginlimit.New(newLimiter(t, ratelimit.PerHour(9))), func(c *gin.Context) {
			if res, _ := ginlimit.ResultFrom(c); res.Key != want {
				t.Errorf("peer %q: key %q, want %q", remote, res.Key, want)
			}
		})
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = remote
		r.Header.Set("X-Forwarded-For", "198.51.100.1")
		r.Header.Set(gin.PlatformCloudflare, "198.51.100.2")
		engine.ServeHTTP(httptest.NewRecorder(), r)
	}
}

func TestRefundSeesErrorsThatHandlersRecord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler gin.HandlerFunc
		want    int
	}{
		"nothing written":              {func(*gin.Context) {}, 200},
		"a status alone":               {func(c *gin.Context) { c.Status(404) }, 404},
		"the first of two":             {func(c *gin.Context) { c.String(404, "x"); c.Status(200) }, 404},
		"an error":                     {func(c *gin.Context) { _ = c.Error(errLogin) }, 500},
		"an error with a status":       {func(c *gin.Context) { _ = c.AbortWithError(401, errLogin) }, 401},
		"an error that is rendered":    {func(c *gin.Context) { _ = c.Error(errLogin); c.JSON(422, gin.H{}) }, 422},
		"an error after the response":  {func(c *gin.Context) { c.String(200, "x"); _ = c.Error(errLogin) }, 500},
		"a panic":                      {func(*gin.Context) { panic(errLogin) }, 500},
		"a panic after the response":   {func(c *gin.Context) { c.String(404, "x"); panic(errLogin) }, 500},
		"a panic that is recovered":    {func(c *gin.Context) { gin.RecoveryWithWriter(nil)(c); c.AbortWithStatus(500) }, 500},
		"another protocol by a status": {func(c *gin.Context) { c.Status(101) }, 0},
	} {
		got := 0
		refund := func(c *gin.Context, status int) bool {
			if _, ok := ginlimit.ResultFrom(c); !ok {
				t.Errorf("%s: Refund does not see the result", name)
			}
			got = status
			return false
		}
		engine := gin.New()
		engine.Use(gin.RecoveryWithWriter(nil))
		engine.Use(func(c *gin.Context) { _ = c.Error(errors.New("recorded before the limiter")) })
		engine.GET("/", ginlimit.New(newLimiter(t, ratelimit.PerHour(5)), ginlimit.Config{Refund: refund}), c.handler)
		if get(engine, "/"); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestEachOfTwoLimitersIsRefundedByItself(t *testing.T) {
	t.Parallel()
	onSuccess := ginlimit.Config{Refund: func(_ *gin.Context, status int) bool { return status < 400 }}
	outer, inner := newLimiter(t, ratelimit.PerDay(2)), newLimiter(t, ratelimit.PerDay(1))
	engine := gin.New()
	engine.GET("/", ginlimit.New(outer, onSuccess), ginlimit.New(inner, onSuccess), func(c *gin.Context) {
		if c.Query("password") != "right" {
			_ = c.AbortWithError(401, errLogin)
		}
	})
	for i, c := range []struct {
		path   string
		status int
	}{{"/?password=right", 200}, {"/?password=right", 200}, {"/", 401}, {"/?password=right", 429}, {"/?password=right", 429}} {
		if w := get(engine, c.path); w.Code != c.status {
			t.Errorf("request %d: status %d, want %d", i, w.Code, c.status)
		}
	}
	for limiter, want := range map[*ratelimit.Limiter]int{outer: 0, inner: 0} {
		if res, err := limiter.Peek(t.Context(), "a:192.0.2.1"); err != nil || res.Remaining != want {
			t.Errorf("%+v, %v; want %d remaining", res, err, want)
		}
	}
}

// takenOver is a writer whose connection can be hijacked.
type takenOver struct{ *httptest.ResponseRecorder }

func (takenOver) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

func TestAHijackedConnectionIsNeverRefunded(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(){"returns": func() {}, "panics": func() { panic(http.ErrAbortHandler) }} {
		asked := false
		config := ginlimit.Config{Refund: func(*gin.Context, int) bool { asked = true; return true }}
		engine := gin.New()
		engine.Use(gin.RecoveryWithWriter(nil))
		engine.GET("/", ginlimit.New(newLimiter(t, ratelimit.PerHour(5)), config), func(c *gin.Context) {
			if _, _, err := http.NewResponseController(c.Writer).Hijack(); err != nil {
				t.Error(err)
			}
			then()
		})
		engine.ServeHTTP(takenOver{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/", nil))
		if asked {
			t.Errorf("a handler that hijacks and %s: Refund was asked", name)
		}
	}
}

func TestWriterIsWrappedForRefundAlone(t *testing.T) {
	t.Parallel()
	always := func(*gin.Context, int) bool { return true }
	for _, c := range []struct {
		config  ginlimit.Config
		wrapped bool
	}{
		{ginlimit.Config{}, false},
		{ginlimit.Config{Refund: always}, true},
		{ginlimit.Config{Refund: always, Shadow: true}, false},
		{ginlimit.Config{Refund: always, Skip: func(*gin.Context) bool { return true }}, false},
	} {
		var outer, inner gin.ResponseWriter
		engine := gin.New()
		engine.Use(func(c *gin.Context) { outer = c.Writer }, ginlimit.New(newLimiter(t, ratelimit.PerHour(9)), c.config))
		engine.GET("/", func(c *gin.Context) { inner = c.Writer })
		if get(engine, "/"); (inner != outer) != c.wrapped {
			t.Errorf("%+v: wrapped %v, want %v", c.config, inner != outer, c.wrapped)
		}
	}
}

func TestAResponseControllerReachesTheConnection(t *testing.T) {
	t.Parallel()
	for _, config := range []ginlimit.Config{{}, {Refund: func(*gin.Context, int) bool { return true }}} {
		engine := gin.New()
		engine.GET("/", ginlimit.New(newLimiter(t, ratelimit.PerHour(9)), config), func(c *gin.Context) {
			controller := http.NewResponseController(c.Writer)
			if err := errors.Join(controller.SetWriteDeadline(time.Now().Add(time.Hour)), controller.Flush()); err != nil {
				t.Error(err)
			}
		})
		server := httptest.NewServer(engine)
		res, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		server.Close()
	}
}

func TestARequestWhoseContextHasEndedIsNotAnswered(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	engine := gin.New()
	engine.GET("/", ginlimit.New(newLimiter(t, ratelimit.PerHour(5))), func(*gin.Context) { t.Error("the handler has run") })
	w := httptest.NewRecorder()
	engine.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
	if w.Body.Len() != 0 || len(w.Header()) != 0 {
		t.Errorf("answered: %v %q", w.Header(), w.Body)
	}
}

func TestACopyOfTheContextKeepsTheResult(t *testing.T) {
	t.Parallel()
	engine := gin.New()
	engine.GET("/", ginlimit.New(newLimiter(t, ratelimit.PerHour(5))), func(c *gin.Context) {
		if res, ok := ginlimit.ResultFrom(c.Copy()); !ok || res.Remaining != 4 {
			t.Errorf("%+v, %v", res, ok)
		}
	})
	get(engine, "/")
}

func TestARequestThatIsCancelledOnTheServersSideDoesNotLookServed(t *testing.T) {
	t.Parallel()
	limiter, err := ratelimit.New(memstore.New(), "api", ratelimit.PerHour(9))
	if err != nil {
		t.Fatal(err)
	}
	ran := false
	r := gin.New()
	r.Use(ginlimit.New(limiter))
	r.POST("/pay", func(*gin.Context) { ran = true })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/pay", nil).WithContext(ctx))
	if ran || w.Code != http.StatusServiceUnavailable || w.Body.Len() != 0 {
		t.Errorf("handler ran: %v, status %d, body %q; want 503 and no body", ran, w.Code, w.Body)
	}
}
