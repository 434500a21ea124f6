// Package memstore keeps buckets in the memory of one process.
//
// It serves three purposes: limiting a service that runs as a single instance,
// deciding on a local share of a limit while Redis is out of reach (see
// ratelimit.FailLocal), and testing one's own handlers without a server:
//
//	limiter, err := ratelimit.New(memstore.New(), "api", ratelimit.PerSecond(10))
//
// The buckets are the same as redisstore's, to the microsecond. They are gone
// when the process ends, and no other process sees them.
//
// # Memory
//
// A Store is bounded: by default it holds 100,000 buckets, about 20 MB. Full
// buckets carry no information and are dropped as room is needed. When every
// bucket it holds is in use, keys it does not know share one bucket per limiter
// and limit, until there is room again. Forgetting a bucket in use instead
// would let an attacker who can vary the key empty the store and start afresh;
// denying new keys would lock everyone else out. Sharing does neither: no
// bucket admits more than its limit, and newcomers still get in, together, at
// the rate of one.
//
// A Store has no goroutine and needs no closing.
package memstore

import (
	"context"
	"sync"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/internal/bucket"
)

const (
	defaultMaxBuckets = 100_000
	// sweep is how many buckets are looked at, in search of full ones to drop,
	// when a new bucket finds the store at its bound.
	sweep = 32
	// few is how many buckets a call may have without memory of its own.
	few = 4
)

// id is the identity of a bucket.
type id struct {
	name   string
	key    string // "" is the bucket shared by keys there is no room for
	millis int64  // capacity
}

// Store is a ratelimit.Store in memory. It is safe for concurrent use. The only
// error of its methods is that of a ctx that had ended when they were called. The
// zero Store is not usable: call New.
type Store struct {
	maxBuckets int

	mu     sync.Mutex
	fullAt map[id]int64 // Unix microseconds
}

var _ ratelimit.Store = (*Store)(nil)

// Option changes a Store from its defaults.
type Option func(*Store)

// WithMaxBuckets bounds the number of buckets in memory. The default is 100,000.
// A bound below 1 is taken as 1.
func WithMaxBuckets(n int) Option {
	return func(s *Store) { s.maxBuckets = max(n, 1) }
}

// New returns an empty Store.
func New(opts ...Option) *Store {
	s := &Store{maxBuckets: defaultMaxBuckets, fullAt: make(map[id]int64)}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// Take implements ratelimit.Store.
func (s *Store) Take(ctx context.Context, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	return s.decide(ctx, buckets, true)
}

// Peek implements ratelimit.Store.
func (s *Store) Peek(ctx context.Context, buckets []ratelimit.Bucket) (ratelimit.Decision, error) {
	return s.decide(ctx, buckets, false)
}

func (s *Store) decide(ctx context.Context, buckets []ratelimit.Bucket, write bool) (ratelimit.Decision, error) {
	if err := ctx.Err(); err != nil {
		return ratelimit.Decision{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UnixMicro()
	ids := s.find(make([]id, 0, few), buckets, now)
	allowed := true
	for i := range buckets {
		b := &buckets[i]
		fullAt := s.fullAt[ids[i]]
		b.Deficit = bucket.Deficit(fullAt, now, b.Capacity)
		if bucket.Fits(b.Deficit, b.Capacity, b.Charge) < 1 {
			allowed = false
		}
		if write && bucket.Skewed(fullAt, now, b.Capacity) {
			s.fullAt[ids[i]] = now + b.Capacity
		}
	}
	if allowed && write {
		for i := range buckets {
			b := &buckets[i]
			b.Deficit += b.Charge
			s.fullAt[ids[i]] = now + b.Deficit
		}
	}
	return ratelimit.Decision{Allowed: allowed, Source: ratelimit.SourceStore}, nil
}

// Refund implements ratelimit.Store.
func (s *Store) Refund(ctx context.Context, buckets []ratelimit.Bucket) error {
	return s.update(ctx, buckets, func(_ id, b *ratelimit.Bucket, deficit int64) int64 {
		return max(deficit-b.Charge, 0)
	})
}

// Reset implements ratelimit.Store. A key that there was no room for has nothing
// of its own to reset: what it shares with others is theirs too.
func (s *Store) Reset(ctx context.Context, buckets []ratelimit.Bucket) error {
	return s.update(ctx, buckets, func(at id, _ *ratelimit.Bucket, deficit int64) int64 {
		if at.key == "" {
			return deficit
		}
		return 0
	})
}

// update replaces the deficit of each bucket.
func (s *Store) update(ctx context.Context, buckets []ratelimit.Bucket, deficit func(id, *ratelimit.Bucket, int64) int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UnixMicro()
	for i, id := range s.find(make([]id, 0, few), buckets, now) {
		b := &buckets[i]
		was := bucket.Deficit(s.fullAt[id], now, b.Capacity)
		if d := deficit(id, b, was); d > 0 {
			s.fullAt[id] = now + d
		} else {
			delete(s.fullAt, id)
		}
	}
	return nil
}

// Ping implements ratelimit.Store.
func (s *Store) Ping(ctx context.Context) error { return ctx.Err() }

// find appends to ids where the state of each bucket is kept. A call asks once:
// what it reads in one place it must not write in another.
func (s *Store) find(ids []id, buckets []ratelimit.Bucket, now int64) []id {
	for i := range buckets {
		ids = append(ids, s.findOne(&buckets[i], now))
	}
	return ids
}

// findOne is b's own identity if it is known or there is room, else that of the
// shared bucket.
func (s *Store) findOne(b *ratelimit.Bucket, now int64) id {
	own := id{name: b.Name, key: bucket.StoredKey(b.Key), millis: bucket.Millis(b.Capacity)}
	if _, known := s.fullAt[own]; known || len(s.fullAt) < s.maxBuckets || s.makeRoom(now) {
		return own
	}
	return id{name: b.Name, millis: own.millis}
}

// makeRoom drops some of the buckets that are full, and reports whether there
// is room for another.
func (s *Store) makeRoom(now int64) bool {
	looked := 0
	for id, fullAt := range s.fullAt {
		if fullAt <= now {
			delete(s.fullAt, id)
		}
		if looked++; looked == sweep {
			break
		}
	}
	return len(s.fullAt) < s.maxBuckets
}
