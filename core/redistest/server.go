package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Server is one redis-server process. Its methods may be called from several
// goroutines; those that can fail the test (all but Addr, Socket, Dir, PID and
// Try) are for the goroutine of the test.
type Server struct {
	tb   TB
	dir  string
	port int
	args []string // of redis-server

	mu     sync.Mutex
	cmd    *exec.Cmd // nil while the server is not running
	paused bool
}

// Option changes how a server is started.
type Option func(*options)

type options struct{ args []string }

// Args adds arguments of redis-server, which override redistest's own:
//
//	redistest.Start(t, redistest.Args("--appendonly", "yes"))
func Args(args ...string) Option {
	return func(o *options) { o.args = append(o.args, args...) }
}

func newOptions(opts []Option) options {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// Start starts a standalone server that saves nothing to disk, and returns when
// it answers. It is killed when the test ends. Without redis-server on PATH the
// test is skipped; see [Require].
func Start(tb TB, opts ...Option) *Server {
	tb.Helper()
	Require(tb)
	return start(tb, func(s *Server) []string { return append(s.args, newOptions(opts).args...) })
}

// attempts is how many ports are tried when other processes take them first.
const attempts = 20

// start starts a server with the arguments that args makes of the server's
// own, once its directory and port are known.
func start(tb TB, args func(*Server) []string) *Server {
	tb.Helper()
	// Not tb.TempDir, whose path bears the test's name: a socket's path has
	// room for about 100 bytes.
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	s := &Server{tb: tb, dir: dir}
	tb.Cleanup(func() {
		s.stop()
		_ = os.RemoveAll(dir)
	})
	for range attempts {
		s.port = freePort(tb)
		s.args = s.ownArgs()
		s.args = args(s)
		if err = s.launch(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	return s
}

func (s *Server) ownArgs() []string {
	return []string{
		"--port", strconv.Itoa(s.port),
		"--bind", "127.0.0.1",
		"--unixsocket", s.Socket(),
		"--dir", s.dir,
		"--logfile", s.logfile(),
		"--save", "",
	}
}

// Addr is the server's TCP address, host and port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Socket is the path of the server's unix socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "redis.sock") }

// Dir is the directory of the server's files. It survives Kill and Restart.
func (s *Server) Dir() string { return s.dir }

func (s *Server) logfile() string { return filepath.Join(s.dir, "redis.log") }

// PID is the server's process, 0 while it is not running.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Pause stops the process with SIGSTOP: connections stay open, and new ones are
// accepted by the kernel, but nothing is answered. It returns when the process
// stands still.
func (s *Server) Pause() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.tb.Fatalf("redistest: Pause: server %s is not running", s.Addr())
	}
	if err := pause(s.cmd.Process); err != nil {
		s.tb.Fatalf("redistest: Pause: %v", err)
	}
	s.paused = true
}

// Resume lets a paused server go on, with SIGCONT.
func (s *Server) Resume() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.tb.Fatalf("redistest: Resume: server %s is not running", s.Addr())
	}
	if err := resume(s.cmd.Process); err != nil {
		s.tb.Fatalf("redistest: Resume: %v", err)
	}
	s.paused = false
}

// Kill ends the process with SIGKILL, paused or not, and returns when it is
// gone. Its address then refuses connections. Killing a server that is not
// running does nothing.
func (s *Server) Kill() { s.stop() }

// Restart starts the server again on the same port and in the same directory,
// and returns when it answers. A running server is killed first.
func (s *Server) Restart() {
	s.tb.Helper()
	s.stop()
	if err := s.launch(); err != nil {
		s.tb.Fatalf("redistest: Restart: %v", err)
	}
}

// Do sends one command over a connection of its own and returns the reply as
// text: a number in decimal, nil as "", a list with one item a line. It fails
// the test if there is no reply or it is an error.
func (s *Server) Do(args ...string) string {
	s.tb.Helper()
	reply, err := s.Try(args...)
	if err != nil {
		s.tb.Fatalf("redistest: %s: %v", strings.Join(args, " "), err)
	}
	return reply
}

// Try is Do for commands that may fail. An error that the server replied reads
// as sent, code first: "WRONGTYPE Operation against …".
func (s *Server) Try(args ...string) (string, error) {
	reply, err := s.command(args...)
	return text(reply), err
}

func (s *Server) command(args ...string) (any, error) {
	return command("unix", s.Socket(), args...)
}

// answering reports whether the process runs and is not paused.
func (s *Server) answering() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd != nil && !s.paused
}

// tail is the end of the server's log, for messages.
func (s *Server) tail() string {
	log, err := os.ReadFile(s.logfile())
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-2000):])
}

// String returns "redis-server" and the server's TCP address.
func (s *Server) String() string { return fmt.Sprintf("redis-server %s", s.Addr()) }
