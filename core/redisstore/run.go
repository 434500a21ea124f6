package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// run is one command for Redis: a call, or several on one bucket each, which one
// run of the script decides one by one. That costs Redis about 0.6 of what a run
// each does.
type run []*call

// once is a command that go-redis never sends again by itself: a reply that was
// lost must not spend twice. Redirections of Redis Cluster are still followed,
// because they say that nothing was done.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// together makes as few commands of calls as can be, without changing their order.
func together(calls []*call) []run {
	var runs []run
	start := 0
	for i, c := range calls {
		if c.fits() {
			continue
		}
		if start < i {
			runs = append(runs, calls[start:i])
		}
		runs = append(runs, calls[i:i+1])
		start = i + 1
	}
	if start < len(calls) {
		runs = append(runs, calls[start:])
	}
	return runs
}

// fits reports whether c can be one of several in a run.
func (c *call) fits() bool { return c.op != reset && len(c.buckets) == 1 }

// apart makes each call a command of its own.
func apart(calls []*call) []run {
	runs := make([]run, len(calls))
	for i := range calls {
		runs[i] = calls[i : i+1]
	}
	return runs
}

// command is r for Redis. name is evalsha or eval; a reset is neither.
func (r run) command(ctx context.Context, prefix, name string) once {
	buckets := max(len(r), len(r[0].buckets))
	args := make([]any, 0, 3+4*buckets)
	switch {
	case r[0].op == reset:
		args = append(args, "del")
	case name == "evalsha":
		args = append(args, name, scriptHash, buckets)
	default:
		args = append(args, name, script, buckets)
	}
	for _, c := range r {
		for i := range c.buckets {
			args = append(args, redisKey(prefix, &c.buckets[i]))
		}
	}
	if r[0].op == reset {
		return once{redis.NewCmd(ctx, args...)}
	}
	for _, c := range r {
		for i := range c.buckets {
			args = append(args, c.buckets[i].Capacity, c.buckets[i].Charge)
		}
	}
	for _, c := range r {
		if wanted := c.wanted(); len(r) > 1 || wanted != 1 {
			args = append(args, wanted)
		}
	}
	return once{redis.NewCmd(ctx, args...)}
}

// answer takes Redis' reply to r.
func (r run) answer(reply any, err error) {
	if len(r) == 1 {
		r[0].answer(reply, err)
		return
	}
	each, _ := reply.([]any)
	if err == nil && len(each) != len(r) {
		err = fmt.Errorf("redisstore: the script returned %v for %d buckets", reply, len(r))
	}
	for i, c := range r {
		if err != nil {
			c.answer(nil, err)
			continue
		}
		if text, refused := each[i].(string); refused {
			c.answer(nil, replyError(text))
		} else {
			c.answer(each[i], nil)
		}
	}
}

// exchange sends calls to the node and sets their answers. What is sent again
// is only what was not carried out: Redis forgets scripts when it restarts or
// fails over, and those that it does not know go out in full; so do calls that
// are refused for those they share a command with; calls for a slot that has
// moved follow it.
func (l *lane) exchange(ctx context.Context, calls []*call) {
	divide := apart
	whole := len(calls) > 1 && l.isWhole()
	if whole {
		divide = together
	}
	l.roundTrip(ctx, l.node, "evalsha", divide(calls))
	l.roundTrip(ctx, l.node, "eval", divide(filter(calls, met(isNoScript))))
	if whole {
		l.roundTrip(ctx, l.node, "eval", apart(l.refusedTogether(calls)))
	}
	if l.redirect != nil {
		l.roundTrip(ctx, l.redirect, "eval", apart(filter(calls, met(isRedirect))))
	}
}

// refusedTogether returns the calls that may have been refused for the company of
// others, and has calls go out apart from now on.
func (l *lane) refusedTogether(calls []*call) []*call {
	crossed := filter(calls, met(isCrossSlot))
	denied := filter(calls, func(c *call) bool { return c.fits() && met(isNoPermission)(c) })
	switch {
	case len(crossed) > 0:
		l.believe(false, never)
	case len(denied) > 0:
		l.believe(false, time.Now().UnixNano())
	}
	return append(crossed, denied...)
}

func filter(calls []*call, matches func(*call) bool) []*call {
	var found []*call
	for _, c := range calls {
		if matches(c) {
			found = append(found, c)
		}
	}
	return found
}

// met is for calls with such an error.
func met(such func(error) bool) func(*call) bool {
	return func(c *call) bool { return c.err != nil && such(c.err) }
}

func (l *lane) roundTrip(ctx context.Context, node conn, name string, runs []run) {
	switch len(runs) {
	case 0:
	case 1:
		cmd := runs[0].command(ctx, l.prefix, name)
		_ = node.Process(ctx, cmd) // the command holds the error
		runs[0].answer(cmd.Result())
	default:
		cmds := make([]once, len(runs))
		pipe := node.Pipeline()
		for i, r := range runs {
			cmds[i] = r.command(ctx, l.prefix, name)
			_ = pipe.Process(ctx, cmds[i]) // only queues it
		}
		_, _ = pipe.Exec(ctx) // each command holds its own error
		for i, r := range runs {
			r.answer(cmds[i].Result())
		}
	}
}
