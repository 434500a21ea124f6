//go:build race

package faults

// keys are as many as the race detector leaves time for: several times what the
// shortcut and the local store hold.
const keys = 250_000
