// Package examples_test tests the examples from outside, as processes.
package examples_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atomicbucket/ratelimit/core/redistest"
)

// services are the examples that are the same service. One that is added is
// tested from its first day.
var services = []string{"nethttp", "gin", "echo", "chi", "fiber"}

// slow is a limit that refills no token during a test: one every 6 minutes.
const slow = "LIMIT=10/h"

// each runs f on each service: with the Redis inside it, and with a real one.
func each(t *testing.T, f func(t *testing.T, name, redis string)) {
	t.Helper()
	for _, name := range services {
		t.Run(name+"/embedded", func(t *testing.T) { f(t, name, "REDIS_URL=") })
		t.Run(name+"/real", func(t *testing.T) { f(t, name, at(redistest.Start(t))) })
	}
}

// eachEmbedded runs f on each service with the Redis inside it.
func eachEmbedded(t *testing.T, f func(t *testing.T, name string)) {
	t.Helper()
	for _, name := range services {
		t.Run(name, func(t *testing.T) { f(t, name) })
	}
}

// eachReal runs f on each service with a Redis of its own.
func eachReal(t *testing.T, f func(t *testing.T, name string, redis *redistest.Server)) {
	t.Helper()
	for _, name := range services {
		t.Run(name, func(t *testing.T) { f(t, name, redistest.Start(t)) })
	}
}

func at(server *redistest.Server) string { return "REDIS_URL=redis://" + server.Addr() }

func (r response) wants(t *testing.T, status int, body string) {
	t.Helper()
	if r.status != status || r.body != body {
		t.Errorf("%d %q, want %d %q", r.status, r.body, status, body)
	}
}

func (r response) wantsStatus(t *testing.T, status int) {
	t.Helper()
	if r.status != status {
		t.Errorf("%d %q, want %d", r.status, r.body, status)
	}
}

func (r response) wantsHeader(t *testing.T, name, want string) {
	t.Helper()
	if got := r.header.Get(name); got != want {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

// wantsRemaining checks that both kinds of headers say how many tokens are left.
func (r response) wantsRemaining(t *testing.T, tokens int) {
	t.Helper()
	r.wantsHeader(t, "X-RateLimit-Remaining", strconv.Itoa(tokens))
	if _, r11, _ := strings.Cut(r.header.Get("RateLimit"), ";r="); !strings.HasPrefix(r11, fmt.Sprint(tokens, ";t=")) {
		t.Errorf("RateLimit: %q, want r=%d", r.header.Get("RateLimit"), tokens)
	}
}

func TestTheFirstLineSaysWhatItIsAndHowToTryIt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, name, redis string) {
		p := start(t, name, redis)
		where := "inside this process"
		if redis != "REDIS_URL=" {
			where = strings.TrimPrefix(redis, "REDIS_URL=redis://")
		}
		for _, want := range []string{name, "5/s burst 10", where, "curl -i " + p.url} {
			if !strings.Contains(p.line, want) {
				t.Errorf("%q is not in %q", want, p.line)
			}
		}
		first := p.get("/")
		first.wants(t, 200, "hello")
		first.wantsRemaining(t, 9)
		first.wantsHeader(t, "X-RateLimit-Limit", "10")
		first.wantsHeader(t, "RateLimit-Policy", `"api";q=10;w=2`)
	})
}

func TestElevenCallsAreTenThatCountDownAndADenial(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, name, redis string) {
		p := start(t, name, redis, slow)
		began := time.Now()
		for left := 9; left >= 0; left-- {
			r := p.get("/")
			r.wants(t, 200, "hello")
			r.wantsRemaining(t, left)
			r.wantsHeader(t, "Retry-After", "")
		}
		denied := p.get("/", "Accept", "application/json")
		denied.wantsStatus(t, 429)
		denied.wantsRemaining(t, 0)
		denied.wantsHeader(t, "X-RateLimit-Limit", "10")
		denied.wantsHeader(t, "RateLimit-Policy", `"api";q=10;w=3600`)
		denied.wantsHeader(t, "Cache-Control", "no-store")
		wait := denied.retryAfter(t)
		if earliest := 360 - time.Since(began).Seconds(); float64(wait) < earliest || wait > 360 {
			t.Errorf("Retry-After: %d, want at most 360 and at least %.3f", wait, earliest)
		}
		denied.wantsHeader(t, "RateLimit", fmt.Sprintf(`"api";r=0;t=%d`, wait))
	})
}

