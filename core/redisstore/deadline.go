package redisstore

import (
	"context"
	"time"
)

// deadline is a context that ends at a time, or when it is stopped. It costs a
// third of what context.WithDeadline and context.AfterFunc cost together, which
// is worth it where there is one for each round trip.
type deadline struct {
	at    time.Time
	done  chan struct{}
	timer *time.Timer
}

var _ context.Context = (*deadline)(nil)

// newDeadline returns a context whose Deadline is at. It calls passed, on a
// goroutine of its own, at first, and again at each time that passed returns;
// it ends when passed returns the zero time.
func newDeadline(first, at time.Time, passed func() (next time.Time)) *deadline {
	d := &deadline{at: at, done: make(chan struct{})}
	d.timer = time.AfterFunc(time.Hour, func() {
		if next := passed(); !next.IsZero() {
			d.timer.Reset(time.Until(next))
			return
		}
		close(d.done)
	})
	d.timer.Reset(time.Until(first)) // not before d.timer is set
	return d
}

// stop ends the context, unless passed is running: then that does. It must be
// called once.
func (d *deadline) stop() {
	if d.timer.Stop() {
		close(d.done)
	}
}

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} { return d.done }

// Err implements context.Context.
func (d *deadline) Err() error {
	select {
	case <-d.done:
	default:
		return nil
	}
	if time.Now().Before(d.at) {
		return context.Canceled
	}
	return context.DeadlineExceeded
}

// Value implements context.Context. There is none.
func (d *deadline) Value(any) any { return nil }
