package adaptertest

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

const (
	both = httplimit.XRateLimit | httplimit.IETFDraft11
	year = 365 * 24 * time.Hour
)

// quotaHeaders are all headers that a limiter may send on any answer.
var quotaHeaders = []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy", "RateLimit"}

// headerCase is a bucket and what a response says of it. Headers that are not
// wanted must be absent.
type headerCase struct {
	name    string
	limit   ratelimit.Limit
	further ratelimit.Limit
	deficit time.Duration // before the request
	headers httplimit.Headers
	status  int
	want    map[string]string
}

func headerCases() []headerCase {
	tenPerSecond := ratelimit.PerSecond(10).WithBurst(20)
	return []headerCase{
		{"the default, bucket full", tenPerSecond, ratelimit.Limit{}, 0, 0, 200, map[string]string{
			"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "19", "X-RateLimit-Reset": "1",
		}},
		{"the default, last token", tenPerSecond, ratelimit.Limit{}, 1900 * time.Millisecond, 0, 200, map[string]string{
			"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "2",
		}},
		{"the default, denied", ratelimit.PerMinute(1), ratelimit.Limit{}, time.Minute, 0, 429, map[string]string{
			"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "60", "Retry-After": "60",
		}},
		{"half of the wait is over", ratelimit.PerMinute(1), ratelimit.Limit{}, 30 * time.Second, 0, 429, map[string]string{
			"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "30", "Retry-After": "30",
		}},
		{"a wait below a second", tenPerSecond, ratelimit.Limit{}, 1901 * time.Millisecond, httplimit.NoHeaders, 429, map[string]string{
			"Retry-After": "1",
		}},
		{"a wait just above a second", ratelimit.PerMinute(1), ratelimit.Limit{}, time.Second + time.Microsecond, httplimit.NoHeaders, 429, map[string]string{
			"Retry-After": "2",
		}},
		{"no headers", tenPerSecond, ratelimit.Limit{}, 0, httplimit.NoHeaders, 200, nil},
		{"IETF, bucket full", tenPerSecond, ratelimit.Limit{}, 0, httplimit.IETFDraft11, 200, map[string]string{
			"RateLimit-Policy": `"api";q=20;w=2`, "RateLimit": `"api";r=19;t=2`,
		}},
		{"IETF, part of a token left", tenPerSecond, ratelimit.Limit{}, 1850 * time.Millisecond, httplimit.IETFDraft11, 200, map[string]string{
			"RateLimit-Policy": `"api";q=20;w=2`, "RateLimit": `"api";r=0;t=1`,
		}},
		{"IETF, nothing left", ratelimit.PerHour(1), ratelimit.Limit{}, 0, httplimit.IETFDraft11, 200, map[string]string{
			"RateLimit-Policy": `"api";q=1;w=3600`, "RateLimit": `"api";r=0;t=3600`,
		}},
		{"IETF, denied", ratelimit.PerMinute(1), ratelimit.Limit{}, 30 * time.Second, httplimit.IETFDraft11, 429, map[string]string{
			"RateLimit-Policy": `"api";q=1;w=60`, "RateLimit": `"api";r=0;t=30`, "Retry-After": "30",
		}},
		{"IETF, a window below a second", ratelimit.PerSecond(100).WithBurst(1), ratelimit.Limit{}, 0, httplimit.IETFDraft11, 200, map[string]string{
			"RateLimit-Policy": `"api";q=1;w=1`, "RateLimit": `"api";r=0;t=1`,
		}},
		{"both", tenPerSecond, ratelimit.Limit{}, 0, both, 200, map[string]string{
			"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "19", "X-RateLimit-Reset": "1",
			"RateLimit-Policy": `"api";q=20;w=2`, "RateLimit": `"api";r=19;t=2`,
		}},
		{"two limits", tenPerSecond, ratelimit.PerHour(1000), 0, both, 200, map[string]string{
			"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "19", "X-RateLimit-Reset": "1",
			"RateLimit-Policy": `"api";q=20;w=2, "api.1";q=1000;w=3600`, "RateLimit": `"api";r=19;t=2, "api.1";r=999;t=3597`,
		}},
		{"two limits, one of them denies", ratelimit.PerMinute(1), ratelimit.PerHour(1000), time.Minute, both, 429, map[string]string{
			"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "60", "Retry-After": "60",
			"RateLimit-Policy": `"api";q=1;w=60, "api.1";q=1000;w=3600`, "RateLimit": `"api";r=0;t=60, "api.1";r=983;t=3540`,
		}},
		{"a year and a billion", ratelimit.Per(1_000_000_000, year), ratelimit.Limit{}, year, both, 429, map[string]string{
			"X-RateLimit-Limit": "1000000000", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "31536000", "Retry-After": "1",
			"RateLimit-Policy": `"api";q=1000000000;w=31536000`, "RateLimit": `"api";r=0;t=1`,
		}},
		{"a billion left", ratelimit.Per(1_000_000_000, year), ratelimit.Limit{}, 0, both, 200, map[string]string{
			"X-RateLimit-Limit": "1000000000", "X-RateLimit-Remaining": "999999999", "X-RateLimit-Reset": "1",
			"RateLimit-Policy": `"api";q=1000000000;w=31536000`, "RateLimit": `"api";r=999999999;t=31536000`,
		}},
		{"one a year", ratelimit.Per(1, year), ratelimit.Limit{}, year, both, 429, map[string]string{
			"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "31536000", "Retry-After": "31536000",
			"RateLimit-Policy": `"api";q=1;w=31536000`, "RateLimit": `"api";r=0;t=31536000`,
		}},
	}
}

