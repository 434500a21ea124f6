package httplimit

import (
	"errors"
	"math/rand/v2"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// retryAfter is when an unavailable limiter is worth trying again: what an error
// in the chain says, 0 if none does.
func (m *Middleware[C, H]) retryAfter(cause error) time.Duration {
	var hint interface{ RetryAfter() time.Duration }
	if errors.As(cause, &hint) {
		return hint.RetryAfter() + m.randomJitter()
	}
	return m.randomJitter()
}

// jitter makes every wait in res longer by the same random time.
func (m *Middleware[C, H]) jitter(res *ratelimit.Result) {
	jitter := m.randomJitter()
	if jitter == 0 {
		return
	}
	res.RetryAfter += jitter
	limits := make([]ratelimit.LimitResult, len(res.Limits))
	for i, l := range res.Limits {
		if l.RetryAfter > 0 {
			l.RetryAfter += jitter
		}
		limits[i] = l
	}
	if res.Limits != nil {
		res.Limits = limits
	}
}

func (m *Middleware[C, H]) randomJitter() time.Duration {
	if m.config.RetryJitter <= 0 {
		return 0
	}
	return rand.N(m.config.RetryJitter)
}
