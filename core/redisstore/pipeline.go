package redisstore

import (
	"sync"
	"sync/atomic"
	"time"
)

// pipeline is some calls that go out together.
type pipeline struct {
	calls []*call // in the order of arrival
	sent  time.Time
	far   atomic.Bool // the answer to p's trial took so long that the calls' will be late

	mu   sync.Mutex
	told int // so many calls, the first ones, have let their callers go
}

// ends is when the budget of the callers of the i-th call ends.
func (p *pipeline) ends(i int, budget time.Duration) time.Time { return p.calls[i].arrived.Add(budget) }

// last is when the budgets of all callers have ended.
func (p *pipeline) last(budget time.Duration) time.Time { return p.ends(len(p.calls)-1, budget) }

// expire lets the callers go whose budget has ended, or as good as. It returns
// when the next one's ends, or whether these were the last.
func (p *pipeline) expire(budget time.Duration) (next time.Time, abandoned bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	soon := time.Now().Add(budget / 20)
	for p.told < len(p.calls) {
		if ends := p.ends(p.told, budget); ends.After(soon) {
			return ends, false
		}
		p.calls[p.told].tell(&budgetError{budget})
		p.told++
		abandoned = p.told == len(p.calls)
	}
	return time.Time{}, abandoned
}

// claim returns the calls whose callers are still there, for the caller of claim
// to let go. If there are none, p has been abandoned.
func (p *pipeline) claim() []*call {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := p.calls[p.told:]
	p.told = len(p.calls)
	return rest
}

// tell lets the callers of calls go: with err, or with the answers to their calls
// if err is nil.
func tell(calls []*call, err error) {
	for _, c := range calls {
		if err != nil {
			c.tell(err)
		} else {
			c.tell(c.err)
		}
	}
}

// verdict is what err, with which p has ended, says of the node.
func (p *pipeline) verdict(err error, budget time.Duration) error {
	last := p.last(budget)
	switch {
	case !isFailure(err) || time.Now().Add(budget/20).Before(last):
		return err
	case p.far.Load(): // two replies take longer than the budget, but there was one
		return nil
	case last.Sub(p.sent) < budget/2: // p's callers had waited for other pipelines
		return errUncounted
	default:
		return err
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