// localHeaderCases are decided on a quarter of the limit: of 8/min there are two
// tokens, and each takes 30 s to refill.
func localHeaderCases() []headerCase {
	eightPerMinute := ratelimit.PerMinute(8)
	return []headerCase{
		{"local, bucket full", eightPerMinute, ratelimit.Limit{}, 0, both, 200, map[string]string{
			"X-RateLimit-Limit": "8", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "30",
			"RateLimit-Policy": `"api";q=8;w=60`, "RateLimit": `"api";r=1;t=30`,
		}},
		{"local, nothing left", eightPerMinute, ratelimit.Limit{}, 30 * time.Second, both, 200, map[string]string{
			"X-RateLimit-Limit": "8", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "60",
			"RateLimit-Policy": `"api";q=8;w=60`, "RateLimit": `"api";r=0;t=60`,
		}},
		{"local, part of a token left", eightPerMinute, ratelimit.Limit{}, 25 * time.Second, both, 200, map[string]string{
			"X-RateLimit-Limit": "8", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "55",
			"RateLimit-Policy": `"api";q=8;w=60`, "RateLimit": `"api";r=0;t=55`,
		}},
		{"local, denied", eightPerMinute, ratelimit.Limit{}, 45 * time.Second, both, 429, map[string]string{
			"X-RateLimit-Limit": "8", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "45", "Retry-After": "15",
			"RateLimit-Policy": `"api";q=8;w=60`, "RateLimit": `"api";r=0;t=15`,
		}},
		{"local, two limits", eightPerMinute, ratelimit.PerHour(1000), 30 * time.Second, both, 200, map[string]string{
			"X-RateLimit-Limit": "8", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "60",
			"RateLimit-Policy": `"api";q=8;w=60, "api.1";q=1000;w=3600`, "RateLimit": `"api";r=0;t=60, "api.1";r=246;t=3556`,
		}},
	}
}

func (s suite[C, H]) testHeaders(t *testing.T) {
	s.testHeaderCases(t, headerCases(), func(c headerCase, opts ...ratelimit.Option) *ratelimit.Limiter {
		return limiter(t, level{newStore().Store, c.deficit}, "api", c.limit, opts...)
	})
	t.Run("a local decision tells how its share stands", func(t *testing.T) {
		s.testHeaderCases(t, localHeaderCases(), func(c headerCase, opts ...ratelimit.Option) *ratelimit.Limiter {
			failing := newStore()
			failing.fail(errBroken)
			local := ratelimit.FailLocal(level{newStore().Store, c.deficit}, 0.25)
			return limiter(t, failing, "api", c.limit, append(opts, local)...)
		})
	})
	t.Run("GitHub's reset is a point in time", s.testEpochReset)
	t.Run("jitter makes the wait longer, by less than itself", s.testJitter)
	t.Run("headers of an outer middleware stay on a denial", s.testOuterHeaders)
}

// testHeaderCases sends one request for each case, to the limiter made for it.
func (s suite[C, H]) testHeaderCases(t *testing.T, cases []headerCase, newLimiter func(headerCase, ...ratelimit.Option) *ratelimit.Limiter) {
	t.Helper()
	var handler seen
	var routes []Route[C, H]
	for i, c := range cases {
		var opts []ratelimit.Option
		if c.further.Tokens > 0 {
			opts = append(opts, ratelimit.WithLimit(c.further))
		}
		routes = append(routes, s.route("/"+strconv.Itoa(i), handler.ok(), newLimiter(c, opts...), httplimit.Config[C, H]{Headers: c.headers}))
	}
	client := s.start(t, routes...)
	for i, c := range cases {
		res := client.expect(c.status, routes[i].Path)
		for _, name := range append(quotaHeaders, "Retry-After") {
			if got := strings.Join(res.header.Values(name), " and "); got != c.want[name] {
				t.Errorf("%s: %s: %q, want %q", c.name, name, got, c.want[name])
			}
		}
	}
}

func (s suite[C, H]) testEpochReset(t *testing.T) {
	var handler seen
	l := limiter(t, level{newStore().Store, time.Hour}, "api", ratelimit.PerHour(1))
	client := s.start(t, s.route("/", handler.ok(), l, httplimit.Config[C, H]{Headers: httplimit.GitHub}))
	earliest := time.Now().Add(time.Hour).Unix()
	res := client.expect(429, "/")
	reset, err := strconv.ParseInt(res.get("X-RateLimit-Reset"), 10, 64)
	if latest := time.Now().Add(time.Hour).Unix() + 1; err != nil || reset < earliest || reset > latest {
		t.Errorf("X-RateLimit-Reset %q, want %d to %d", res.get("X-RateLimit-Reset"), earliest, latest)
	}
	res.wantHeader(t, "X-RateLimit-Limit", "1")
}

