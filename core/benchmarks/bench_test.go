package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/atomicbucket/ratelimit/core/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// measureBriefly measures the sections whose title matches, as briefly as it can be done.
func measureBriefly(t *testing.T, titles string, asJSON bool) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	b := &bench{rounds: 1, duration: 10 * time.Millisecond, server: redistest.Start(t)}
	if err := b.measure(context.Background(), newPrinter(&out, asJSON), regexp.MustCompile(titles), false); err != nil {
		t.Fatal(err)
	}
	return &out
}

func TestSectionsMeasureSomethingOfEachSubject(t *testing.T) {
	t.Parallel()
	var report struct{ Sections []section }
	out := measureBriefly(t, "^script|^memory|^one|^four|^allocations|^admitted: 10,000 keys, 64|^ceiling|^http", true)
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Sections) != 9 {
		t.Errorf("%d sections, want 9", len(report.Sections))
	}
	for _, s := range report.Sections {
		if len(s.Rows) == 0 && len(s.Notes) == 0 {
			t.Errorf("%s: nothing was measured", s.Title)
		}
		for _, r := range s.Rows {
			if len(r.Figures) == 0 {
				t.Errorf("%s: %s has no figures", s.Title, r.Who)
			}
		}
	}
}

func TestWhatIsOverheardIsTheDecision(t *testing.T) {
	t.Parallel()
	b := &bench{server: redistest.Start(t)}
	for _, name := range []string{ours, redisRate, ulule} {
		b.server.Do("FLUSHALL")
		d, err := overhear(t.Context(), b.clientOptions(), plenty, name)
		if err != nil {
			t.Fatal(err)
		}
		if exists := b.server.Do("EXISTS", d.key); exists != "1" {
			t.Errorf("%s: key %q is not in Redis", name, d.key)
		}
		other := d.redisKey(keyOf(1))
		if other == d.key || len(other) != len(d.key) {
			t.Errorf("%s: the key for another is %q, for the first %q", name, other, d.key)
		}
		args := append([]string{"EVALSHA", d.hash, "1", other}, d.args...)
		if _, err := b.server.Try(args...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEachContestantAdmitsABurstAndDeniesTheRest(t *testing.T) {
	t.Parallel()
	b := &bench{server: redistest.Start(t)}
	names := append([]string{ours, withoutBatch, withoutShortcut}, peers...)
	contestants, leave, err := b.enter(t.Context(), logins, names...)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	for _, c := range contestants {
		for call := range 7 {
			allowed, err := c.allow(t.Context(), sampleKey)
			if err != nil || allowed != (call < 5) {
				t.Errorf("%s: call %d: allowed %t, %v", c.name, call+1, allowed, err)
			}
		}
	}
}

func TestARatioIsTheMedianOfTheRoundsRatios(t *testing.T) {
	t.Parallel()
	fast, slow := rounds{20, 200, 40}, rounds{10, 100, 10}
	if ratio := fast.over(slow).median(); ratio != 2 {
		t.Errorf("ratio is %v, want 2", ratio)
	}
}

func TestTheBestIsTakenRoundByRound(t *testing.T) {
	t.Parallel()
	if b := best([]rounds{{1, 5}, {3, 2}}); b[0] != 3 || b[1] != 5 {
		t.Errorf("best is %v, want 3 and 5", b)
	}
}

func TestSubjectsTakeTurnsAndEverySecondRoundGoesBackwards(t *testing.T) {
	t.Parallel()
	var order []int
	subject := func(i int) func() int {
		return func() int {
			order = append(order, i)
			return i
		}
	}
	measured := inTurns(2, subject(1), subject(2))
	want := []int{1, 2, 2, 1}
	for i := range want {
		if order[i] != want[i] {
			t.Fatalf("order is %v, want %v", order, want)
		}
	}
	if measured[0][1] != 1 || measured[1][1] != 2 {
		t.Errorf("measured %v, want each subject's own", measured)
	}
}
