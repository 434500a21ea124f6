package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"
)

// validName is what a limiter may be called. It has no character that would
// need escaping in a Redis key, an HTTP header or a metric label.
var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// Limiter decides on calls by key. Create one with [New], once, and share it: it
// is safe for concurrent use, holds no goroutine and needs no closing. The zero
// Limiter is not usable.
type Limiter struct {
	*shared
	rules []rule
}

// shared is what a limiter and those made from it by With have in common.
type shared struct {
	name     string
	store    Store
	failure  failure
	observer Observer // may be nil
	health   health
}

// New returns a Limiter that decides on store's buckets under name.
//
// name is 1 to 64 characters of a-z, 0-9, dot, underscore and hyphen, starting
// with a letter or digit. Limiters of one name and store share their buckets,
// so give the same name to the instances of one service, and different names to
// different limits.
//
// A bucket belongs to a name, a key and the time in which limit fills from
// empty. Change a limit so that this time changes, and every key starts with a
// full bucket; while instances with the old and the new limit run side by side,
// both count, so that 5/min beside 5/min burst 6 admits 11 at once. From 10/s burst
// 20 to 20/s burst 40 nothing of the kind happens: both fill in 2 s.
//
// By default the limiter fails open, reports to no observer and logs to
// [slog.Default].
//
// New does not ask the store anything, so a service can start without it. It
// returns an error that says which argument to change, and how.
func New(store Store, name string, limit Limit, opts ...Option) (*Limiter, error) {
	if store == nil {
		return nil, errors.New("ratelimit: store is nil")
	}
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("ratelimit: name %q must be 1 to 64 characters of a-z, 0-9, '.', '_' and '-', starting with a letter or digit", name)
	}
	var s settings
	for _, opt := range opts {
		if opt == nil {
			return nil, errors.New("ratelimit: an option is nil")
		}
		if err := opt.apply(&s); err != nil {
			return nil, err
		}
	}
	l := &Limiter{shared: &shared{name: name, store: store, failure: s.failure, observer: s.observer}}
	l.health.name, l.health.logger = name, s.logger
	return l.With(limit, s.further...)
}

// With returns a Limiter of the same name, store and options whose limits are
// limit and further, instead of l's. It is cheap enough to call for each
// request, for callers on different plans:
//
//	limiter, err := base.With(planOf(user))
//
// A key has a bucket for each time in which a limit fills. Limits that fill in
// the same time, such as 10/s and 20/s, share the bucket, so that a caller whose
// plan changes keeps what was spent. A limit that fills in another time starts
// full, and its bucket counts beside the other: whoever may choose between two
// plans may spend both.
//
// It returns an error that says which limit to change, and how.
func (l *Limiter) With(limit Limit, further ...Limit) (*Limiter, error) {
	rules, err := newRules(limit, further)
	if err != nil {
		return nil, err
	}
	if err := l.failure.validate(rules); err != nil {
		return nil, err
	}
	return &Limiter{shared: l.shared, rules: rules}, nil
}

// Name returns the name given to [New].
func (l *Limiter) Name() string { return l.name }

// Allow decides on one call of cost 1. See [Limiter.AllowN].
func (l *Limiter) Allow(ctx context.Context, key string) (Result, error) {
	return l.AllowN(ctx, key, 1)
}

// AllowN decides on one call that spends cost tokens of key's bucket: all of
// them, or, when it is denied, none.
//
// key is any non-empty string: a user, an account, an address. Say what kind of
// thing it is ("user:42") where one limiter sees several kinds.
//
// The error is nil when there is a decision, a denial included. Otherwise it is
// [ErrInvalidKey], [ErrInvalidCost] or [ErrCostExceedsBurst] for arguments that
// can never succeed; ctx.Err() when ctx ends first; or [ErrUnavailable], next to
// a Result whose Cause says why, from a limiter that fails closed, or whose local
// store cannot decide either.
func (l *Limiter) AllowN(ctx context.Context, key string, cost int) (Result, error) {
	var start time.Time
	if l.observer != nil {
		start = time.Now()
	}
	res, err := l.take(ctx, key, cost)
	if l.observer != nil && res.Source != 0 {
		l.observer.ObserveDecision(ctx, res, time.Since(start))
	}
	return res, err
}

func (l *Limiter) take(ctx context.Context, key string, cost int) (Result, error) {
	if err := l.check(ctx, key, cost); err != nil {
		return Result{}, err
	}
	res := Result{Name: l.name, Key: key, Cost: cost}
	list := bucketLists.Get().(*bucketList) //nolint:forcetypeassert // its New makes nothing else
	defer list.release()
	buckets := list.of(l.rules, l.name, key, cost)
	decision, err := l.store.Take(ctx, buckets)
	if err == nil {
		if decision.Source != SourceShortcut {
			l.health.answered(ctx)
		}
		res.decided(decision, l.rules, buckets)
		return res, nil
	}
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	l.health.failed(ctx, err)
	return l.failure.decide(ctx, l.rules, res, err)
}

