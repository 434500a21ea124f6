//go:build !race

package faults

// keys are several times what the shortcut and the local store hold.
const keys = 1_000_000
