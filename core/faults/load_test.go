package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// load is callers who ask a limiter, each for one decision after the other.
type load struct {
	limiter *ratelimit.Limiter
	callers int
	pace    time.Duration                    // between a caller's decisions
	key     func(caller, request int) string // asked for; nil: one for each caller
	granted func()                           // called when a call is admitted; may be nil

	only int64 // how many requests all callers make together; 0: no end

	began    time.Time
	cancel   context.CancelFunc
	callersW sync.WaitGroup

	begun    atomic.Int64 // counted if there is an end
	requests atomic.Int64
	bySource [5]atomic.Int64
	refused  atomic.Int64 // because the breaker was open
	denied   atomic.Int64
	longest  atomic.Int64
	unpolicy atomic.Int64 // errors, which a limiter that fails open has none of

	mu       sync.Mutex
	open     []time.Duration // times of decisions while the breaker was open
	admitted map[string]int  // by the store, for each key
	causes   map[string]int  // for which the store was asked and did not decide
}

// start starts the callers.
func (l *load) start() {
	if l.key == nil {
		l.key = func(caller, _ int) string { return fmt.Sprint("caller ", caller) }
	}
	l.admitted, l.causes = make(map[string]int), make(map[string]int)
	l.began = time.Now()
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	for caller := range l.callers {
		l.callersW.Go(func() { l.call(ctx, caller) })
	}
}

// stop stops the callers, and returns when they have.
func (l *load) stop() {
	l.cancel()
	l.callersW.Wait()
}

func (l *load) call(ctx context.Context, caller int) {
	var open []time.Duration
	admitted := make(map[string]int)
	for i := 0; ctx.Err() == nil && l.another(); i++ {
		key := l.key(caller, i)
		start := time.Now()
		res, err := l.limiter.Allow(context.Background(), key)
		took := time.Since(start)
		l.count(res, err, took)
		l.because(res.Cause)
		if refused(res.Cause) && len(open) < 100_000 {
			open = append(open, took)
		}
		if res.Allowed && l.granted != nil {
			l.granted()
		}
		if res.Allowed && res.Source == ratelimit.SourceStore && l.only == 0 {
			admitted[key]++
		}
		if l.pace > 0 {
			time.Sleep(l.pace)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, open...)
	for key, n := range admitted {
		l.admitted[key] += n
	}
}

// another reports whether there is one more request to make.
func (l *load) another() bool { return l.only == 0 || l.begun.Add(1) <= l.only }

func (l *load) count(res ratelimit.Result, err error, took time.Duration) {
	l.requests.Add(1)
	l.bySource[res.Source].Add(1)
	raise(&l.longest, int64(took))
	if err != nil {
		l.unpolicy.Add(1)
	}
	if !res.Allowed {
		l.denied.Add(1)
	}
	if refused(res.Cause) {
		l.refused.Add(1)
	}
}

func (l *load) because(cause error) {
	if cause == nil || refused(cause) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := cause.Error(); len(l.causes) < 20 || l.causes[text] > 0 {
		l.causes[text]++
	}
}

// by is how many decisions were made by source so far.
func (l *load) by(source ratelimit.Source) int64 { return l.bySource[source].Load() }

// refused reports whether the breaker was open.
func refused(cause error) bool {
	var refusal interface{ RetryAfter() time.Duration }
	return errors.As(cause, &refusal)
}

// median is negative if there is none.
func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return -1
	}
	all = slices.Clone(all)
	slices.Sort(all)
	return all[len(all)/2]
}

// over is how many calls the store has admitted beyond limit on all keys
// together, at ran's end.
func (l *load) over(limit ratelimit.Limit, ran time.Duration) (over int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := max(limit.Burst, limit.Tokens) + int(int64(limit.Tokens)*int64(ran)/int64(limit.Period)) + 1
	for _, n := range l.admitted {
		over += max(n-most, 0)
	}
	return over
}
