package redistest_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/atomicbucket/ratelimit/core/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

func TestAServerAnswersOnItsPortAndItsSocket(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for network, addr := range map[string]string{"tcp": srv.Addr(), "unix": srv.Socket()} {
		if got := ping(network, addr); got != "+PONG" {
			t.Errorf("PING over %s: %q", network, got)
		}
	}
}

func TestArgumentsOverrideTheDefaults(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.Args("--appendonly", "yes", "--save", "3600 1"))
	if got := srv.Do("CONFIG", "GET", "save"); got != "save\n3600 1" {
		t.Errorf("save is %q", got)
	}
	srv.Do("SET", "k", "v")
	srv.Restart()
	if got := srv.Do("GET", "k"); got != "v" {
		t.Errorf("after a restart with the append-only file, k is %q", got)
	}
}

func TestWrongArgumentsFailTheTestWithTheServersWords(t *testing.T) {
	t.Parallel()
	redistest.Require(t)
	err := redistest.Run(func(tb redistest.TB) {
		redistest.Start(tb, redistest.Args("--maxmemory-policy", "nonsense"))
	})
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("error is %v", err)
	}
}

func TestAKilledServerRefusesAndARestartedOneIsEmptyOnTheSamePort(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	addr := srv.Addr()
	srv.Do("SET", "k", "v")
	srv.Kill()
	if got := ping("tcp", addr); !strings.Contains(got, "refused") {
		t.Errorf("after Kill: %q", got)
	}
	srv.Kill() // twice is harmless
	srv.Restart()
	if srv.Addr() != addr {
		t.Errorf("address moved from %s to %s", addr, srv.Addr())
	}
	if got := srv.Do("GET", "k"); got != "" {
		t.Errorf("k is %q", got)
	}
}

func TestAPausedServerAcceptsAndStaysSilentUntilResumed(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Pause()
	conn, err := net.Dial("tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, len("+PONG\r\n"))
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := conn.Read(reply); !os.IsTimeout(err) {
		t.Errorf("while paused: %q, %v", reply[:n], err)
	}
	srv.Resume()
	_ = conn.SetReadDeadline(time.Time{})
	if _, err := conn.Read(reply); err != nil || string(reply) != "+PONG\r\n" {
		t.Errorf("once resumed: %q, %v", reply, err)
	}
}

func TestAServerStopsWithItsTestEvenWhenPaused(t *testing.T) {
	t.Parallel()
	redistest.Require(t)
	var addr, dir string
	err := redistest.Run(func(tb redistest.TB) {
		srv := redistest.Start(tb)
		addr, dir = srv.Addr(), srv.Dir()
		srv.Pause()
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := ping("tcp", addr); !strings.Contains(got, "refused") {
		t.Errorf("afterwards the port says %q", got)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("afterwards the directory: %v", err)
	}
}

func TestRepliesBecomeText(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for _, step := range []struct{ command, want string }{
		{"SET k two", "OK"},
		{"APPEND k s", "4"},
		{"GET k", "twos"},
		{"GET none", ""},
		{"RPUSH l a b", "2"},
		{"LRANGE l 0 -1", "a\nb"},
		{"LRANGE none 0 -1", ""},
	} {
		if got := srv.Do(strings.Fields(step.command)...); got != step.want {
			t.Errorf("%s: %q, want %q", step.command, got, step.want)
		}
	}
	if _, err := srv.Try("GET", "l"); err == nil || !strings.HasPrefix(err.Error(), "WRONGTYPE") {
		t.Errorf("GET of a list: %v", err)
	}
}

func TestCallsCountsExecutions(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	if got := srv.Calls("get"); got != 0 {
		t.Errorf("before any: %d", got)
	}
	for range 3 {
		srv.Do("GET", "k")
	}
	srv.Do("SCRIPT", "FLUSH")
	if got := srv.Calls("GET"); got != 3 {
		t.Errorf("Calls(GET) is %d, want 3", got)
	}
	if got := srv.Calls("script|flush"); got != 1 {
		t.Errorf("Calls(script|flush) is %d, want 1", got)
	}
	if got := srv.Usec("eval"); got != 0 {
		t.Errorf("Usec(eval) is %d, want 0", got)
	}
	srv.Do("EVAL", "for i = 1, 100000 do end", "0")
	if got := srv.Usec("eval"); got < 1 {
		t.Errorf("Usec(eval) is %d, want some", got)
	}
}

func TestWithoutRedisServerTestsAreSkippedLoudlyOrFailOnDemand(t *testing.T) {
	t.Parallel()
	// This test binary, run again without a PATH.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	record := t.TempDir() + "/skipped"
	run := func(env ...string) (string, error) {
		cmd := exec.Command(self, "-test.run", "^(TestRepliesBecomeText|TestCallsCountsExecutions)$")
		cmd.Env = append([]string{"PATH="}, env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("REDIS_SKIPPED=" + record)
	if err != nil || strings.Count(out, "redistest: 2 tests skipped") != 1 {
		t.Errorf("without redis-server: %v\n%s", err, out)
	}
	if line, err := os.ReadFile(record); err != nil || !strings.HasPrefix(string(line), "redistest: 2 tests skipped") {
		t.Errorf("recorded %q, %v", line, err)
	}
	out, err = run("REQUIRE_REDIS=1")
	if err == nil || !strings.Contains(out, "REQUIRE_REDIS=1 demands it") {
		t.Errorf("with REQUIRE_REDIS=1: %v\n%s", err, out)
	}
}

// ping sends PING and returns the reply's line, or the error's text.
func ping(network, addr string) string {
	conn, err := net.Dial(network, addr)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err.Error()
	}
	reply := make([]byte, 64)
	n, err := conn.Read(reply)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(reply[:n]))
}
