package redistest

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// TB is what redistest needs of a testing.TB. Every testing.TB is one; [Run]
// makes one for programs that are no tests.
type TB interface {
	Cleanup(func())
	Fatalf(format string, args ...any)
	Helper()
	Name() string
	Skipf(format string, args ...any)
}

const (
	// patience is how long a condition may take before the test fails: far more
	// than it does on a slow machine.
	patience = 60 * time.Second
	// pollEvery is the pause between two looks at a condition.
	pollEvery = 5 * time.Millisecond
)

// await waits until reached returns nil, and fails the test with what it last
// returned if that takes too long.
func await(tb TB, what string, reached func() error) {
	tb.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(pollEvery) {
		err := reached()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("redistest: waited %v for %s: %v", patience, what, err)
		}
	}
}

// Run calls f in a program that is not a test, and stops f's servers when it
// returns. The error is why f was skipped or failed, as when redis-server is
// not on PATH.
func Run(f func(tb TB)) error {
	p := &program{}
	done := make(chan struct{})
	go func() { // a goroutine of its own, for Goexit to end
		defer close(done)
		defer p.cleanup()
		f(p)
	}()
	<-done
	return p.err
}

// program is the TB of a program that is not a test.
type program struct {
	cleanups []func()
	err      error
}

func (p *program) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }
func (p *program) Helper()          {}
func (p *program) Name() string     { return "program" }

func (p *program) Fatalf(format string, args ...any) {
	p.err = fmt.Errorf(format, args...)
	runtime.Goexit()
}

func (p *program) Skipf(format string, args ...any) { p.Fatalf(format, args...) }

func (p *program) cleanup() {
	for _, f := range slices.Backward(p.cleanups) {
		f()
	}
}