var wholeSeconds = regexp.MustCompile(`^[1-9][0-9]*$`)

func (r response) retryAfter(t *testing.T) int {
	t.Helper()
	text := r.header.Get("Retry-After")
	if !wholeSeconds.MatchString(text) {
		t.Fatalf("Retry-After: %q on a %d", text, r.status)
	}
	seconds, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}

func TestADeniedClientIsAdmittedAfterRetryAfter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, name, redis string) {
		p := start(t, name, redis, "LIMIT=1/s")
		var r response
		await(t, "a denial", func() bool { r = p.get("/"); return r.status == 429 })
		time.Sleep(time.Duration(r.retryAfter(t)) * time.Second)
		p.get("/").wants(t, 200, "hello")
	})
}

func TestHeadSpendsFromTheSameBucketAndHasNoBody(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, name, redis string) {
		p := start(t, name, redis, "LIMIT=2/h")
		head := p.do(http.MethodHead, "/")
		head.wants(t, 200, "")
		head.wantsRemaining(t, 1)
		p.get("/").wantsRemaining(t, 0)
		denied := p.do(http.MethodHead, "/")
		denied.wants(t, 429, "")
		denied.retryAfter(t)
	})
}

func TestASearchCostsFiveOfTheSameBucket(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, name, redis string) {
		p := start(t, name, redis, slow)
		found := p.get("/search")
		found.wantsStatus(t, 200)
		found.wantsRemaining(t, 5)
		p.get("/").wantsRemaining(t, 4)
		denied := p.get("/search")
		denied.wantsStatus(t, 429)
		denied.wantsRemaining(t, 4)
		denied.retryAfter(t)
		p.get("/").wantsRemaining(t, 3)
	})
}

func TestOnlyFailuresToLogInCount(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, name, redis string) {
		p := start(t, name, redis)
		for range 7 {
			right := p.do(http.MethodPost, "/login", "X-Password", "right")
			right.wants(t, 200, "ok")
			right.wantsHeader(t, "RateLimit-Policy", `"login";q=5;w=60`)
		}
		for left := 4; left >= 0; left-- {
			wrong := p.do(http.MethodPost, "/login", "X-Password", "wrong", "X-API-Key", "demo")
			wrong.wantsStatus(t, 401)
			wrong.wantsRemaining(t, left)
		}
		denied := p.do(http.MethodPost, "/login", "X-API-Key", "other")
		denied.wantsStatus(t, 429)
		if wait := denied.retryAfter(t); wait > 12 {
			t.Errorf("Retry-After: %d, want at most 12", wait)
		}
		p.do(http.MethodPost, "/login", "X-Password", "right").wantsStatus(t, 429)
		p.get("/").wants(t, 200, "hello") // which has another limiter
	})
}

func TestAClientIsItsKnownAPIKeyElseItsAddress(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, name, redis string) {
		p := start(t, name, redis, slow)
		p.get("/", "X-API-Key", "demo").wantsRemaining(t, 9)
		p.get("/", "X-API-Key", "other").wantsRemaining(t, 9)
		p.get("/", "X-API-Key", "demo").wantsRemaining(t, 8)
		p.get("/").wantsRemaining(t, 9)
		p.get("/", "X-API-Key", "unknown").wantsRemaining(t, 8)
		p.get("/", "X-API-Key", "random").wantsRemaining(t, 7)
		p.get("/search", "X-API-Key", "demo").wantsRemaining(t, 3)
	})
}

func TestAnAPIKeyNeverReachesRedis(t *testing.T) {
	t.Parallel()
	eachReal(t, func(t *testing.T, name string, redis *redistest.Server) {
		start(t, name, at(redis), slow).get("/", "X-API-Key", "demo").wantsRemaining(t, 9)
		if keys := redis.Do("KEYS", "*"); strings.Contains(keys, "demo") || !strings.Contains(keys, "{api:k:") {
			t.Errorf("keys in Redis: %q", keys)
		}
	})
}

