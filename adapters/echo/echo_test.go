package echolimit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	echolimit "github.com/atomicbucket/ratelimit/adapters/echo"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

var errLogin = errors.New("wrong password")

func newEcho() *echo.Echo {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	return e
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

func ok(c echo.Context) error { return c.NoContent(http.StatusOK) }

func broken(echo.Context) (string, error) { return "", errLogin }

func get(e *echo.Echo, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func TestARefusedRequestNeverReachesTheHandler(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config echolimit.Config
		status int
	}{
		"by default":                   {echolimit.Config{}, 429},
		"Denied that returns an error": {echolimit.Config{Denied: func(echo.Context) error { return echo.NewHTTPError(418, "no") }}, 418},
		"Denied that answers":          {echolimit.Config{Denied: func(c echo.Context) error { return c.String(418, "no") }}, 418},
		"Denied that does nothing":     {echolimit.Config{Denied: func(echo.Context) error { return nil }}, 200},
		"unavailable by default":       {echolimit.Config{Key: broken}, 503},
		"Unavailable that answers":     {echolimit.Config{Key: broken, Unavailable: func(c echo.Context) error { return c.String(504, "no") }}, 504},
	} {
		e := newEcho()
		e.Use(echolimit.New(denying(t), c.config))
		e.GET("/", func(echo.Context) error { t.Errorf("%s: the handler has run", name); return nil })
		if w := get(e, "/"); w.Code != c.status {
			t.Errorf("%s: status %d, want %d", name, w.Code, c.status)
		}
	}
}

// What apps do with errors, some of it without a check.
func TestTheAppsErrorHandlerRendersARefusal(t *testing.T) {
	t.Parallel()
	for status, config := range map[int]echolimit.Config{429: {}, 503: {Key: broken}} {
		e := newEcho()
		e.HTTPErrorHandler = func(err error, c echo.Context) {
			he := err.(*echo.HTTPError) //nolint:errorlint // as echo's own handler does
			_ = c.HTML(he.Code, "<p>"+he.Message.(string)+"</p>")
		}
		var seen error
		e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				seen = next(c)
				if c.Response().Header().Get("Retry-After") == "" {
					t.Errorf("%d: no Retry-After when the error arrives", status)
				}
				return seen
			}
		}, echolimit.New(denying(t), config))
		e.GET("/", ok)
		w := get(e, "/")
		if he, ok := seen.(*echo.HTTPError); !ok || he.Code != status { //nolint:errorlint // not wrapped
			t.Errorf("outer middleware sees %#v, want *echo.HTTPError of %d", seen, status)
		}
		kind := w.Header().Get("Content-Type")
		if w.Code != status || !strings.HasPrefix(kind, "text/html") || !strings.HasPrefix(w.Body.String(), "<p>Request cannot") {
			t.Errorf("%d: %d %s %q", status, w.Code, kind, w.Body)
		}
		if w.Header().Get("Retry-After") == "" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%d: headers %v", status, w.Header())
		}
	}
}

func TestTheDefaultErrorHandlerRendersAProblem(t *testing.T) {
	t.Parallel()
	for _, debug := range []bool{false, true} {
		for status, config := range map[int]echolimit.Config{429: {}, 503: {Key: broken}} {
			e := newEcho()
			e.Debug = debug
			e.GET("/", ok, echolimit.New(denying(t), config))
			w := get(e, "/")
			var problem struct {
				Type, Title string
				Status      int
			}
			if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
				t.Errorf("%d: %v in %q", status, err, w.Body)
			}
			if w.Code != status || problem.Status != status || problem.Title == "" || !strings.HasPrefix(problem.Type, "https://iana.org/") {
				t.Errorf("%d: %d %q", status, w.Code, w.Body)
			}
			if kind := w.Header().Get("Content-Type"); kind != echo.MIMEApplicationJSON {
				t.Errorf("%d: content type %q", status, kind)
			}
		}
	}
}

