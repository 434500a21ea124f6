package redisstore

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/internal/bucket"
)

const (
	// boundFor is how long a bound is believed at most. So long may go unseen
	// what lowers a deficit other than time: a refund or reset by another
	// instance, a failover, an eviction, a clock that steps forward.
	boundFor = time.Second
	// drift is by what part of the time passed a bound decays faster than it
	// need, for Redis' clock to run faster than ours: 0.1%.
	drift = 1000
	// shards of the shortcut, each with a lock of its own.
	shards = 32
	// boundsPerShard bounds the memory: 65,536 bounds in all, about 20 MB.
	boundsPerShard = 2048
)

// shortcut denies calls whose buckets are known to be too empty.
//
// A reply says how large a bucket's deficit was when the command was carried
// out, somewhere between its sending and its receipt. From then on the passing
// of time lowers it, by one microsecond each microsecond, and other calls only
// raise it. So
//
//	deficit - (now - sent)
//
// is never more than what Redis would find now: a call that this bound denies,
// Redis would deny. And
//
//	deficit - (now - received)
//
// is never less than what Redis would find if nobody else came: who waits until
// that bound admits the call is admitted.
type shortcut struct {
	seed   maphash.Seed
	start  time.Time
	shards [shards]shard
}

type shard struct {
	last atomic.Pointer[bound] // learnt; under attack, the one that is asked for

	mu     sync.Mutex
	bounds *simplelru.LRU[client, *bound]
	known  atomic.Int64 // len of bounds, for those who only pass by
	// forgotten is the last time at which a refund or reset of a bucket in this
	// shard has ended. What was sent before says nothing about the time after.
	forgotten time.Duration
}

// client is whose buckets a bound is about.
type client struct{ name, key string }

func clientOf(buckets []ratelimit.Bucket) client {
	return client{name: buckets[0].Name, key: buckets[0].Key}
}

// ofOne reports whether all buckets are of one client, as those of a Limiter
// are. Of others the shortcut knows nothing.
func ofOne(buckets []ratelimit.Bucket) bool {
	for _, b := range buckets[1:] {
		if b.Name != buckets[0].Name || b.Key != buckets[0].Key {
			return false
		}
	}
	return true
}

// bound is what the last reply that denied a client's next call has taught. It
// does not change.
type bound struct {
	of       client
	buckets  []ratelimit.Bucket // with their deficits
	sent     time.Duration      // since the shortcut's start
	received time.Duration
}

func newShortcut() *shortcut {
	s := &shortcut{seed: maphash.MakeSeed(), start: time.Now()}
	for i := range s.shards {
		s.shards[i].bounds, _ = simplelru.NewLRU[client, *bound](boundsPerShard, nil) // errs on sizes below 1 only
	}
	return s
}

func (s *shortcut) shard(of client) *shard {
	return &s.shards[maphash.Comparable(s.seed, of)%shards]
}

// denies reports whether a call is known to be denied, and if so sets its
// buckets' deficits.
func (s *shortcut) denies(buckets []ratelimit.Bucket) bool {
	known := s.find(clientOf(buckets))
	if known == nil {
		return false
	}
	now := time.Since(s.start)
	if now-known.sent >= boundFor || !known.isAbout(buckets) || !known.denies(buckets, (now-known.sent).Microseconds()) {
		return false
	}
	waited := (now - known.received).Microseconds()
	for i := range buckets {
		buckets[i].Deficit = min(max(known.buckets[i].Deficit-waited, 0), buckets[i].Capacity)
	}
	return true
}

// find returns what is known of a client, or nil.
func (s *shortcut) find(of client) *bound {
	shard := s.shard(of)
	if known := shard.last.Load(); known != nil && known.of == of {
		return known
	}
	if shard.known.Load() == 0 {
		return nil
	}
	shard.mu.Lock()
	defer shard.mu.Unlock()
	known, _ := shard.bounds.Get(of)
	return known
}

// isAbout reports whether b knows these very buckets.
func (b *bound) isAbout(buckets []ratelimit.Bucket) bool {
	return ofOne(buckets) && slices.EqualFunc(b.buckets, buckets, sameCapacity)
}

// denies reports whether one of buckets has too large a deficit for its charge,
// passed microseconds after the bound's command was sent.
func (b *bound) denies(buckets []ratelimit.Bucket, passed int64) bool {
	passed += passed/drift + 1
	for i, known := range b.buckets {
		if bucket.Fits(known.Deficit-passed, buckets[i].Capacity, buckets[i].Charge) < 1 {
			return true
		}
	}
	return false
}

// learn takes what Redis has answered to a call, if a further one like it would
// be denied now, or if there is something that it replaces.
func (s *shortcut) learn(c *call, sent, received time.Time) {
	empty := false
	for i, b := range c.buckets {
		empty = empty || bucket.Fits(c.left(i), b.Capacity, b.Charge) < 1
	}
	of := clientOf(c.buckets)
	if !ofOne(c.buckets) || !empty && s.find(of) == nil { // what is known already must be kept up to date
		return
	}
	buckets := slices.Clone(c.buckets)
	for i := range buckets {
		buckets[i].Deficit = c.left(i)
	}
	b := &bound{of: of, buckets: buckets, sent: sent.Sub(s.start), received: received.Sub(s.start)}
	shard := s.shard(b.of)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if known, ok := shard.bounds.Peek(b.of); b.sent <= shard.forgotten || ok && b.sent <= known.sent {
		return
	}
	shard.bounds.Add(b.of, b)
	shard.known.Store(int64(shard.bounds.Len()))
	shard.last.Store(b)
}

// forget drops what is known of buckets, and what replies still on their way
// are going to tell.
func (s *shortcut) forget(buckets []ratelimit.Bucket) {
	for i := range buckets {
		of := clientOf(buckets[i:])
		shard := s.shard(of)
		shard.mu.Lock()
		shard.forgotten = time.Since(s.start)
		shard.bounds.Remove(of)
		shard.known.Store(int64(shard.bounds.Len()))
		shard.last.Store(nil)
		shard.mu.Unlock()
	}
}

func sameCapacity(a, b ratelimit.Bucket) bool {
	return bucket.Millis(a.Capacity) == bucket.Millis(b.Capacity)
}
