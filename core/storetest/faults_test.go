package storetest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// faulty is a store with some of its calls replaced.
type faulty struct {
	ratelimit.Store

	take, peek    func(list []ratelimit.Bucket) ratelimit.Decision
	refund, reset func(list []ratelimit.Bucket)
	ping          error
}

func (f faulty) Take(ctx context.Context, list []ratelimit.Bucket) (ratelimit.Decision, error) {
	if f.take == nil || ctx.Err() != nil {
		return f.Store.Take(ctx, list)
	}
	return f.take(list), nil
}

func (f faulty) Peek(ctx context.Context, list []ratelimit.Bucket) (ratelimit.Decision, error) {
	if f.peek == nil || ctx.Err() != nil {
		return f.Store.Peek(ctx, list)
	}
	return f.peek(list), nil
}

func (f faulty) Refund(ctx context.Context, list []ratelimit.Bucket) error {
	if f.refund == nil || ctx.Err() != nil {
		return f.Store.Refund(ctx, list)
	}
	f.refund(list)
	return nil
}

func (f faulty) Reset(ctx context.Context, list []ratelimit.Bucket) error {
	if f.reset == nil || ctx.Err() != nil {
		return f.Store.Reset(ctx, list)
	}
	f.reset(list)
	return nil
}

func (f faulty) Ping(ctx context.Context) error {
	return errors.Join(f.Store.Ping(ctx), f.ping)
}

// renaming is a store that takes some buckets for others.
type renaming struct {
	*model

	rename func(*ratelimit.Bucket)
}

func (r renaming) renamed(list []ratelimit.Bucket) []ratelimit.Bucket {
	list = slices.Clone(list)
	for i := range list {
		r.rename(&list[i])
	}
	return list
}

func (r renaming) decide(ctx context.Context, list []ratelimit.Bucket, decide decide) (ratelimit.Decision, error) {
	renamed := r.renamed(list)
	decision, err := decide(ctx, renamed)
	for i := range list {
		list[i].Deficit = renamed[i].Deficit
	}
	return decision, err
}

func (r renaming) Take(ctx context.Context, list []ratelimit.Bucket) (ratelimit.Decision, error) {
	return r.decide(ctx, list, r.model.Take)
}

func (r renaming) Peek(ctx context.Context, list []ratelimit.Bucket) (ratelimit.Decision, error) {
	return r.decide(ctx, list, r.model.Peek)
}

func (r renaming) Refund(ctx context.Context, list []ratelimit.Bucket) error {
	return r.model.Refund(ctx, r.renamed(list))
}

func (r renaming) Reset(ctx context.Context, list []ratelimit.Bucket) error {
	return r.model.Reset(ctx, r.renamed(list))
}

// heedless is a store that does not look at ctx.
type heedless struct{ *model }

func (h heedless) Take(_ context.Context, list []ratelimit.Bucket) (ratelimit.Decision, error) {
	return h.model.Take(context.Background(), list)
}

// locked runs f while nobody else uses m.
func locked(m *model, f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// charge is the writing half of Take.
func charge(m *model, list []ratelimit.Bucket) {
	for i := range list {
		list[i].Deficit += list[i].Charge
		m.set(list[i], list[i].Deficit)
	}
}

// faults are stores that break the contract, with a check that must notice.
var faults = []struct {
	name    string
	notices string
	store   func(m *model) ratelimit.Store
}{
	{
		"reads, then writes", "callers at the same time share exactly one burst",
		func(m *model) ratelimit.Store { return faulty{Store: m, take: readThenWrite(m)} },
	},
	{
		"reads, then writes", "lists in any order at the same time are each all or none",
		func(m *model) ratelimit.Store { return faulty{Store: m, take: readThenWrite(m)} },
	},
	{
		"reads, then writes the refund", "refunds among calls lose and win nothing",
		func(m *model) ratelimit.Store {
			return faulty{Store: m, refund: func(list []ratelimit.Bucket) {
				locked(m, func() { m.look(list) })
				runtime.Gosched()
				locked(m, func() {
					for _, b := range list {
						m.set(b, max(b.Deficit-b.Charge, 0))
					}
				})
			}}
		},
	},
	{
		"admits one call more", "an idle bucket admits exactly its burst",
		func(m *model) ratelimit.Store {
			return faulty{Store: m, take: func(list []ratelimit.Bucket) (decision ratelimit.Decision) {
				locked(m, func() {
					m.look(list)
					decision.Allowed = !slices.ContainsFunc(list, func(b ratelimit.Bucket) bool { return b.Deficit >= b.Capacity+b.Charge })
					if decision.Allowed {
						charge(m, list)
					}
				})
				return decision
			}}
		},
	},
	{
		"admits all", "an idle bucket admits exactly its burst",
		func(m *model) ratelimit.Store {
			return faulty{Store: m, take: func([]ratelimit.Bucket) ratelimit.Decision { return ratelimit.Decision{Allowed: true} }}
		},
	},
	{
		"denies all", "an idle bucket admits exactly its burst",
		func(m *model) ratelimit.Store {
			return faulty{Store: m, take: func([]ratelimit.Bucket) ratelimit.Decision { return ratelimit.Decision{} }}
		},
	},
	{
		"denies a call that just fits", "a burst is whole where a token takes a fraction of a microsecond more",
		func(m *model) ratelimit.Store { return faulty{Store: m, take: denyingTheLast(m)} },
	},
	{
		"denies a call that just fits", "arguments that cannot succeed leave the bucket untouched",
		func(m *model) ratelimit.Store { return faulty{Store: m, take: denyingTheLast(m)} },
	},
	{
		"knows no more than a month", "the smallest and the largest bucket work",
		func(m *model) ratelimit.Store {
			month := (30 * 24 * time.Hour).Microseconds()
			return renaming{m, func(b *ratelimit.Bucket) { b.Capacity, b.Charge = min(b.Capacity, month), min(b.Charge, month) }}
		},
	},
	{
		"counts time in steps", "who waits exactly RetryAfter is admitted",
		func(m *model) ratelimit.Store { return faulty{Store: m, take: counting(m, 7_000, 0)} },
	},
	{
		"starts to refill anew at each denial", "tokens come back one by one",
		func(m *model) ratelimit.Store {
			return faulty{Store: m, take: func(list []ratelimit.Bucket) ratelimit.Decision {
				decision, _ := m.Take(context.Background(), list)
				if b := list[0]; !decision.Allowed {
					locked(m, func() { m.set(b, (b.Deficit+b.Charge-1)/b.Charge*b.Charge) })
				}
				return decision
			}}
		},
	},
	{
		"reports milliseconds", "ResetAfter is the time to full",
		func(m *model) ratelimit.Store {
			return faulty{Store: m, take: func(list []ratelimit.Bucket) ratelimit.Decision {
				decision, _ := m.Take(context.Background(), list)
				list[0].Deficit = list[0].Deficit / 1000 * 1000
				return decision
			}}
		},
	},
	{
		"charges denials", "a denial costs nothing and extends no wait",
		func(m *model) ratelimit.Store { return faulty{Store: m, take: chargingDenials(m)} },
	},
	{
		"charges denials", "polling does not slow the refill",
		func(m *model) ratelimit.Store { return faulty{Store: m, take: chargingDenials(m)} },
	},
	{
		"charges what fits of a list", "a list is denied as a whole",
		func(m *model) ratelimit.Store {
			return faulty{Store: m, take: func(list []ratelimit.Bucket) (decision ratelimit.Decision) {
				locked(m, func() {
					decision = m.look(list)
					for i := range list {
						if list[i].Deficit+list[i].Charge <= list[i].Capacity {
							charge(m, list[i:i+1])
						}
					}
				})
				return decision
			}}
		},
	},
	{
		"charges the first of a list only", "a list is charged as a whole",
		func(m *model) ratelimit.Store {
			return faulty{Store: m, take: func(list []ratelimit.Bucket) (decision ratelimit.Decision) {
				locked(m, func() {
					if decision = m.look(list); decision.Allowed {
						charge(m, list[:1])
					}
				})
				return decision
			}}
		},
	},
	{
		"decides by the first of a list only", "limits that must hold at the same time all hold",
		func(m *model) ratelimit.Store {
			return faulty{Store: m, take: func(list []ratelimit.Bucket) (decision ratelimit.Decision) {
				locked(m, func() {
					m.look(list)
					if decision = m.look(list[:1]); decision.Allowed {
						charge(m, list)
					}
				})
				return decision
			}}
		},
	},
	{
		"reports the deficit before the charge", "a call spends its cost or nothing",
		func(m *model) ratelimit.Store {
			return faulty{Store: m, take: func(list []ratelimit.Bucket) (decision ratelimit.Decision) {
				locked(m, func() {
					if decision = m.look(list); decision.Allowed {
						charge(m, slices.Clone(list))
					}
				})
				return decision
			}}
		},
	},
	{
		"charges a look", "a look decides as a call would and writes nothing",
		func(m *model) ratelimit.Store {
			return faulty{Store: m, peek: func(list []ratelimit.Bucket) ratelimit.Decision {
				decision, _ := m.Take(context.Background(), list)
				return decision
			}}
		},
	},
	{
		"heals in a look", "a step back that is undone changes nothing",
		func(m *model) ratelimit.Store {
			return faulty{Store: m, peek: func(list []ratelimit.Bucket) (decision ratelimit.Decision) {
				locked(m, func() {
					decision = m.look(list)
					for _, b := range list {
						m.set(b, b.Deficit)
					}
				})
				return decision
			}}
		},
	},
	{
		"heals small steps too", "a step back that is undone changes nothing",
		func(m *model) ratelimit.Store { return faulty{Store: m, take: healing(m, 0)} },
	},
	{
		"never heals", "a clock set back gives no tokens and locks nobody out",
		func(m *model) ratelimit.Store { return faulty{Store: m, take: healing(m, 1<<60)} },
	},
	{
		"never heals", "a store answers as the contract says, through any history",
		func(m *model) ratelimit.Store { return faulty{Store: m, take: healing(m, 1<<60)} },
	},
	{
		"takes a far full_at for an unknown bucket", "a clock set back gives no tokens and locks nobody out",
		func(m *model) ratelimit.Store {
			return faulty{Store: m, take: func(list []ratelimit.Bucket) ratelimit.Decision {
				locked(m, func() {
					for _, b := range list {
						if m.ahead(b) > b.Capacity+1_000_000 {
							m.set(b, 0)
						}
					}
				})
				decision, _ := m.Take(context.Background(), list)
				return decision
			}}
		},
	},
	{
		"heals the first of a list only", "a clock set back is healed in every bucket of a list",
		func(m *model) ratelimit.Store {
			return faulty{Store: m, take: func(list []ratelimit.Bucket) ratelimit.Decision {
				if decision, _ := m.Peek(context.Background(), list); !decision.Allowed {
					_, _ = m.Take(context.Background(), list[:1])
					return decision
				}
				decision, _ := m.Take(context.Background(), list)
				return decision
			}}
		},
	},
	{
		"credits idle time", "idle time fills a bucket to its burst and no further",
		func(m *model) ratelimit.Store {
			last := make(map[identity]int64)
			return faulty{Store: m, take: func(list []ratelimit.Bucket) (decision ratelimit.Decision) {
				locked(m, func() {
					for _, b := range list {
						if at, known := last[identityOf(b)]; known && at < m.now-b.Capacity {
							delete(m.fullAt, identityOf(b)) // and a token on top
							decision.Allowed = true
						}
						last[identityOf(b)] = m.now
					}
				})
				if !decision.Allowed {
					decision, _ = m.Take(context.Background(), list)
				}
				return decision
			}}
		},
	},
	{
		"counts in milliseconds", "who waits a microsecond less is denied",
		func(m *model) ratelimit.Store { return faulty{Store: m, take: counting(m, 1_000, 999)} },
	},
	{
		"refunds beyond full", "a refund never makes a bucket more than full",
		func(m *model) ratelimit.Store {
			credit := make(map[identity]int64)
			return faulty{
				Store: m,
				refund: func(list []ratelimit.Bucket) {
					for _, b := range list {
						credit[identityOf(b)] += b.Charge
					}
				},
				take: func(list []ratelimit.Bucket) ratelimit.Decision {
					if b := list[0]; credit[identityOf(b)] >= b.Charge {
						credit[identityOf(b)] -= b.Charge
						return ratelimit.Decision{Allowed: true}
					}
					decision, _ := m.Take(context.Background(), list)
					return decision
				},
			}
		},
	},
	{
		"refunds nothing", "a refund gives back what it says",
		func(m *model) ratelimit.Store { return faulty{Store: m, refund: func([]ratelimit.Bucket) {}} },
	},
	{
		"remembers denials for good", "a refund or reset is seen by the next call",
		func(m *model) ratelimit.Store {
			denied := make(map[identity]bool)
			return faulty{Store: m, take: func(list []ratelimit.Bucket) ratelimit.Decision {
				if denied[identityOf(list[0])] {
					return ratelimit.Decision{Source: ratelimit.SourceShortcut}
				}
				decision, _ := m.Take(context.Background(), list)
				denied[identityOf(list[0])] = !decision.Allowed
				return decision
			}}
		},
	},
	{
		"resets nothing", "a reset makes a bucket full, and no other",
		func(m *model) ratelimit.Store { return faulty{Store: m, reset: func([]ratelimit.Bucket) {}} },
	},
	{
		"resets all", "a reset makes a bucket full, and no other",
		func(m *model) ratelimit.Store {
			return faulty{Store: m, reset: func([]ratelimit.Bucket) { locked(m, func() { clear(m.fullAt) }) }}
		},
	},
	{
		"keeps the list", "a list may be used again at once",
		func(m *model) ratelimit.Store {
			var kept []ratelimit.Bucket
			return faulty{Store: m, take: func(list []ratelimit.Bucket) ratelimit.Decision {
				if kept != nil {
					_, _ = m.Take(context.Background(), kept)
				}
				kept = list
				return m.look(list)
			}}
		},
	},
	{
		"is not ready", "a store that can decide says so",
		func(m *model) ratelimit.Store { return faulty{Store: m, ping: errors.New("not ready")} },
	},
	{
		"does not look at ctx", "a ctx that has ended is answered with its error and changes nothing",
		func(m *model) ratelimit.Store { return heedless{m} },
	},
	{
		"ignores names", "names are independent",
		func(m *model) ratelimit.Store {
			return renaming{m, func(b *ratelimit.Bucket) { b.Name = "" }}
		},
	},
	{
		"joins names and keys", "names and keys do not run into each other",
		func(m *model) ratelimit.Store {
			return renaming{m, func(b *ratelimit.Bucket) { b.Name, b.Key = "", b.Name+"."+b.Key }}
		},
	},
	{
		"cuts long keys", "keys are distinct, however awkward",
		func(m *model) ratelimit.Store {
			return renaming{m, func(b *ratelimit.Bucket) { b.Key = b.Key[:min(len(b.Key), 128)] }}
		},
	},
	{
		"keeps valid text only", "keys are distinct, however awkward",
		func(m *model) ratelimit.Store {
			return renaming{m, func(b *ratelimit.Bucket) { b.Key = strings.ToValidUTF8(b.Key, "\uFFFD") }}
		},
	},
	{
		"trims keys", "keys are distinct, however awkward",
		func(m *model) ratelimit.Store {
			return renaming{m, func(b *ratelimit.Bucket) { b.Key = strings.TrimSpace(b.Key) }}
		},
	},
	{
		"has a bucket for each charge", "limits of equal capacity share a bucket",
		func(m *model) ratelimit.Store {
			return renaming{m, func(b *ratelimit.Bucket) { b.Name += time.Duration(b.Charge).String() }}
		},
	},
	{
		"has one bucket for all capacities", "a limit of another capacity has another bucket",
		oneCapacity,
	},
	{
		"has one bucket for all capacities", "two versions of a limit in turn admit at most both bursts",
		oneCapacity,
	},
	{
		"tells capacities apart by microseconds", "capacities are told apart by whole milliseconds",
		func(m *model) ratelimit.Store {
			return renaming{m, func(b *ratelimit.Bucket) { b.Name += time.Duration(b.Capacity).String() }}
		},
	},
}

func oneCapacity(m *model) ratelimit.Store {
	return renaming{m, func(b *ratelimit.Bucket) {
		b.Capacity = (24 * time.Hour).Microseconds()
		b.Charge = min(b.Charge, b.Capacity)
	}}
}

func denyingTheLast(m *model) func([]ratelimit.Bucket) ratelimit.Decision {
	return func(list []ratelimit.Bucket) (decision ratelimit.Decision) {
		locked(m, func() {
			decision = m.look(list)
			decision.Allowed = decision.Allowed && !slices.ContainsFunc(list, func(b ratelimit.Bucket) bool { return b.Deficit+b.Charge == b.Capacity })
			if decision.Allowed {
				charge(m, list)
			}
		})
		return decision
	}
}

// counting is Take by a clock that goes in steps of so many microseconds.
func counting(m *model, step, ahead int64) func([]ratelimit.Bucket) ratelimit.Decision {
	return func(list []ratelimit.Bucket) ratelimit.Decision {
		var exact int64
		locked(m, func() {
			exact = m.now
			m.now = (exact + ahead) / step * step
		})
		defer func() { locked(m, func() { m.now = exact }) }()
		decision, _ := m.Take(context.Background(), list)
		return decision
	}
}

func readThenWrite(m *model) func([]ratelimit.Bucket) ratelimit.Decision {
	return func(list []ratelimit.Bucket) (decision ratelimit.Decision) {
		locked(m, func() { decision = m.look(list) })
		runtime.Gosched()
		if decision.Allowed {
			locked(m, func() { charge(m, list) })
		}
		return decision
	}
}

func chargingDenials(m *model) func([]ratelimit.Bucket) ratelimit.Decision {
	return func(list []ratelimit.Bucket) (decision ratelimit.Decision) {
		locked(m, func() {
			decision = m.look(list)
			charge(m, list)
		})
		return decision
	}
}

// healing is Take with another idea of what only a clock can have done.
func healing(m *model, skew int64) func([]ratelimit.Bucket) ratelimit.Decision {
	return func(list []ratelimit.Bucket) (decision ratelimit.Decision) {
		locked(m, func() {
			decision = m.look(list)
			for i := range list {
				if decision.Allowed {
					charge(m, list[i:i+1])
				} else if m.ahead(list[i]) > list[i].Capacity+skew {
					m.set(list[i], list[i].Capacity)
				}
			}
		})
		return decision
	}
}