func TestARefusalIsReadableInALog(t *testing.T) {
	t.Parallel()
	var logged string
	e := newEcho()
	e.GET("/", ok, middleware.RequestLoggerWithConfig(middleware.RequestLoggerConfig{
		LogError:      true,
		LogValuesFunc: func(_ echo.Context, v middleware.RequestLoggerValues) error { logged = v.Error.Error(); return nil },
	}), echolimit.New(denying(t)))
	get(e, "/")
	for _, want := range []string{"code=429", "assigned quota has been exceeded", `"violated-policies":["api"]`} {
		if !strings.Contains(logged, want) || strings.Contains(logged, "\n") {
			t.Errorf("logged %q, want one line with %s", logged, want)
		}
	}
}

func TestRefusalsCanBeChangedByWhoReceivesThem(t *testing.T) {
	t.Parallel()
	e := newEcho()
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		he := err.(*echo.HTTPError) //nolint:errorlint // as echo's own handler does
		_ = he.SetInternal(nil)
		he.Message = fmt.Sprintf("%v.", he.Message)
		e.DefaultHTTPErrorHandler(he, c)
	}
	e.GET("/", ok, echolimit.New(denying(t)))
	first, second := get(e, "/").Body.String(), get(e, "/").Body.String()
	if !strings.HasPrefix(first, `{"message":"Request`) || first != second {
		t.Errorf("%q, then %q", first, second)
	}
}

func TestRequestsWithoutARouteAreLimitedToo(t *testing.T) {
	t.Parallel()
	e := newEcho()
	e.Use(echolimit.New(denying(t)))
	e.POST("/items", ok)
	for _, path := range []string{"/nowhere", "/items"} {
		if w := get(e, path); w.Code != 429 {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
}

func TestRouteIsKnownBehindTheRouter(t *testing.T) {
	t.Parallel()
	limit := func() echo.MiddlewareFunc {
		return echolimit.New(newLimiter(t, ratelimit.PerHour(9)), echolimit.Config{Key: echolimit.By(httplimit.Route)})
	}
	for name, c := range map[string]struct {
		register  func(e *echo.Echo)
		path, key string
	}{
		"Pre":                {func(e *echo.Echo) { e.Pre(limit()) }, "/v1/items/7", "a:192.0.2.1"},
		"Use":                {func(e *echo.Echo) { e.Use(limit()) }, "/v1/items/7", "k:GET /v1/items/:id"},
		"Use, no route":      {func(e *echo.Echo) { e.Use(limit()) }, "/nowhere", "a:192.0.2.1"},
		"a group":            {func(e *echo.Echo) { e.Group("/v1", limit()).GET("/users/:name", ok) }, "/v1/users/me", "k:GET /v1/users/:name"},
		"a group, no route":  {func(e *echo.Echo) { e.Group("/v1", limit()) }, "/v1/any/thing", "k:GET /v1/*"},
		"a route's own":      {func(e *echo.Echo) { e.GET("/own/:id", ok, limit()) }, "/own/7", "k:GET /own/:id"},
		"a route of another": {func(e *echo.Echo) { e.GET("/own/:id", ok, limit()) }, "/v1/items/7", ""},
	} {
		var key string
		e := newEcho()
		e.Pre(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				err := next(c)
				res, _ := echolimit.ResultFrom(c)
				key = res.Key
				return err
			}
		})
		c.register(e)
		e.GET("/v1/items/:id", ok)
		if get(e, c.path); key != c.key {
			t.Errorf("%s: key %q, want %q", name, key, c.key)
		}
	}
}

func TestEchosTrustInProxiesIsNotOurs(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{"10.0.0.1:1": "a:10.0.0.1", "@": "*", "": "*", "[fe80::1%eth0]:1": "a:fe80::/64"} {
		e := newEcho()
		e.IPExtractor = echo.ExtractIPFromXFFHeader() // trusts private networks
		e.GET("/", func(c echo.Context) error {
			if res, _ := echolimit.ResultFrom(c); res.Key != want {
				t.Errorf("peer %q: key %q, want %q", remote, res.Key, want)
			}
			return nil
		}, echolimit.New(newLimiter(t, ratelimit.PerHour(9))))
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = remote
		r.Header.Set("X-Forwarded-For", "198.51.100.1")
		e.ServeHTTP(httptest.NewRecorder(), r)
	}
}