// Peek tells how key's bucket stands: Allowed is whether a call of cost 1 would
// be admitted now. It spends and writes nothing, is not reported to the
// observer, and applies no failure policy: it returns [ErrInvalidKey], ctx.Err()
// or the store's error.
func (l *Limiter) Peek(ctx context.Context, key string) (Result, error) {
	if err := l.check(ctx, key, 1); err != nil {
		return Result{}, err
	}
	buckets := newBuckets(l.rules, l.name, key, 1)
	decision, err := l.store.Peek(ctx, buckets)
	if err != nil {
		return Result{}, l.storeError(ctx, err)
	}
	res := Result{Name: l.name, Key: key, Cost: 1}
	res.decided(decision, l.rules, buckets)
	return res, nil
}

// Refund gives cost tokens back to key's bucket, which is never more than full.
// Give back only what was charged. It applies no failure policy: it returns
// [ErrInvalidKey] or [ErrInvalidCost]; or ctx.Err() or the store's error, after
// which the tokens may or may not have been given back.
func (l *Limiter) Refund(ctx context.Context, key string, cost int) error {
	if err := checkCall(ctx, key, cost); err != nil {
		return err
	}
	return l.refund(ctx, l.store, l.rules, key, cost)
}

// RefundResult gives back what the call that returned res has charged, to the
// store that charged it: l's own, or the local one of [FailLocal]. It does
// nothing if the call was denied or admitted by a policy, and returns the
// store's error, as Refund does. res must be from l, and be given back once.
func (l *Limiter) RefundResult(ctx context.Context, res Result) error {
	switch {
	case !res.Allowed:
		return nil
	case res.Source == SourceStore:
		return l.refund(ctx, l.store, l.rules, res.Key, res.Cost)
	case res.Source == SourceLocal:
		return l.refund(ctx, l.failure.local, l.failure.localRules(l.rules), res.Key, res.Cost)
	default:
		return nil
	}
}

func (l *Limiter) refund(ctx context.Context, store Store, rules []rule, key string, cost int) error {
	err := l.storeError(ctx, store.Refund(ctx, newBuckets(rules, l.name, key, cost)))
	if l.observer != nil {
		l.observer.ObserveRefund(ctx, l.name, key, cost, err)
	}
	return err
}

// Reset makes key's bucket full, as if it had never been used. It applies no
// failure policy: it returns [ErrInvalidKey]; or ctx.Err() or the store's error,
// after which it may or may not have done so.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	if err := checkCall(ctx, key, 1); err != nil {
		return err
	}
	return l.storeError(ctx, l.store.Reset(ctx, newBuckets(l.rules, l.name, key, 1)))
}

// Ping reports whether the store could decide now, for readiness checks. The
// error says what is missing: the connection, a permission, or the script. A
// limiter that fails open serves without its store, so think twice before a
// failing Ping takes a service out of rotation. It returns ctx.Err() if ctx ends
// first.
func (l *Limiter) Ping(ctx context.Context) error {
	return l.storeError(ctx, l.store.Ping(ctx))
}

// check refuses calls that are not worth asking the store.
func (l *Limiter) check(ctx context.Context, key string, cost int) error {
	if err := checkCall(ctx, key, cost); err != nil {
		return err
	}
	for _, r := range l.rules {
		if cost > r.limit.Burst {
			return fmt.Errorf("%w: cost %d, limit %q of limiter %q", ErrCostExceedsBurst, cost, r.limit, l.name)
		}
	}
	return nil
}

func checkCall(ctx context.Context, key string, cost int) error {
	switch {
	case key == "":
		return ErrInvalidKey
	case cost < 1:
		return fmt.Errorf("%w, is %d", ErrInvalidCost, cost)
	default:
		return ctx.Err()
	}
}

// storeError is ctx's own error if ctx has ended, else err as it is.
func (l *Limiter) storeError(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// newBuckets is one bucket for each rule. A cost above a rule's burst, which
// only Refund lets through, is charged as the burst.
func newBuckets(rules []rule, name, key string, cost int) []Bucket {
	return appendBuckets(make([]Bucket, 0, len(rules)), rules, name, key, cost)
}

func appendBuckets(buckets []Bucket, rules []rule, name, key string, cost int) []Bucket {
	for _, r := range rules {
		charge := int64(min(cost, r.limit.Burst)) * r.interval
		buckets = append(buckets, Bucket{Name: name, Key: key, Capacity: r.capacity, Charge: charge})
	}
	return buckets
}

// bucketList is used again from call to call, since a Store does not keep what
// it is given.
type bucketList struct{ buckets []Bucket }

var bucketLists = sync.Pool{New: func() any { return new(bucketList) }}

func (b *bucketList) of(rules []rule, name, key string, cost int) []Bucket {
	b.buckets = appendBuckets(b.buckets[:0], rules, name, key, cost)
	return b.buckets
}

// release lets go of the caller's key too.
func (b *bucketList) release() {
	clear(b.buckets)
	bucketLists.Put(b)
}

// decided fills r from the store's decision.
func (r *Result) decided(decision Decision, rules []rule, buckets []Bucket) {
	r.Allowed, r.Source = decision.Allowed, decision.Source
	if r.Source == 0 {
		r.Source = SourceStore
	}
	r.setLimits(rules, buckets)
}