func TestForwardedAddressesAreBelievedOfTrustedProxiesAlone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, name, redis string) {
		const header = "X-Forwarded-For"
		p := start(t, name, redis, slow, "TRUSTED_PROXIES=10.0.0.0/8, 127.0.0.0/8")
		p.get("/", header, "203.0.113.1").wantsRemaining(t, 9)
		p.get("/", header, "203.0.113.2").wantsRemaining(t, 9)
		p.get("/", header, "198.51.100.9, 203.0.113.1, 10.1.2.3").wantsRemaining(t, 8)
		p.do(http.MethodPost, "/login", header, "203.0.113.1").wantsRemaining(t, 4)
		p.do(http.MethodPost, "/login", header, "203.0.113.2").wantsRemaining(t, 4)

		p = start(t, name, "REDIS_URL=", slow)
		p.get("/", header, "203.0.113.1").wantsRemaining(t, 9)
		p.get("/", header, "203.0.113.2").wantsRemaining(t, 8)
		p.do(http.MethodPost, "/login", header, "203.0.113.1").wantsRemaining(t, 4)
		p.do(http.MethodPost, "/login", header, "203.0.113.2").wantsRemaining(t, 3)
	})
}

func TestHealthIsNeitherLimitedNorAskedOfRedis(t *testing.T) {
	t.Parallel()
	eachReal(t, func(t *testing.T, name string, redis *redistest.Server) {
		p := start(t, name, at(redis), "LIMIT=1/h")
		commands := func() int {
			n, err := strconv.Atoi(redis.Info("total_commands_processed"))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := commands()
		asking := commands() - before
		before = commands()
		for range 20 {
			r := p.get("/healthz")
			r.wantsStatus(t, 200)
			r.wantsHeader(t, "RateLimit", "")
			r.wantsHeader(t, "X-RateLimit-Limit", "")
		}
		if n := commands() - before - asking; n != 0 {
			t.Errorf("%d commands for 20 requests", n)
		}
	})
}

func TestAStreamIsFlushedEventByEvent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, name, redis string) {
		p := start(t, name, redis, slow)
		res, err := p.open(http.MethodGet, "/stream")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		response{status: res.StatusCode, header: res.Header}.wantsRemaining(t, 9)
		if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") {
			t.Errorf("Content-Type: %q", got)
		}
		var sent, seen []time.Time
		for event := range events(res) {
			seen = append(seen, time.Now())
			at, err := time.Parse(time.RFC3339Nano, event)
			if err != nil {
				t.Fatal(err)
			}
			sent = append(sent, at)
		}
		// Two seconds lie between the first and the last.
		if len(sent) != 5 || !seen[0].Before(sent[4]) {
			t.Errorf("%d events; the first was seen %v, the last was sent %v", len(sent), seen, sent)
		}
	})
}

// events are the data of the server-sent events of a response.
func events(res *http.Response) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && !yield(data) {
				return
			}
		}
	}
}

