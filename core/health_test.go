package ratelimit_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

var quiet = slog.New(slog.DiscardHandler)

// logged keeps what is written to its logger.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// lines are the lines logged so far.
func (l *logged) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(strings.Lines(l.text.String()))
}

const (
	lineLost = `level=WARN msg="ratelimit: store is lost, the failure policy decides" limiter=api cause="store is on fire"` + "\n"
	lineBack = `level=INFO msg="ratelimit: store is back" limiter=api` + "\n"
)

func (l *logged) mustBe(t *testing.T, want ...string) {
	t.Helper()
	if got := l.lines(); !slices.Equal(got, want) {
		t.Fatalf("logged\n%s\nwant\n%s", strings.Join(got, ""), strings.Join(want, ""))
	}
}

func TestALostStoreIsLoggedOnceAndOnceWhenItIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, log := newFlakyStore(), &logged{}
		l := newLimiter(t, store, ratelimit.PerDay(1000), ratelimit.WithLogger(log.logger()))
		withPlan, err := l.With(ratelimit.PerDay(5))
		if err != nil {
			t.Fatal(err)
		}
		allow(t, l, "k")
		log.mustBe(t)

		store.fail(errLost)
		for range 100 {
			allow(t, l, "k")
			allow(t, withPlan, "k")
			time.Sleep(time.Minute)
		}
		log.mustBe(t, lineLost)

		store.fail(nil)
		for range 100 {
			allow(t, l, "k")
			allow(t, withPlan, "k")
		}
		log.mustBe(t, lineLost, lineBack)

		store.fail(errLost)
		allow(t, l, "k")
		log.mustBe(t, lineLost, lineBack, lineLost)
	})
}

func TestAStoreThatComesAndGoesIsLoggedAsLostUntilItIsSteady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, log := newFlakyStore(), &logged{}
		l := newLimiter(t, store, ratelimit.PerDay(100_000), ratelimit.WithLogger(log.logger()))
		for range 100 {
			store.fail(errLost)
			allow(t, l, "k")
			store.fail(nil)
			for range 9 {
				time.Sleep(100 * time.Millisecond)
				allow(t, l, "k")
			}
		}
		log.mustBe(t, lineLost)
		time.Sleep(100 * time.Millisecond)
		allow(t, l, "k")
		log.mustBe(t, lineLost, lineBack)
	})
}

func TestAShortcutDoesNotSayThatTheStoreIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &logged{}
		store := &switching{flakyStore: newFlakyStore()}
		l := newLimiter(t, store, ratelimit.PerDay(1), ratelimit.WithLogger(log.logger()))
		store.fail(errLost)
		allow(t, l, "k")
		time.Sleep(time.Hour)
		store.shortcut = true
		allow(t, l, "k")
		log.mustBe(t, lineLost)
		store.fail(nil)
		store.shortcut = false
		allow(t, l, "k")
		log.mustBe(t, lineLost, lineBack)
	})
}

// switching is a store that can answer by its shortcut alone.
type switching struct {
	*flakyStore

	shortcut bool
}

func (s *switching) Take(ctx context.Context, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	if s.shortcut {
		return ratelimit.Decision{Source: ratelimit.SourceShortcut}, nil
	}
	return s.flakyStore.Take(ctx, buckets)
}

func misconfigured(what string) error {
	return fmt.Errorf("redisstore: %s: %w", what, ratelimit.ErrMisconfigured)
}

func TestAMisconfigurationIsLoggedOnceAsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, log := newFlakyStore(), &logged{}
		l := newLimiter(t, store, ratelimit.PerDay(1000), ratelimit.WithLogger(log.logger()))
		line := func(what string) string {
			return fmt.Sprintf("level=ERROR msg=%q limiter=api cause=%q\n",
				"ratelimit: store is misconfigured, the failure policy decides", misconfigured(what).Error())
		}
		for _, what := range []string{"NOAUTH", "WRONGTYPE"} {
			store.fail(misconfigured(what))
			for range 50 {
				if res := allow(t, l, "k"); !res.Allowed || res.Source != ratelimit.SourcePolicy {
					t.Fatalf("the policy does not decide: %+v", res)
				}
				time.Sleep(time.Minute)
			}
		}
		log.mustBe(t, line("NOAUTH"), line("WRONGTYPE"))
		time.Sleep(time.Hour)
		allow(t, l, "k")
		log.mustBe(t, line("NOAUTH"), line("WRONGTYPE"), line("WRONGTYPE"))
		store.fail(nil)
		allow(t, l, "k")
		if n := len(log.lines()); n != 3 {
			t.Errorf("%d lines when it works, want no more than the 3", n)
		}
	})
}

func TestMisconfigurationsWithoutEndDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	store, log := newFlakyStore(), &logged{}
	l := newLimiter(t, store, ratelimit.PerDay(1000), ratelimit.WithLogger(log.logger()))
	for i := range 1000 {
		store.fail(misconfigured(fmt.Sprint("key ", i)))
		allow(t, l, "k")
	}
	if n := len(log.lines()); n != 16 {
		t.Errorf("%d lines are logged for 1000 misconfigurations, want 16", n)
	}
}

func TestManyCallersLogOneLine(t *testing.T) {
	t.Parallel()
	store, log := newFlakyStore(), &logged{}
	l := newLimiter(t, store, ratelimit.PerDay(1000), ratelimit.WithLogger(log.logger()))
	store.fail(errLost)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() { allow(t, l, "k") })
	}
	wg.Wait()
	log.mustBe(t, lineLost)
}

// It changes the default logger, so it runs alone.
func TestTheDefaultLoggerIsThatOfTheMoment(t *testing.T) {
	store, log := newFlakyStore(), &logged{}
	l, err := ratelimit.New(store, "api", ratelimit.PerDay(1))
	if err != nil {
		t.Fatal(err)
	}
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(log.logger())
	store.fail(errLost)
	allow(t, l, "k")
	log.mustBe(t, lineLost)
}

func TestEachLimiterHasItsOwnHealth(t *testing.T) {
	t.Parallel()
	log := &logged{}
	good, bad := memstore.New(), newFlakyStore()
	bad.fail(errLost)
	allow(t, newLimiter(t, bad, ratelimit.PerDay(1), ratelimit.WithLogger(log.logger())), "k")
	allow(t, newLimiter(t, good, ratelimit.PerDay(1), ratelimit.WithLogger(log.logger())), "k")
	log.mustBe(t, lineLost)
}
