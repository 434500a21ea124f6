package ratelimit_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

const year = 365 * 24 * time.Hour

var refusedLimits = []struct {
	limit ratelimit.Limit
	want  string
}{
	{ratelimit.Limit{}, "tokens is 0, must be at least 1"},
	{ratelimit.PerSecond(0), "tokens is 0, must be at least 1"},
	{ratelimit.PerSecond(-1), "tokens is -1, must be at least 1"},
	{ratelimit.PerSecond(math.MinInt), "tokens is -9223372036854775808, must be at least 1"},
	{ratelimit.PerSecond(math.MaxInt), "rate is above 1,000,000 tokens per second"},
	{ratelimit.PerSecond(1_000_001), "rate is above 1,000,000 tokens per second"},
	{ratelimit.Per(1001, time.Millisecond), "rate is above 1,000,000 tokens per second"},
	{ratelimit.Per(1, 0), "period is 0s, must be at least 1ms"},
	{ratelimit.Per(1, 1), "period is 1ns, must be at least 1ms"},
	{ratelimit.Per(1, time.Millisecond-1), "period is 999.999µs, must be at least 1ms"},
	{ratelimit.Per(1, -time.Second), "period is -1s, must be at least 1ms"},
	{ratelimit.Per(1, math.MinInt64), "period is -2562047h47m16.854775808s, must be at least 1ms"},
	{ratelimit.Per(1, math.MaxInt64), "a burst of 1 takes more than 365 days to refill"},
	{ratelimit.Per(1, year+1), "a burst of 1 takes more than 365 days to refill"},
	{ratelimit.PerDay(1).WithBurst(366), "a burst of 366 takes more than 365 days to refill"},
	{ratelimit.PerSecond(1).WithBurst(math.MaxInt), "a burst of 9223372036854775807 takes more than 365 days to refill"},
	{ratelimit.PerSecond(5).WithBurst(-1), "burst is -1, must be at least 1, or 0 for 5 (tokens)"},
	{ratelimit.PerSecond(5).WithBurst(math.MinInt), "burst is -9223372036854775808, must be at least 1, or 0 for 5 (tokens)"},
}

func TestALimitThatCannotWorkIsRefusedWithOneClearMessage(t *testing.T) {
	t.Parallel()
	base := newLimiter(t, memstore.New(), ratelimit.PerSecond(1))
	for _, tt := range refusedLimits {
		want := `ratelimit: limit "` + tt.limit.String() + `": ` + tt.want
		ways := map[string]func() error{
			"New":       func() error { _, err := ratelimit.New(memstore.New(), "api", tt.limit); return err },
			"With":      func() error { _, err := base.With(tt.limit); return err },
			"With more": func() error { _, err := base.With(ratelimit.PerSecond(1), tt.limit); return err },
			"WithLimit": func() error {
				_, err := ratelimit.New(memstore.New(), "api", ratelimit.PerSecond(1), ratelimit.WithLimit(tt.limit))
				return err
			},
		}
		for way, refuse := range ways {
			if err := refuse(); err == nil || err.Error() != want {
				t.Errorf("%s: error is %v\nwant %s", way, err, want)
			}
		}
	}
}

func TestALimitAtTheEdgeOfWhatIsPossibleWorks(t *testing.T) {
	t.Parallel()
	for _, limit := range []ratelimit.Limit{
		ratelimit.PerSecond(1),
		ratelimit.PerSecond(1_000_000),
		ratelimit.Per(1000, time.Millisecond),
		ratelimit.Per(1, year),
		ratelimit.PerDay(1).WithBurst(365),
		ratelimit.PerSecond(1_000_000).WithBurst(1_000_000_000),
		ratelimit.PerDay(86_400_000_000),
	} {
		l := newLimiter(t, memstore.New(), limit)
		res := allow(t, l, "k")
		if !res.Allowed || res.Limit.Burst != max(limit.Burst, 1) && res.Limit.Burst != limit.Tokens {
			t.Errorf("%v: %+v", limit, res)
		}
	}
}

// Whatever is asked for, New answers with an error or a limiter that works.
func TestNoLimitMakesNewOrACallPanic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := ratelimit.Limit{
			Tokens: rapid.Int().Draw(t, "tokens"),
			Period: time.Duration(rapid.Int64().Draw(t, "period")),
			Burst:  rapid.Int().Draw(t, "burst"),
		}
		l, err := ratelimit.New(memstore.New(), "api", limit)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "ratelimit: limit ") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error is %q", err)
			}
			return
		}
		res, err := l.Allow(t.Context(), "k")
		if err != nil || !res.Allowed || res.Remaining != res.Limit.Burst-1 || res.ResetAfter <= 0 || res.ResetAfter > year {
			t.Fatalf("%v: %+v, %v", limit, res, err)
		}
	})
}

func TestARateIsServedByWholeMicrosecondsAndNeverTooHigh(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit  ratelimit.Limit
		served int // per second
	}{
		{ratelimit.PerSecond(10), 10},
		{ratelimit.PerSecond(10_000), 10_000},
		{ratelimit.PerSecond(30_000), 29_411},
		{ratelimit.PerSecond(600_000), 500_000},
		{ratelimit.PerSecond(1_000_000), 1_000_000},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, memstore.New(), tt.limit.WithBurst(1))
			allow(t, l, "k")
			wait := allow(t, l, "k").RetryAfter
			if served := int(time.Second / wait); served != tt.served {
				t.Errorf("%v is served as %d/s, want %d/s", tt.limit, served, tt.served)
			}
		})
	}
}

func TestTheConstructorsSayWhatTheyMean(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ got, want ratelimit.Limit }{
		{ratelimit.PerSecond(2), ratelimit.Limit{Tokens: 2, Period: time.Second}},
		{ratelimit.PerMinute(2), ratelimit.Limit{Tokens: 2, Period: time.Minute}},
		{ratelimit.PerHour(2), ratelimit.Limit{Tokens: 2, Period: time.Hour}},
		{ratelimit.PerDay(2), ratelimit.Limit{Tokens: 2, Period: 24 * time.Hour}},
		{ratelimit.Per(2, time.Minute).WithBurst(7), ratelimit.Limit{Tokens: 2, Period: time.Minute, Burst: 7}},
	} {
		if tt.got != tt.want {
			t.Errorf("got %+v, want %+v", tt.got, tt.want)
		}
	}
	limit := ratelimit.PerSecond(2)
	if limit.WithBurst(9) == limit || limit.Burst != 0 {
		t.Error("WithBurst changes the limit that it is called on")
	}
}
