//go:build unix

package redistest

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"
)

// pause stops p, and returns when it stands still where the system tells.
func pause(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if stopped, known := stopped(p.Pid); stopped || !known {
			return nil
		}
	}
	return errors.New("process does not stop")
}

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// stopped reads the state of a process from /proc, where there is one.
func stopped(pid int) (stopped, known bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false, false
	}
	// "pid (name) state …", and a name may hold anything.
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return bytes.HasPrefix(state, []byte("T")), true
}
