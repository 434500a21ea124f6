package redisstore

import (
	"context"
	"sync/atomic"
	"time"
)

// pipeline is some calls that go out together.
type pipeline struct {
	calls    []*call
	sent     time.Time
	deadline time.Time   // the budget of the caller who has waited longest
	alive    atomic.Bool // the node has answered p's trial
	settled  atomic.Bool
}

// verdict is what err, with which p has ended, says of the node.
func (p *pipeline) verdict(err error, budget time.Duration) error {
	switch {
	case !isFailure(err) || time.Now().Before(p.deadline):
		return err
	case p.alive.Load(): // two replies take longer than the budget, but there was one
		return nil
	case p.deadline.Sub(p.sent) < budget/2: // p's callers had waited for other pipelines
		return errUncounted
	default:
		return err
	}
}

// settle reports whether it is the first to be called: whoever settles a
// pipeline gives its waiters their answers.
func (p *pipeline) settle() bool { return p.settled.CompareAndSwap(false, true) }

// answer gives each caller the answer to its call.
func (p *pipeline) answer() {
	for _, c := range p.calls {
		c.tell(c.err)
	}
}

// refuse gives each caller err.
func (p *pipeline) refuse(err error) {
	for _, c := range p.calls {
		c.tell(err)
	}
}

// failed is a failure that all calls have met, or nil: a node that has carried
// out one of them is well.
func (p *pipeline) failed() error {
	for _, c := range p.calls {
		if !isFailure(c.err) {
			return nil
		}
	}
	return p.calls[0].err
}

// exchange sends calls to the node and sets their answers. What is sent again
// is only what was not carried out: Redis forgets scripts when it restarts or
// fails over, and those that it does not know go out in full; calls for a slot
// that has moved follow it.
func (l *lane) exchange(ctx context.Context, calls []*call) {
	l.roundTrip(ctx, l.node, "evalsha", calls)
	l.roundTrip(ctx, l.node, "eval", filter(calls, isNoScript))
	if l.redirect != nil {
		l.roundTrip(ctx, l.redirect, "eval", filter(calls, isRedirect))
	}
}

func filter(calls []*call, met func(error) bool) []*call {
	var found []*call
	for _, c := range calls {
		if c.err != nil && met(c.err) {
			found = append(found, c)
		}
	}
	return found
}

func (l *lane) roundTrip(ctx context.Context, node conn, name string, calls []*call) {
	switch len(calls) {
	case 0:
	case 1:
		cmd := calls[0].command(ctx, l.prefix, name)
		_ = node.Process(ctx, cmd) // the command holds the error
		calls[0].answer(cmd.Result())
	default:
		cmds := make([]once, len(calls))
		pipe := node.Pipeline()
		for i, c := range calls {
			cmds[i] = c.command(ctx, l.prefix, name)
			_ = pipe.Process(ctx, cmds[i]) // only queues it
		}
		_, _ = pipe.Exec(ctx) // each command holds its own error
		for i, c := range calls {
			c.answer(cmds[i].Result())
		}
	}
}
