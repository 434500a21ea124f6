//go:build race

package faults

// keys are as many as the race detector leaves time for: twice what the local
// store holds, and three times what the shortcut does.
const keys = 200_000
