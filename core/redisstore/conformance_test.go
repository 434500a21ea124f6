package redisstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
	"github.com/atomicbucket/ratelimit/core/storetest"
)

// variants are the ways in which a store can reach its decisions. All must be
// the same decisions.
var variants = []struct {
	name string
	opts []redisstore.Option
}{
	{"shortcut and batch", nil},
	{"no shortcut", []redisstore.Option{redisstore.WithoutShortcut()}},
	{"no batch", []redisstore.Option{redisstore.WithoutBatch()}},
	{"neither", []redisstore.Option{redisstore.WithoutShortcut(), redisstore.WithoutBatch()}},
}

func TestTheScriptDecidesAsTheModelDoesToTheMicrosecond(t *testing.T) {
	t.Parallel()
	alone := func(s *redisstore.Store) ratelimit.Store { return s }
	inCompany := func(s *redisstore.Store) ratelimit.Store { return redisstore.InCompany{Store: s} }
	for name, way := range map[string]func(*redisstore.Store) ratelimit.Store{"alone": alone, "in company": inCompany} {
		t.Run(name, func(t *testing.T) { decidesAsTheModel(t, way) })
	}
}

func decidesAsTheModel(t *testing.T, way func(*redisstore.Store) ratelimit.Store) {
	t.Parallel()
	storetest.RunHarness(t, func(t *testing.T) storetest.Harness {
		server := newClocked(t)
		if err := server.Set(redisstore.Spoiled, "no number"); err != nil {
			t.Fatal(err)
		}
		// The clock of the server stands still, that of the shortcut does not.
		store := func() ratelimit.Store {
			return way(newStore(t, clientOf(t, server.Addr()), redisstore.WithoutShortcut()))
		}
		return storetest.Harness{
			Store:   store(),
			Peers:   []ratelimit.Store{store()},
			Advance: server.advance,
			Dump: func() string {
				var all []string
				for _, key := range server.Keys() {
					switch key {
					case redisstore.Spoiled, redisstore.Companion:
						continue
					case "rl1:1{:ping}": // Ping's own, gone in a millisecond
						continue
					}
					value, _ := server.Get(key)
					all = append(all, fmt.Sprintf("%s=%s until %v", key, value, server.now.Add(server.TTL(key))))
				}
				slices.Sort(all)
				return strings.Join(all, "\n")
			},
		}
	})
}

func TestAStoreOnARealServerKeepsTheContract(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			storetest.RunHarness(t, func(t *testing.T) storetest.Harness {
				prefix := redisstore.WithPrefix(strings.ReplaceAll(t.Name(), " ", "_"))
				opts := append(slices.Clone(v.opts), prefix)
				return storetest.Harness{
					Store: newStore(t, clientOf(t, server.Addr()), opts...),
					Peers: []ratelimit.Store{newStore(t, clientOf(t, server.Addr()), opts...)},
				}
			})
		})
	}
}

func TestAStoreWhoseCallsShareRunsKeepsTheContract(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	storetest.RunHarness(t, func(t *testing.T) storetest.Harness {
		prefix := strings.ReplaceAll(t.Name(), " ", "_")
		clientOf(t, server.Addr()).SAdd(t.Context(), prefix+redisstore.Spoiled, "member")
		store := func() ratelimit.Store {
			return redisstore.InCompany{Store: newStore(t, clientOf(t, server.Addr()), redisstore.WithPrefix(prefix))}
		}
		return storetest.Harness{Store: store(), Peers: []ratelimit.Store{store()}}
	})
}

func TestAStoreOnAClusterKeepsTheContract(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	storetest.RunHarness(t, func(t *testing.T) storetest.Harness {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
		t.Cleanup(func() { _ = rdb.Close() })
		prefix := redisstore.WithPrefix(strings.ReplaceAll(t.Name(), " ", "_"))
		return storetest.Harness{Store: newStore(t, rdb, prefix), OneKey: true}
	})
}

func TestAStoreOnARingKeepsTheContract(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	storetest.RunHarness(t, func(t *testing.T) storetest.Harness {
		rdb := redis.NewRing(&redis.RingOptions{
			Addrs:              map[string]string{"a": a.Addr(), "b": b.Addr()},
			HeartbeatFrequency: time.Minute,
		})
		t.Cleanup(func() { _ = rdb.Close() })
		prefix := redisstore.WithPrefix(strings.ReplaceAll(t.Name(), " ", "_"))
		return storetest.Harness{Store: newStore(t, rdb, prefix), OneKey: true}
	})
}
