//go:build !unix

package redistest

import (
	"errors"
	"os"
)

var errNoSignals = errors.New("this system cannot stop a process")

func pause(*os.Process) error  { return errNoSignals }
func resume(*os.Process) error { return errNoSignals }
