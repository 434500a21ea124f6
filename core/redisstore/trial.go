package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxBroken is how many connections a trial tries that have ended while the node
// was away. The client may have kept that many, above all with TLS, where it does
// not see their end before it uses them.
const maxBroken = 64

// trial asks a node that has been failing for a sign of life, before calls that
// spend tokens are sent to it: Redis would carry them out whenever it comes
// back. Any answer will do, a refusal for want of permission too.
//
// It may take longer than the budget, which has ended for the calls then: a
// connection to a node far away takes several replies to set up, and serves the
// next trial.
func (l *lane) trial(p *pipeline) error {
	if l.breaker.closed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(dialTimeout, l.budget))
	defer cancel()
	started := time.Now()
	err := ping(ctx, l.node)
	for range maxBroken {
		if !isBroken(err) || ctx.Err() != nil {
			break
		}
		err = ping(ctx, l.node)
	}
	if isFailure(err) {
		return err
	}
	p.far.Store(time.Since(started) > l.budget*2/5)
	return nil
}

// recoup ends an abandoned pipeline that the client has let go of, on a goroutine
// that no caller waits for.
func (l *lane) recoup() {
	l.connect()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abandoned--
}

// connect makes a connection for the next pipeline. A client that heeds its ctx
// drops one that is not set up when the budget ends, and so would never have one
// to a node that is far away.
func (l *lane) connect() {
	if !l.prompt || !l.breaker.closed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(dialTimeout, l.budget))
	defer cancel()
	_ = guard(func() error { return ping(ctx, l.node) }) // for the connection only
}

// ping asks a node for a sign of life, once.
func ping(ctx context.Context, node conn) error {
	return node.Process(ctx, once{redis.NewCmd(ctx, "ping")})
}