func TestRefundSeesErrorsThatHandlersReturn(t *testing.T) {
	t.Parallel()
	answer := func(c echo.Context, status int) { _ = c.NoContent(status) }
	for name, c := range map[string]struct {
		handler echo.HandlerFunc
		want    int
	}{
		"nothing written":  {func(echo.Context) error { return nil }, 200},
		"a status":         {func(c echo.Context) error { return c.NoContent(404) }, 404},
		"the first of two": {func(c echo.Context) error { answer(c, 404); return c.JSON(200, nil) }, 404},
		"the first of two, past echo": {func(c echo.Context) error {
			c.Response().Writer.WriteHeader(404)
			c.Response().Writer.WriteHeader(200)
			return nil
		}, 404},
		"after an informational one": {func(c echo.Context) error { c.Response().Writer.WriteHeader(103); return c.NoContent(404) }, 404},
		"an error":                   {func(echo.Context) error { return errLogin }, 500},
		"an HTTPError":               {func(echo.Context) error { return echo.ErrUnauthorized }, 401},
		"an HTTPError, wrapped":      {func(echo.Context) error { return fmt.Errorf("login: %w", echo.ErrUnauthorized) }, 401},
		"an error that was rendered": {func(c echo.Context) error { answer(c, 422); return errLogin }, 422},
		"an error after the answer":  {func(c echo.Context) error { answer(c, 200); return errLogin }, 500},
		"an error handled further in": {middleware.RequestLoggerWithConfig(middleware.RequestLoggerConfig{
			HandleError:   true,
			LogValuesFunc: func(echo.Context, middleware.RequestLoggerValues) error { return nil },
		})(func(echo.Context) error { return echo.ErrForbidden }), 403},
		"an error rendered further in": {func(c echo.Context) error { c.Error(echo.ErrForbidden); return nil }, 403},
		"a panic":                      {func(echo.Context) error { panic(errLogin) }, 500},
		"a panic after the answer":     {func(c echo.Context) error { answer(c, 404); panic(errLogin) }, 500},
		"a panic recovered further in": {middleware.Recover()(func(echo.Context) error { panic(errLogin) }), 500},
		"net/http's own handler":       {echo.WrapHandler(http.NotFoundHandler()), 404},
		"another protocol by a status": {func(c echo.Context) error { return c.NoContent(101) }, 0},
	} {
		got := 0
		refund := func(c echo.Context, status int) bool {
			if _, ok := echolimit.ResultFrom(c); !ok {
				t.Errorf("%s: Refund does not see the result", name)
			}
			got = status
			return false
		}
		e := newEcho()
		e.Use(middleware.Recover())
		e.GET("/", c.handler, echolimit.New(newLimiter(t, ratelimit.PerHour(5)), echolimit.Config{Refund: refund}))
		if get(e, "/"); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestEachOfTwoLimitersIsRefundedByItself(t *testing.T) {
	t.Parallel()
	onSuccess := echolimit.Config{Refund: func(_ echo.Context, status int) bool { return status < 400 }}
	outer, inner := newLimiter(t, ratelimit.PerDay(2)), newLimiter(t, ratelimit.PerDay(1))
	e := newEcho()
	e.GET("/", func(c echo.Context) error {
		if c.QueryParam("password") != "right" {
			return echo.ErrUnauthorized
		}
		return ok(c)
	}, echolimit.New(outer, onSuccess), echolimit.New(inner, onSuccess))
	for i, c := range []struct {
		path   string
		status int
	}{{"/?password=right", 200}, {"/?password=right", 200}, {"/", 401}, {"/?password=right", 429}, {"/?password=right", 429}} {
		if w := get(e, c.path); w.Code != c.status {
			t.Errorf("request %d: status %d, want %d", i, w.Code, c.status)
		}
	}
	// A denial by the inner limiter is a failure to the outer one.
	for name, limiter := range map[string]*ratelimit.Limiter{"outer": outer, "inner": inner} {
		if res, err := limiter.Peek(t.Context(), "a:192.0.2.1"); err != nil || res.Remaining != 0 {
			t.Errorf("%s: %+v, %v; want nothing left", name, res, err)
		}
	}
}

// takenOver is a writer whose connection can be hijacked.
type takenOver struct{ *httptest.ResponseRecorder }

func (takenOver) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

func TestAHijackedConnectionIsNeverRefunded(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func() error{
		"returns":          func() error { return nil },
		"returns an error": func() error { return errLogin },
		"panics":           func() error { panic(http.ErrAbortHandler) },
	} {
		asked := false
		config := echolimit.Config{Refund: func(echo.Context, int) bool { asked = true; return true }}
		e := newEcho()
		e.GET("/", func(c echo.Context) error {
			if _, _, err := http.NewResponseController(c.Response()).Hijack(); err != nil {
				t.Error(err)
			}
			return then()
		}, echolimit.New(newLimiter(t, ratelimit.PerHour(5)), config))
		func() {
			defer func() { _ = recover() }()
			e.ServeHTTP(takenOver{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/", nil))
		}()
		if asked {
			t.Errorf("a handler that hijacks and %s: Refund was asked", name)
		}
	}
}

func TestWriterIsWrappedForRefundAlone(t *testing.T) {
	t.Parallel()
	always := func(echo.Context, int) bool { return true }
	for _, c := range []struct {
		config  echolimit.Config
		wrapped bool
	}{
		{echolimit.Config{}, false},
		{echolimit.Config{Refund: always}, true},
		{echolimit.Config{Refund: always, Shadow: true}, false},
		{echolimit.Config{Refund: always, Skip: func(echo.Context) bool { return true }}, false},
	} {
		w := httptest.NewRecorder()
		var inner http.ResponseWriter
		e := newEcho()
		e.GET("/", func(c echo.Context) error { inner = c.Response().Writer; return nil }, echolimit.New(newLimiter(t, ratelimit.PerHour(9)), c.config))
		e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if wrapped := !reflect.DeepEqual(inner, http.ResponseWriter(w)); wrapped != c.wrapped {
			t.Errorf("%+v: wrapped %v, want %v", c.config, wrapped, c.wrapped)
		}
	}
}

func TestAResponseControllerReachesTheConnection(t *testing.T) {
	t.Parallel()
	for _, config := range []echolimit.Config{{}, {Refund: func(echo.Context, int) bool { return true }}} {
		e := newEcho()
		e.GET("/", func(c echo.Context) error {
			controller := http.NewResponseController(c.Response())
			if err := errors.Join(controller.SetWriteDeadline(time.Now().Add(time.Hour)), controller.Flush()); err != nil {
				t.Error(err)
			}
			return nil
		}, echolimit.New(newLimiter(t, ratelimit.PerHour(9)), config))
		server := httptest.NewServer(e)
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
	e := newEcho()
	e.HTTPErrorHandler = func(err error, _ echo.Context) { t.Errorf("the error handler has seen %v", err) }
	e.GET("/", func(echo.Context) error { t.Error("the handler has run"); return nil }, echolimit.New(newLimiter(t, ratelimit.PerHour(5))))
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
	if w.Body.Len() != 0 || len(w.Header()) != 0 {
		t.Errorf("answered: %v %q", w.Header(), w.Body)
	}
}

func TestARequestThatIsCancelledOnTheServersSideDoesNotLookServed(t *testing.T) {
	t.Parallel()
	limiter, err := ratelimit.New(memstore.New(), "api", ratelimit.PerHour(9))
	if err != nil {
		t.Fatal(err)
	}
	ran := false
	e := echo.New()
	e.Use(echolimit.New(limiter))
	e.POST("/pay", func(echo.Context) error { ran = true; return nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/pay", nil).WithContext(ctx))
	if ran || w.Code != http.StatusServiceUnavailable || w.Body.Len() != 0 {
		t.Errorf("handler ran: %v, status %d, body %q; want 503 and no body", ran, w.Code, w.Body)
	}
}
