//go:build !linux

package redistest

import "syscall"

// dieWithParent is nothing where the system cannot do it: a server outlives a
// test that panics.
func dieWithParent() *syscall.SysProcAttr { return nil }
