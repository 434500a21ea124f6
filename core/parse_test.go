package ratelimit_test

import (
	"encoding"
	"encoding/json"
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

var (
	_ encoding.TextMarshaler   = ratelimit.Limit{}
	_ encoding.TextUnmarshaler = (*ratelimit.Limit)(nil)
)

func TestALimitIsReadInEveryForm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want ratelimit.Limit
	}{
		{"10/s", ratelimit.PerSecond(10)},
		{"10/sec", ratelimit.PerSecond(10)},
		{"10/second", ratelimit.PerSecond(10)},
		{"10/1s", ratelimit.PerSecond(10)},
		{"5/m", ratelimit.PerMinute(5)},
		{"5/min", ratelimit.PerMinute(5)},
		{"5/minute", ratelimit.PerMinute(5)},
		{"1000/h", ratelimit.PerHour(1000)},
		{"1000/hour", ratelimit.PerHour(1000)},
		{"3/d", ratelimit.PerDay(3)},
		{"3/day", ratelimit.PerDay(3)},
		{"3/24h", ratelimit.PerDay(3)},
		{"100/15m", ratelimit.Per(100, 15*time.Minute)},
		{"1/1m30s", ratelimit.Per(1, 90*time.Second)},
		{"1/1.5ms", ratelimit.Per(1, 1500*time.Microsecond)},
		{"10/s burst 20", ratelimit.PerSecond(10).WithBurst(20)},
		{"10/s burst 10", ratelimit.PerSecond(10).WithBurst(10)},
		{"  10/s\tburst   1\n", ratelimit.PerSecond(10).WithBurst(1)},
	} {
		got, err := ratelimit.ParseLimit(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("%q: %+v, %v, want %+v", tt.text, got, err, tt.want)
		}
	}
}

func TestTextThatIsNoLimitIsRefusedAndQuoted(t *testing.T) {
	t.Parallel()
	const syntax = `want "TOKENS/PERIOD" or "TOKENS/PERIOD burst BURST"`
	for text, want := range map[string]string{
		"":                        syntax,
		" ":                       syntax,
		"10":                      syntax,
		"10 s":                    syntax,
		"10 / s":                  syntax,
		"10/s burst":              syntax,
		"10/s bursts 20":          syntax,
		"10/s burst 20 30":        syntax,
		"10/s,5/m":                "period is",
		"/s":                      "tokens is",
		"ten/s":                   "tokens is",
		"0/s":                     "tokens is",
		"-1/s":                    "tokens is",
		"1.5/s":                   "tokens is",
		"1e3/s":                   "tokens is",
		"NaN/s":                   "tokens is",
		"99999999999999999999/s":  "tokens is",
		"10/":                     "period is",
		"10/S":                    "period is",
		"10/fortnight":            "period is",
		"10/10":                   "period is",
		"10/s burst 0":            "burst is",
		"10/s burst -1":           "burst is",
		"10/s burst many":         "burst is",
		"10/0s":                   "period is 0s, must be at least 1ms",
		"10/-1s":                  "period is -1s, must be at least 1ms",
		"10/1ns":                  "period is 1ns, must be at least 1ms",
		"1000001/s":               "rate is above 1,000,000 tokens per second",
		"1/d burst 366":           "a burst of 366 takes more than 365 days to refill",
		"1/2562047h47m16.854775s": "a burst of 1 takes more than 365 days to refill",
	} {
		got, err := ratelimit.ParseLimit(text)
		prefix := `ratelimit: limit "` + text + `": `
		if got != (ratelimit.Limit{}) || err == nil || !strings.HasPrefix(err.Error(), prefix+want) {
			t.Errorf("%q: %+v, %v\nwant error %s%s…", text, got, err, prefix, want)
		}
	}
}

// validLimits are limits that New accepts.
func validLimits() *rapid.Generator[ratelimit.Limit] {
	return rapid.Custom(func(t *rapid.T) ratelimit.Limit {
		period := rapid.OneOf(
			rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, year}),
			rapid.Map(rapid.Int64Range(int64(time.Millisecond), int64(year)), func(ns int64) time.Duration { return time.Duration(ns) }),
		).Draw(t, "period")
		limit := ratelimit.Limit{
			Tokens: rapid.IntRange(1, int(period.Microseconds())).Draw(t, "tokens"),
			Period: period,
			Burst:  rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 1000), rapid.IntRange(1, 1_000_000_000)).Draw(t, "burst"),
		}
		if _, err := ratelimit.New(memstore.New(), "api", limit); err != nil {
			t.Skip(err)
		}
		return limit
	})
}

func TestALimitSurvivesBeingWrittenAndRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := validLimits().Draw(t, "limit")
		if got, err := ratelimit.ParseLimit(limit.String()); err != nil || got != limit {
			t.Fatalf("ParseLimit(%q): %+v, %v, want %+v", limit, got, err, limit)
		}
		config := map[string]ratelimit.Limit{"api": limit, "none": {}}
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]ratelimit.Limit
		if err := json.Unmarshal(text, &got); err != nil || len(got) != 2 || got["api"] != limit || got["none"] != (ratelimit.Limit{}) {
			t.Fatalf("%s is read as %+v, %v", text, got, err)
		}
	})
}

func TestEmptyTextIsTheZeroLimit(t *testing.T) {
	t.Parallel()
	limit := ratelimit.PerSecond(5)
	if err := limit.UnmarshalText(nil); err != nil || limit != (ratelimit.Limit{}) {
		t.Errorf("empty text is read as %v, %v", limit, err)
	}
	if text, err := limit.MarshalText(); err != nil || len(text) != 0 {
		t.Errorf("the zero Limit is written as %q, %v", text, err)
	}
}

func TestALimitIsAFlag(t *testing.T) {
	t.Parallel()
	flags := flag.NewFlagSet("service", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var limit ratelimit.Limit
	flags.TextVar(&limit, "limit", ratelimit.PerSecond(5).WithBurst(10), "the limit")
	if err := flags.Parse(nil); err != nil || limit != ratelimit.PerSecond(5).WithBurst(10) {
		t.Errorf("without the flag: %v, %v", limit, err)
	}
	if err := flags.Parse([]string{"-limit", "7/min"}); err != nil || limit != ratelimit.PerMinute(7) {
		t.Errorf("with the flag: %v, %v", limit, err)
	}
	if err := flags.Parse([]string{"-limit", "7/moon"}); err == nil || limit != ratelimit.PerMinute(7) {
		t.Errorf("with nonsense: %v, %v", limit, err)
	}
}

func TestALimitThatNewWouldRefuseIsNotWritten(t *testing.T) {
	t.Parallel()
	for _, tt := range refusedLimits {
		if tt.limit == (ratelimit.Limit{}) {
			continue // is written as nothing
		}
		if text, err := tt.limit.MarshalText(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %q, %v", tt.limit, text, err)
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{"10/s", "10/s burst 20", "5/min", "100/15m burst 10", "", "0/s", "1/1ns", "10/s burst 0", "1/2562047h47m16.854775807s", "１/s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		limit, err := ratelimit.ParseLimit(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "ratelimit: limit ") || limit != (ratelimit.Limit{}) {
				t.Fatalf("%q: %+v, %v", text, limit, err)
			}
			return
		}
		if again, err := ratelimit.ParseLimit(limit.String()); err != nil || again != limit {
			t.Fatalf("%q is read as %v, and that as %v, %v", text, limit, again, err)
		}
		if _, err := ratelimit.New(memstore.New(), "api", limit); err != nil {
			t.Fatalf("%q: New refuses what ParseLimit accepts: %v", text, err)
		}
	})
}
