package storetest

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// Harness is a store under test, and what a test can do to its surroundings.
type Harness struct {
	// Store under test. It holds no bucket, or keeps to a namespace that is
	// empty.
	Store ratelimit.Store

	// Peers are further stores on the same buckets, as other instances of a
	// service have them. May be empty.
	Peers []ratelimit.Store

	// Advance moves the store's clock by a whole number of microseconds; a
	// negative one steps it back. The clock must stand still otherwise, and
	// whatever the store expires must expire by it: not before the instant for
	// which it was set, steps back and forth notwithstanding. Nil if a test
	// cannot do that: checks that need it are skipped, and others wait for real.
	Advance func(time.Duration)

	// Dump returns all that the store has stored, in a stable order, to show
	// that something wrote nothing. The clock stands still from one Dump to the
	// one it is compared with. Nil if a test cannot know.
	Dump func() string

	// OneKey is true for a store that takes lists of several buckets of one name
	// and key only, which is all that a Limiter asks for.
	OneKey bool
}

// TB is what a check needs of a *testing.T, which is one.
type TB interface {
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Helper()
	Skipf(format string, args ...any)
}

// Check is one sentence of the contract.
type Check struct {
	// Name is the sentence.
	Name string

	check func(subject)
}

// Run checks the harness, which must be fresh.
func (c Check) Run(t TB, h Harness) {
	t.Helper()
	c.check(subject{TB: t, Harness: h})
}

// Checks returns all checks, for callers that run each in surroundings of their
// own, such as a bubble of testing/synctest. Others use [Run].
func Checks() []Check {
	return slices.Concat(burstChecks, waitChecks, clockChecks, listChecks, writeChecks, identityChecks, contextChecks, concurrencyChecks, historyChecks)
}

// Run runs each check as a subtest on a new store.
func Run(t *testing.T, newStore func(t *testing.T) ratelimit.Store) {
	t.Helper()
	RunHarness(t, func(t *testing.T) Harness {
		t.Helper()
		return Harness{Store: newStore(t)}
	})
}

// RunHarness runs each check as a subtest on a new harness, one after the other.
func RunHarness(t *testing.T, newHarness func(t *testing.T) Harness) {
	t.Helper()
	for _, check := range Checks() {
		t.Run(check.Name, func(t *testing.T) { check.Run(t, newHarness(t)) })
	}
}

// Failures runs each check on a new harness and returns what went wrong, by the
// name of the check. It is empty for a store that keeps the contract.
func Failures(newHarness func() Harness) map[string]string {
	failures := make(map[string]string)
	for _, check := range Checks() {
		if failure := check.failure(newHarness()); failure != "" {
			failures[check.Name] = failure
		}
	}
	return failures
}

// failure is the first thing that the check finds wrong.
func (c Check) failure(h Harness) string {
	r := &recorder{}
	done := make(chan struct{})
	go func() { // a goroutine of its own, for Goexit to end
		defer close(done)
		c.Run(r, h)
	}()
	<-done
	return r.failure
}

// recorder is a TB that remembers its first failure. Checks report from their
// own goroutine only.
type recorder struct{ failure string }

func (r *recorder) Helper()              {}
func (r *recorder) Skipf(string, ...any) { runtime.Goexit() }

func (r *recorder) Errorf(format string, args ...any) {
	if r.failure == "" {
		r.failure = fmt.Sprintf(format, args...)
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
