package service_test

import (
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/atomicbucket/ratelimit/examples/internal/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *service.Env {
	t.Helper()
	e, err := service.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// Real Redis never removes a key before its time, and neither may this one: its
// bucket would be full too early.
func TestKeysOfTheEmbeddedRedisExpireInRealTime(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	rdb := open(t).Redis
	deadline := time.Now().Add(300 * time.Millisecond)
	at := strconv.FormatInt(deadline.UnixMilli()+1, 10)
	if err := rdb.Do(t.Context(), "SET", "key", "value", "PXAT", at).Err(); err != nil {
		t.Fatal(err)
	}
	for {
		n, err := rdb.Exists(t.Context(), "key").Result()
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if early := time.Until(deadline); early > 0 {
		t.Errorf("the key was gone %v before its time", early)
	}
}

func TestAnEmptyVariableCountsAsNotSet(t *testing.T) {
	for _, variable := range []string{"ADDR", "REDIS_URL", "LIMIT", "TRUSTED_PROXIES", "API_KEYS"} {
		t.Setenv(variable, "")
	}
	e := open(t)
	if e.Addr != ":8080" || e.Limit.String() != "5/s burst 10" || len(e.Trusted) != 0 || !e.Known("demo") || e.Known("") {
		t.Errorf("%+v", e)
	}
}

func TestTheURLOfRedisOverridesTheSettingsOfALimiter(t *testing.T) {
	t.Setenv("REDIS_URL", "redis://user:hush@192.0.2.1:6380/3?read_timeout=7s")
	e := open(t)
	opts := e.Redis.Options()
	if opts.Addr != "192.0.2.1:6380" || opts.Username != "user" || opts.Password != "hush" || opts.DB != 3 {
		t.Errorf("%+v", opts)
	}
	if opts.ReadTimeout != 7*time.Second || opts.WriteTimeout != 100*time.Millisecond || !opts.ContextTimeoutEnabled {
		t.Errorf("read timeout %v, write timeout %v", opts.ReadTimeout, opts.WriteTimeout)
	}
	if e.Where != "Redis at 192.0.2.1:6380" {
		t.Errorf("where: %q", e.Where)
	}
}

func TestAllMalformedVariablesAreReportedAtOnce(t *testing.T) {
	t.Setenv("LIMIT", "5")
	t.Setenv("TRUSTED_PROXIES", "proxy")
	t.Setenv("REDIS_URL", "http://localhost")
	_, err := service.Open()
	want := `LIMIT: ratelimit: limit "5": want "TOKENS/PERIOD" or "TOKENS/PERIOD burst BURST", such as "10/s", "100/15m" or "10/s burst 20"
TRUSTED_PROXIES: httplimit: trusted proxy "proxy" is neither an address nor a prefix such as 10.0.3.0/28
REDIS_URL: redis: invalid URL scheme: http: write redis://user:password@host:6379/0`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}
