package redistest

import "syscall"

// dieWithParent ends the server with a test that panics or times out, whose
// cleanups do not run.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