func (s suite[C, H]) testJitter(t *testing.T) {
	var handler seen
	l := limiter(t, level{newStore().Store, time.Minute}, "api", ratelimit.PerMinute(1))
	client := s.start(t, s.route("/", handler.ok(), l, httplimit.Config[C, H]{RetryJitter: 1000 * time.Second, Headers: both}))
	waits := map[string]bool{}
	for range 20 {
		res := client.expect(429, "/")
		wait := res.get("Retry-After")
		waits[wait] = true
		if n, err := strconv.Atoi(wait); err != nil || n < 60 || n > 1060 {
			t.Errorf("Retry-After %q, want 60 to 1060", wait)
		}
		res.wantHeader(t, "RateLimit", `"api";r=0;t=`+wait)
	}
	if len(waits) < 2 {
		t.Errorf("all clients are told to wait alike: %v", slices.Collect(maps.Keys(waits)))
	}
}

func (s suite[C, H]) testOuterHeaders(t *testing.T) {
	var handler seen
	l := limiter(t, level{newStore().Store, time.Minute}, "api", ratelimit.PerMinute(1))
	cors := s.route("/cors", handler.ok(), l)
	cors.Outer = map[string]string{"Access-Control-Allow-Origin": "https://a.test", "Retry-After": "1"}
	longer := s.route("/longer", handler.ok(), l)
	longer.Outer = map[string]string{"Retry-After": "999"}
	client := s.start(t, cors, longer)
	res := client.expect(429, "/cors")
	res.wantHeader(t, "Access-Control-Allow-Origin", "https://a.test")
	res.wantHeader(t, "Retry-After", "60")
	client.expect(429, "/longer").wantHeader(t, "Retry-After", "999")
}

func (s suite[C, H]) testStacked(t *testing.T) {
	stack := func(path string, outer, inner int, handler *seen) Route[C, H] {
		config := []httplimit.Config[C, H]{{Headers: both}}
		return Route[C, H]{Path: path, Handler: s.Handler(handler.ok()), Limits: []Limit[C, H]{
			{limiter(t, newStore(), "outer", ratelimit.PerHour(outer)), config},
			{limiter(t, newStore(), "inner", ratelimit.PerDay(inner)), config},
		}}
	}
	t.Run("the inner limiter is tighter", func(t *testing.T) {
		t.Parallel()
		var handler seen
		client := s.start(t, stack("/", 100, 1, &handler))
		res := client.expect(200, "/")
		res.wantHeader(t, "X-RateLimit-Limit", "1")
		res.wantHeader(t, "X-RateLimit-Remaining", "0")
		res.wantHeader(t, "RateLimit-Policy", `"outer";q=100;w=3600, "inner";q=1;w=86400`)
		res.wantHeader(t, "RateLimit", `"outer";r=99;t=3564, "inner";r=0;t=86400`)
		if result, ok := handler.last(t); !ok || result.Name != "inner" {
			t.Errorf("ResultFrom: %+v, %v, want that of inner", result, ok)
		}
		denied := client.expect(429, "/")
		denied.wantHeader(t, "X-RateLimit-Limit", "1")
		if !regexp.MustCompile(`^"outer";r=98;t=\d+, "inner";r=0;t=\d+$`).MatchString(denied.get("RateLimit")) {
			t.Errorf("RateLimit: %q, want both", denied.get("RateLimit"))
		}
		if wait, _ := strconv.Atoi(denied.get("Retry-After")); wait < 80_000 || wait > 86_400 {
			t.Errorf("Retry-After: %q, want that of inner", denied.get("Retry-After"))
		}
	})
	t.Run("the outer limiter is tighter", func(t *testing.T) {
		t.Parallel()
		var handler seen
		client := s.start(t, stack("/", 1, 100, &handler))
		res := client.expect(200, "/")
		res.wantHeader(t, "X-RateLimit-Limit", "1")
		res.wantHeader(t, "X-RateLimit-Remaining", "0")
		res.wantHeader(t, "X-RateLimit-Reset", "3600")
		denied := client.expect(429, "/")
		denied.wantHeader(t, "RateLimit-Policy", `"outer";q=1;w=3600`)
		if handler.count() != 1 {
			t.Errorf("the handler has run %d times, want 1", handler.count())
		}
	})
}

func (s suite[C, H]) testSharedConnection(t *testing.T) {
	var handler seen
	client := s.start(t, s.route("/", handler.ok(), limiter(t, newStore(), "api", ratelimit.PerHour(3))))
	client.do(http.MethodHead, "/").wantHeader(t, "X-RateLimit-Remaining", "2")
	client.expect(200, "/").wantHeader(t, "X-RateLimit-Remaining", "1")
	client.do(http.MethodHead, "/")
	for range 3 { // a body after HEAD would be read as the next response
		if res := client.do(http.MethodHead, "/"); res.status != 429 || res.body != "" {
			t.Fatalf("HEAD: %+v, want 429 without a body", res)
		}
		client.expect(429, "/")
	}
}