func TestAShutdownLetsAStreamEnd(t *testing.T) {
	t.Parallel()
	eachEmbedded(t, func(t *testing.T, name string) {
		p := start(t, name)
		defer p.idle().Close()
		res, err := p.open(http.MethodGet, "/stream")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		seen := 0
		for range events(res) {
			if seen++; seen == 1 {
				p.stop()
				await(t, "a closed port", p.refusesConnections)
			}
		}
		if seen != 5 {
			t.Errorf("%d events of 5", seen)
		}
		if code := p.exitCode(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
}

// idle returns a connection that is kept open after a request, as browsers do.
func (p *process) idle() net.Conn {
	p.t.Helper()
	conn, err := p.dial()
	if err != nil {
		p.t.Fatal(err)
	}
	fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		p.t.Fatal(err)
	}
	return conn
}

func (p *process) dial() (net.Conn, error) {
	return net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
}

func (p *process) refusesConnections() bool {
	conn, err := p.dial()
	if err == nil {
		conn.Close()
	}
	return err != nil
}

func TestAServiceStartsAndServesWithoutItsRedis(t *testing.T) {
	t.Parallel()
	eachReal(t, func(t *testing.T, name string, redis *redistest.Server) {
		redis.Kill()
		p := launch(t, name, at(redis), slow)
		p.wantsNoRedis(t)
		redis.Restart()
		await(t, "a limit", func() bool { return p.limited("warm") })
		p.do(http.MethodPost, "/login").wantsStatus(t, 401)
	})
}

func TestRedisThatGoesOpensTheServiceAndClosesTheLogin(t *testing.T) {
	t.Parallel()
	eachReal(t, func(t *testing.T, name string, redis *redistest.Server) {
		p := start(t, name, at(redis), slow)
		redis.Kill()
		p.wantsNoRedis(t)
		redis.Restart()
		await(t, "a limit", func() bool { return p.limited("warm") })
	})
}

// wantsNoRedis checks that nobody is limited, nobody may log in, and all is well
// otherwise.
func (p *process) wantsNoRedis(t *testing.T) {
	t.Helper()
	for range 12 {
		open := p.get("/")
		open.wants(t, 200, "hello")
		open.wantsHeader(t, "RateLimit", "")
		open.wantsHeader(t, "X-RateLimit-Limit", "")
		closed := p.do(http.MethodPost, "/login", "X-Password", "right")
		closed.wantsStatus(t, 503)
		closed.retryAfter(t)
	}
	p.get("/healthz").wantsStatus(t, 200)
}

func TestInstancesInTwoFrameworksShareABucketToTheToken(t *testing.T) {
	t.Parallel()
	for i, name := range services {
		twin := services[(i+1)%len(services)]
		t.Run(name+" and "+twin, func(t *testing.T) {
			redis := at(redistest.Start(t))
			var instances []*process
			for _, name := range []string{name, twin} {
				instances = append(instances, start(t, name, redis, "LIMIT=50/h"))
			}
			for _, header := range []string{"X-API-Key", "X-Nothing"} {
				if admitted, denied := load(t, instances, header); admitted != 50 || denied != 50 {
					t.Errorf("by %s: %d admitted and %d denied, want 50 of 100", header, admitted, denied)
				}
			}
		})
	}
}

// load sends 100 requests to the instances in turn, several at a time.
func load(t *testing.T, instances []*process, header string) (admitted, denied int64) {
	t.Helper()
	var ok, tooMany atomic.Int64
	var running sync.WaitGroup
	for i := range 10 {
		running.Go(func() {
			for range 10 {
				r, err := instances[i%len(instances)].try(http.MethodGet, "/", header, "demo")
				switch {
				case err != nil:
					t.Error(err)
				case r.status == 200 && r.header.Get("RateLimit") != "":
					ok.Add(1)
				case r.status == 429:
					tooMany.Add(1)
				default:
					t.Errorf("%d %v", r.status, r.header)
				}
			}
		})
	}
	running.Wait()
	return ok.Load(), tooMany.Load()
}

func TestWhatCannotWorkIsSaidAndExitsWithOne(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, name := range services {
		for _, c := range []struct{ env, want string }{
			{"ADDR=" + taken.Addr().String(), "address already in use"},
			{"ADDR=nowhere", "missing port"},
			{"LIMIT=5", `limit "5"`},
			{"LIMIT=0/s", `limit "0/s"`},
			{"REDIS_URL=localhost:6379", "redis://"},
			{"TRUSTED_PROXIES=10.0.0.0/8, proxy", `"proxy"`},
		} {
			code, message := refusal(t, name, c.env)
			variable, _, _ := strings.Cut(c.env, "=")
			if code != 1 || !strings.Contains(message, variable) || !strings.Contains(message, c.want) {
				t.Errorf("%s, %s: exit code %d, says %q, want %s and %q", name, c.env, code, message, variable, c.want)
			}
		}
	}
}

func TestAMalformedURLKeepsItsPassword(t *testing.T) {
	t.Parallel()
	for _, name := range services {
		if _, message := refusal(t, name, "REDIS_URL=redis://:hush@[host"); strings.Contains(message, "hush") {
			t.Errorf("%s says %q", name, message)
		}
	}
}

func TestTheRaceIsWonByTheScriptAlone(t *testing.T) {
	t.Parallel()
	for _, redis := range []string{"embedded", "real"} {
		t.Run(redis, func(t *testing.T) {
			cmd := command(t, "race")
			if redis == "real" {
				cmd.Env = append(cmd.Env, at(redistest.Start(t)))
			}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			counts := regexp.MustCompile(`admitted +(\d+)`).FindAllSubmatch(out, -1)
			if len(counts) != 2 || string(counts[1][1]) != "100" {
				t.Fatalf("want 100 admitted by ours: %s", out)
			}
			if naive, _ := strconv.Atoi(string(counts[0][1])); naive <= 100 {
				t.Errorf("the naive limiter has not over-admitted: %s", out)
			}
		})
	}
}
