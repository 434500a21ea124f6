package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

var historyChecks = []Check{
	{"a store answers as the contract says, through any history", historiesMatch},
}

const (
	histories = 30
	steps     = 200
)

// historiesMatch drives the store beside the model, and compares every answer
// to the microsecond.
func historiesMatch(s subject) {
	s.Helper()
	s.needsClock()
	for seed := range uint64(histories) {
		h := &history{
			subject: s,
			rng:     rand.New(rand.NewPCG(seed, seed)),
			model:   newModel(),
			prefix:  fmt.Sprintf("history%d.", seed),
		}
		for range steps {
			h.step()
		}
	}
}

// history is one sequence of random calls.
type history struct {
	subject
	rng    *rand.Rand
	model  *model
	prefix string // of names
	told   []string
	used   []ratelimit.Bucket
}

// capacities are few, so that calls meet each other's buckets. Some are of one
// whole millisecond.
var capacities = []time.Duration{
	time.Microsecond,
	1001 * time.Microsecond,
	1999 * time.Microsecond,
	time.Second,
	time.Second + 333*time.Microsecond,
	10 * time.Second,
	time.Hour,
	365 * 24 * time.Hour,
}

func (h *history) step() {
	h.Helper()
	switch n := h.rng.IntN(20); {
	case n < 9:
		h.compare("Take", h.Store.Take, h.model.Take)
	case n < 11:
		h.compare("Peek", h.Store.Peek, h.model.Peek)
	case n < 13:
		h.apply("Refund", h.Store.Refund, h.model.Refund, h.list())
	case n < 14:
		h.apply("Reset", h.Store.Reset, h.model.Reset, h.list())
	case n < 19:
		h.move(h.pause())
	default:
		h.stepBack()
	}
}

// list is one to three distinct buckets.
func (h *history) list() []ratelimit.Bucket {
	name, key := h.name(), h.key()
	var list []ratelimit.Bucket
	for range 1 + h.rng.IntN(3) {
		if !h.OneKey {
			name, key = h.name(), h.key()
		}
		capacity := pick(h.rng, capacities)
		b := bucketOf(name, key, capacity, h.charge(capacity))
		same := func(other ratelimit.Bucket) bool { return identityOf(other) == identityOf(b) }
		if !slices.ContainsFunc(list, same) {
			list = append(list, b)
		}
	}
	h.used = append(h.used, list...)
	return list
}

func (h *history) name() string { return h.prefix + pick(h.rng, []string{"a", "b"}) }
func (h *history) key() string  { return pick(h.rng, []string{"k", "l", "{m}"}) }

// charge is mostly a fraction of the capacity, at times any time up to it.
func (h *history) charge(capacity time.Duration) time.Duration {
	if h.rng.IntN(4) == 0 {
		return time.Duration(1+h.rng.Int64N(capacity.Microseconds())) * time.Microsecond
	}
	return max(capacity/time.Duration(1+h.rng.IntN(7)), time.Microsecond)
}

// pause is a time to let pass: any, or such that a bucket is just full, or a
// call just fits.
func (h *history) pause() time.Duration {
	anything := time.Duration(h.rng.Int64N(pick(h.rng, capacities).Microseconds()+1)) * time.Microsecond
	if len(h.used) == 0 || h.rng.IntN(3) == 0 {
		return anything
	}
	b := pick(h.rng, h.used)
	deficit := h.model.deficit(b)
	wait := pick(h.rng, []int64{deficit, deficit + b.Charge - b.Capacity}) + pick(h.rng, []int64{-1, 0, 1})
	return micros(max(wait, 0))
}

func (h *history) move(d time.Duration) {
	h.tellf("advance %v", d)
	h.Advance(d)
	h.model.advance(d)
}

// stepBack steps the clock back. A bucket that is full may have been forgotten
// or not, and only a step back can tell: so these are made full for good first.
func (h *history) stepBack() {
	h.Helper()
	for _, b := range h.used {
		if h.model.ahead(b) == 0 {
			h.apply("Reset", h.Store.Reset, h.model.Reset, []ratelimit.Bucket{b})
		}
	}
	h.move(-pick(h.rng, []time.Duration{time.Microsecond, 400 * time.Millisecond, time.Second, 90 * time.Minute, twoDays}))
}

type decide = func(context.Context, []ratelimit.Bucket) (ratelimit.Decision, error)

func (h *history) compare(what string, ofStore, ofModel decide) {
	h.Helper()
	got := h.list()
	want := slices.Clone(got)
	h.tellf("%s %v", what, got)
	decision, err := ofStore(context.Background(), got)
	if err != nil {
		h.failf("error: %v", err)
	}
	right, _ := ofModel(context.Background(), want)
	if decision.Allowed != right.Allowed || !slices.Equal(got, want) {
		h.failf("allowed %v, buckets %v\nwant    %v, buckets %v", decision.Allowed, got, right.Allowed, want)
	}
}

type update = func(context.Context, []ratelimit.Bucket) error

func (h *history) apply(what string, ofStore, ofModel update, list []ratelimit.Bucket) {
	h.Helper()
	h.tellf("%s %v", what, list)
	if err := ofStore(context.Background(), slices.Clone(list)); err != nil {
		h.failf("error: %v", err)
	}
	_ = ofModel(context.Background(), list)
}

func (h *history) tellf(format string, args ...any) {
	h.told = append(h.told, fmt.Sprintf(format, args...))
}

// failf shows the last steps, which are mostly all that matters.
func (h *history) failf(format string, args ...any) {
	h.Helper()
	last := h.told[max(0, len(h.told)-12):]
	h.Fatalf("%s, step %d, buckets are {name key capacity charge deficit}:\n%s\n%s",
		h.prefix, len(h.told), strings.Join(last, "\n"), fmt.Sprintf(format, args...))
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }
