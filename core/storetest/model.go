package storetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// model is the contract of a Store, written down a second time and as plainly
// as possible: what it answers is right.
type model struct {
	mu     sync.Mutex
	now    int64 // microseconds
	fullAt map[identity]int64
}

// identity is what makes buckets the same.
type identity struct {
	name, key string
	millis    int64
}

func newModel() *model { return &model{fullAt: make(map[identity]int64)} }

func identityOf(b ratelimit.Bucket) identity {
	millis := b.Capacity / 1000
	if b.Capacity%1000 > 0 {
		millis++
	}
	return identity{b.Name, b.Key, millis}
}

// ahead is the time to full_at, 0 if that has passed or is not known.
func (m *model) ahead(b ratelimit.Bucket) int64 {
	fullAt, known := m.fullAt[identityOf(b)]
	if !known || fullAt < m.now {
		return 0
	}
	return fullAt - m.now
}

func (m *model) deficit(b ratelimit.Bucket) int64 {
	return min(m.ahead(b), b.Capacity)
}

func (m *model) set(b ratelimit.Bucket, deficit int64) {
	m.fullAt[identityOf(b)] = m.now + deficit
	if deficit == 0 {
		delete(m.fullAt, identityOf(b))
	}
}

// look sets the deficits and decides.
func (m *model) look(buckets []ratelimit.Bucket) ratelimit.Decision {
	allowed := true
	for i := range buckets {
		b := &buckets[i]
		b.Deficit = m.deficit(*b)
		allowed = allowed && b.Deficit+b.Charge <= b.Capacity
	}
	return ratelimit.Decision{Allowed: allowed, Source: ratelimit.SourceStore}
}

// Peek implements ratelimit.Store.
func (m *model) Peek(ctx context.Context, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	if ctx.Err() != nil {
		return ratelimit.Decision{}, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.look(buckets), nil
}

// Take implements ratelimit.Store.
func (m *model) Take(ctx context.Context, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	if ctx.Err() != nil {
		return ratelimit.Decision{}, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	decision := m.look(buckets)
	for i := range buckets {
		b := &buckets[i]
		switch {
		case decision.Allowed:
			b.Deficit += b.Charge
			m.set(*b, b.Deficit)
		case m.ahead(*b) > b.Capacity+1_000_000:
			m.set(*b, b.Capacity)
		}
	}
	return decision, nil
}

// Refund implements ratelimit.Store.
func (m *model) Refund(ctx context.Context, buckets []ratelimit.Bucket) error {
	return m.update(ctx, buckets, func(b ratelimit.Bucket) int64 { return max(m.deficit(b)-b.Charge, 0) })
}

// Reset implements ratelimit.Store.
func (m *model) Reset(ctx context.Context, buckets []ratelimit.Bucket) error {
	return m.update(ctx, buckets, func(ratelimit.Bucket) int64 { return 0 })
}

func (m *model) update(ctx context.Context, buckets []ratelimit.Bucket, deficit func(ratelimit.Bucket) int64) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range buckets {
		m.set(b, deficit(b))
	}
	return nil
}

// Ping implements ratelimit.Store.
func (m *model) Ping(ctx context.Context) error { return ctx.Err() }

// advance moves the clock.
func (m *model) advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now += d.Microseconds()
}

// dump is all that matters of the buckets.
func (m *model) dump() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprint(m.fullAt)
}
