package redistest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

const (
	// Ports are sought below those that outgoing connections use, and the bus
	// port of a cluster node, which is busOffset higher, stays below them too.
	firstPort = 10000
	lastPort  = 21999
	busOffset = 10000
)

// errPortTaken means that another process was faster.
var errPortTaken = errors.New("port is taken")

// launch starts the process and returns when it answers.
func (s *Server) launch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The child holds the only writing end, so that the reading end meets EOF
	// when it has exited.
	alive, held, err := os.Pipe()
	if err != nil {
		return err
	}
	defer alive.Close()
	cmd := exec.Command(executable, s.args...)
	cmd.Dir = s.dir
	cmd.Stdout = held
	cmd.SysProcAttr = dieWithParent()
	err = cmd.Start()
	_ = held.Close()
	if err != nil {
		return err
	}
	if err := s.answers(alive); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	s.cmd, s.paused = cmd, false
	return nil
}

// answers waits until the new process answers on its own socket. Its port would
// not do: if it was taken, it is somebody else who answers there.
func (s *Server) answers(alive *os.File) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		_, err := s.command("PING")
		refused, ok := errors.AsType[serverError](err)
		if err == nil || ok && !strings.HasPrefix(refused.Error(), "LOADING") {
			return nil
		}
		if exited(alive) {
			return s.exitError()
		}
	}
	return fmt.Errorf("redis-server does not answer; its log ends:\n%s", s.tail())
}

// exited reports whether the process at the other end of alive has ended. It
// looks for pollEvery.
func exited(alive *os.File) bool {
	if err := alive.SetReadDeadline(time.Now().Add(pollEvery)); err != nil {
		time.Sleep(pollEvery)
		return false
	}
	var said [256]byte
	for {
		if _, err := alive.Read(said[:]); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

func (s *Server) exitError() error {
	log := s.tail()
	if strings.Contains(log, "Address already in use") {
		_ = os.Remove(s.logfile()) // the next attempt writes its own
		return errPortTaken
	}
	return fmt.Errorf("redis-server %s exited; its log ends:\n%s", strings.Join(s.args, " "), log)
}

// stop kills the process, paused or not, and waits for its end.
func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // errs only if it has ended already
	_ = s.cmd.Wait()         // errs because it was killed
	s.cmd, s.paused = nil, false
}

// freePort finds a port that is free, and whose cluster bus port is. Another
// process may still take it before the server does.
func freePort(tb TB) int {
	tb.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if free(port) && free(port+busOffset) {
			return port
		}
	}
	tb.Fatalf("redistest: no free port between %d and %d", firstPort, lastPort)
	return 0
}

func free(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}
