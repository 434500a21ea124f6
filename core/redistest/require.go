package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// executable is what Require looks for on PATH.
const executable = "redis-server"

// skips are the names of the tests that were skipped in this process.
var skips struct {
	sync.Mutex
	names map[string]bool
}

// Require skips the test when redis-server is not on PATH, or fails it when
// REQUIRE_REDIS=1 is set. Start, StartCluster and StartSentinel call it; call it
// first in a test that has much to do before it starts a server.
func Require(tb TB) {
	tb.Helper()
	if _, err := exec.LookPath(executable); err == nil {
		return
	}
	if os.Getenv("REQUIRE_REDIS") == "1" {
		tb.Fatalf("redistest: %s is not on PATH, and REQUIRE_REDIS=1 demands it: install it or unset REQUIRE_REDIS", executable)
	}
	skips.Lock()
	if skips.names == nil {
		skips.names = make(map[string]bool)
	}
	skips.names[tb.Name()] = true
	skips.Unlock()
	tb.Skipf("redistest: %s is not on PATH", executable)
}

// TestingM is the part of *testing.M that Main needs.
type TestingM interface{ Run() int }

// Main runs m's tests, prints one line if some were skipped for want of
// redis-server, and returns the exit code:
//
//	func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
//
// The line goes to standard error. go test keeps the output of packages that
// pass to itself unless it is given -v or a single package; where REDIS_SKIPPED
// names a file, the line is appended to that file too.
func Main(m TestingM) int { return WithSummary(m).Run() }

// WithSummary is Main for a TestMain that already hands m to something else:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.WithSummary(m)) }
func WithSummary(m TestingM) TestingM { return summarized{m} }

type summarized struct{ m TestingM }

func (s summarized) Run() int {
	code := s.m.Run()
	if line := summary(); line != "" {
		fmt.Fprint(os.Stderr, line)
		if err := record(line); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// summary is one line on the tests that were skipped, or nothing.
func summary() string {
	skips.Lock()
	defer skips.Unlock()
	if len(skips.names) == 0 {
		return ""
	}
	noun := "tests"
	if len(skips.names) == 1 {
		noun = "test"
	}
	return fmt.Sprintf("redistest: %d %s skipped: redis-server is not on PATH; install it, or set REQUIRE_REDIS=1 to fail instead (%s)\n",
		len(skips.names), noun, packageFolder())
}

// packageFolder is where go test runs a package's tests: the package's folder.
func packageFolder() string {
	folder, err := os.Getwd()
	if err != nil {
		return "?"
	}
	return folder
}

func record(line string) error {
	path := os.Getenv("REDIS_SKIPPED")
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("redistest: REDIS_SKIPPED: %w", err)
	}
	if _, err = file.WriteString(line); err != nil {
		err = fmt.Errorf("redistest: REDIS_SKIPPED: %w", err)
	}
	_ = file.Close()
	return err
}
