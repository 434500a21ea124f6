package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// router finds the lane to the node that holds a bucket.
type router interface {
	// lane never waits for longer than the budget or ctx.
	lane(ctx context.Context, b *ratelimit.Bucket) (*lane, error)
	// nodes calls f for every node that holds keys.
	nodes(ctx context.Context, f func(ctx context.Context, node conn) error) error
}

// newRouter returns the router for the kind of client that rdb is.
func newRouter(rdb redis.UniversalClient, s settings) router {
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		return &clusterRouter{rdb: rdb, prefix: s.prefix, budget: s.budget, lanes: lanes{new: func(node *redis.Client) *lane {
			return newLane(s, node, rdb, func() { rdb.ReloadState(context.Background()) })
		}}}
	case *redis.Ring:
		return &ringRouter{rdb: rdb, prefix: s.prefix, lanes: lanes{new: func(node *redis.Client) *lane {
			return newLane(s, node, nil, nil)
		}}}
	default:
		return &singleRouter{newLane(s, rdb, nil, nil)}
	}
}

// singleRouter is for one node.
type singleRouter struct{ only *lane }

func (r *singleRouter) lane(context.Context, *ratelimit.Bucket) (*lane, error) { return r.only, nil }

func (r *singleRouter) nodes(ctx context.Context, f func(context.Context, conn) error) error {
	return f(ctx, r.only.node)
}

// lanes holds a lane for each node that has been asked for.
type lanes struct {
	new func(node *redis.Client) *lane

	mu   sync.RWMutex
	made map[*redis.Client]*lane
}

// maxLanes is when lanes to nodes that may be gone are dropped. A node still in
// use gets a new one.
const maxLanes = 4096

func (ls *lanes) to(node *redis.Client) *lane {
	ls.mu.RLock()
	l := ls.made[node]
	ls.mu.RUnlock()
	if l != nil {
		return l
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.made[node]; l != nil {
		return l
	}
	if ls.made == nil || len(ls.made) == maxLanes {
		ls.made = make(map[*redis.Client]*lane)
	}
	l = ls.new(node)
	ls.made[node] = l
	return l
}

// ringRouter is for shards that the client chooses by hash.
type ringRouter struct {
	rdb    *redis.Ring
	prefix string
	lanes
}

func (r *ringRouter) lane(_ context.Context, b *ratelimit.Bucket) (*lane, error) {
	node, err := r.rdb.GetShardClientForKey(redisKey(r.prefix, b))
	if err != nil {
		return nil, err
	}
	return r.to(node), nil
}

func (r *ringRouter) nodes(ctx context.Context, f func(context.Context, conn) error) error {
	return r.rdb.ForEachShard(ctx, func(ctx context.Context, node *redis.Client) error {
		return f(ctx, r.to(node).node)
	})
}

// clusterRouter is for Redis Cluster.
type clusterRouter struct {
	rdb    *redis.ClusterClient
	prefix string
	budget time.Duration
	lanes

	// Until the client has met the cluster, asking it for a node means waiting
	// for the network. One goroutine at a time does that.
	met     atomic.Bool
	mu      sync.Mutex
	meeting *meeting
}

// meeting is one attempt to learn which nodes there are.
type meeting struct {
	started time.Time
	done    chan struct{}
	err     error // set before done is closed
}

func (r *clusterRouter) lane(ctx context.Context, b *ratelimit.Bucket) (*lane, error) {
	key := redisKey(r.prefix, b)
	if !r.met.Load() {
		if err := r.meet(ctx, key); err != nil {
			return nil, err
		}
	}
	node, err := r.rdb.MasterForKey(ctx, key)
	if err != nil {
		return nil, err
	}
	return r.to(node), nil
}

var errNotMet = errors.New("redisstore: no node of the cluster has answered yet")

// meet waits for the cluster, but for no attempt that has already taken longer
// than the budget, and starts one attempt every trialEvery at most.
func (r *clusterRouter) meet(ctx context.Context, key string) error {
	m := r.attempt(key)
	wait := r.budget - time.Since(m.started)
	if wait <= 0 {
		select {
		case <-m.done:
			return m.err
		default:
			return errNotMet
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-m.done:
		return m.err
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return errNotMet
	}
}

// attempt returns the attempt under way, one that has just failed, or a new one.
func (r *clusterRouter) attempt(key string) *meeting {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.meeting; m != nil {
		select {
		case <-m.done:
			if m.err == nil || time.Since(m.started) < trialEvery {
				return m
			}
		default:
			return m
		}
	}
	m := &meeting{started: time.Now(), done: make(chan struct{})}
	r.meeting = m
	go func() {
		defer close(m.done)
		m.err = guard(func() error {
			_, err := r.rdb.MasterForKey(context.Background(), key)
			return err
		})
		if m.err == nil {
			r.met.Store(true)
		}
	}()
	return m
}

func (r *clusterRouter) nodes(ctx context.Context, f func(context.Context, conn) error) error {
	return r.rdb.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		return f(ctx, r.to(node).node)
	})
}
