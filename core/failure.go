package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/atomicbucket/ratelimit/core/internal/bucket"
)

// failureMode is who decides when the store cannot.
type failureMode uint8

const (
	failOpen failureMode = iota
	failClosed
	failLocal
)

// failure is what a limiter does when its store cannot decide. The zero value
// fails open.
type failure struct {
	mode  failureMode
	local Store   // failLocal only
	share float64 // failLocal only: of each limit, above 0 and at most 1
}

// validate refuses a share that leaves a limit without a single token.
func (f failure) validate(rules []rule) error {
	if f.mode != failLocal {
		return nil
	}
	for _, r := range rules {
		if f.interval(r) > r.capacity {
			return fmt.Errorf("ratelimit: FailLocal: a share of %v of limit %q holds less than one token: raise the share or the burst", f.share, r.limit)
		}
	}
	return nil
}

// interval is the time in which a token refills at a share of r's rate, in
// whole microseconds, rounded up. The local bucket keeps r's capacity and
// charges each token this much, which makes its burst share * burst. A share of
// less than one token is capacity + 1, however small.
func (f failure) interval(r rule) int64 {
	// A share such as 1.0/49 is not exact, and its quotient may lie just above a
	// whole number, which must not be rounded up to the next.
	interval := math.Ceil(math.Nextafter(float64(r.interval)/f.share, 0))
	if interval > float64(r.capacity) {
		return r.capacity + 1
	}
	return int64(interval)
}

// localRules are rules as the local store applies them. Their limits stay those
// that were asked for.
func (f failure) localRules(rules []rule) []rule {
	local := make([]rule, len(rules))
	for i, r := range rules {
		local[i] = rule{limit: r.limit, interval: f.interval(r), capacity: r.capacity}
	}
	return local
}

// decide answers res's call after the store has failed with cause.
func (f failure) decide(ctx context.Context, rules []rule, res Result, cause error) (Result, error) {
	res.Source, res.Cause = SourcePolicy, cause
	switch f.mode {
	case failOpen:
		res.Allowed = true
		return res, nil
	case failLocal:
		return f.decideLocally(ctx, f.localRules(rules), res)
	default:
		return res, fmt.Errorf("%w: %w", ErrUnavailable, cause)
	}
}

func (f failure) decideLocally(ctx context.Context, rules []rule, res Result) (Result, error) {
	for _, r := range rules {
		if int64(res.Cost) > bucket.Fits(0, r.capacity, r.interval) {
			return res, fmt.Errorf("%w: cost %d is above the local share of limit %q: %w", ErrUnavailable, res.Cost, r.limit, res.Cause)
		}
	}
	buckets := newBuckets(rules, res.Name, res.Key, res.Cost)
	decision, err := f.local.Take(ctx, buckets)
	if err != nil {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		return res, fmt.Errorf("%w: %w; local store: %w", ErrUnavailable, res.Cause, err)
	}
	res.Allowed, res.Source = decision.Allowed, SourceLocal
	res.setLimits(rules, buckets)
	return res, nil
}

const (
	// steadyFor is how long a store must not have failed before it is called
	// back, so that one failing now and then does not fill the log.
	steadyFor = time.Second
	// repeatAfter is when the same misconfiguration is logged again.
	repeatAfter = time.Hour
	// maxMisconfigurations bounds what is remembered of those logged.
	maxMisconfigurations = 16
)

// health logs once that the store is lost, once that it is back, and each
// misconfiguration once.
type health struct {
	name   string
	logger *slog.Logger // nil means slog.Default()

	lost        atomic.Bool
	lastFailure atomic.Int64 // Unix nanoseconds

	mu     sync.Mutex
	logged map[string]time.Time // misconfigurations by text
}

func (h *health) log() *slog.Logger {
	if h.logger != nil {
		return h.logger
	}
	return slog.Default()
}

// failed notes that the store could not decide.
func (h *health) failed(ctx context.Context, cause error) {
	if errors.Is(cause, ErrMisconfigured) {
		h.misconfigured(ctx, cause)
		return
	}
	h.lastFailure.Store(time.Now().UnixNano())
	if h.lost.CompareAndSwap(false, true) {
		h.log().WarnContext(ctx, "ratelimit: store is lost, the failure policy decides", "limiter", h.name, "cause", cause)
	}
}

// answered notes that the store has decided.
func (h *health) answered(ctx context.Context) {
	if !h.lost.Load() || time.Since(time.Unix(0, h.lastFailure.Load())) < steadyFor {
		return
	}
	if h.lost.CompareAndSwap(true, false) {
		h.log().InfoContext(ctx, "ratelimit: store is back", "limiter", h.name)
	}
}

func (h *health) misconfigured(ctx context.Context, cause error) {
	text, now := cause.Error(), time.Now()
	h.mu.Lock()
	maps.DeleteFunc(h.logged, func(_ string, at time.Time) bool { return now.Sub(at) >= repeatAfter })
	_, known := h.logged[text]
	repeat := known || len(h.logged) == maxMisconfigurations
	if !repeat {
		if h.logged == nil {
			h.logged = make(map[string]time.Time)
		}
		h.logged[text] = now
	}
	h.mu.Unlock()
	if !repeat {
		h.log().ErrorContext(ctx, "ratelimit: store is misconfigured, the failure policy decides", "limiter", h.name, "cause", cause)
	}
}
