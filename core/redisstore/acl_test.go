package redisstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

// documentedForClusters is what redisstore's package comment adds for Redis
// Cluster.
const documentedForClusters = documented + " +cluster|slots"

func TestTheDocumentedPermissionsSufficeOnAClusterWhoseSlotsMove(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	for _, node := range cluster.Nodes {
		node.Do(strings.Fields(documentedForClusters)...)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Username: "limiter", Password: "password"})
	t.Cleanup(func() { _ = rdb.Close() })
	limiter := newLimiter(t, newStore(t, rdb), never(5))
	for i := range 50 {
		allow(t, limiter, fmt.Sprint(i))
	}
	slot := cluster.Slot("{test:7}")
	for _, node := range cluster.Nodes {
		if node != cluster.MasterOf(slot) {
			cluster.MigrateSlot(slot, node)
			break
		}
	}
	allow(t, limiter, "7")
	if err := limiter.Reset(t.Context(), "7"); err != nil {
		t.Errorf("Reset: %v", err)
	}
	if err := limiter.Ping(t.Context()); err != nil {
		t.Errorf("Ping: %v", err)
	}
}

func TestTheDocumentedPermissionsHoldForAPrefixToo(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := asUser(t, srv, strings.Replace(documented, "~rl1:", "~shop:rl1:", 1), redisstore.Options(), patient, redisstore.WithPrefix("shop:"))
	fromStore(t, l, "user")
	if err := l.Ping(t.Context()); err != nil {
		t.Errorf("Ping: %v", err)
	}
}
