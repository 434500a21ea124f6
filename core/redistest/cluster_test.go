package redistest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/atomicbucket/ratelimit/core/redistest"
)

func TestAClusterServesEverySlotFromSomeMaster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	if len(c.Addrs()) != 3 {
		t.Fatalf("addresses are %v", c.Addrs())
	}
	masters := make(map[*redistest.Server]bool)
	for i := range 100 {
		key := fmt.Sprint("key", i)
		master := c.MasterOf(c.Slot(key))
		if master == nil {
			t.Fatalf("slot of %s has no master", key)
		}
		master.Do("SET", key, "v") // fails on a node that would redirect
		masters[master] = true
	}
	if len(masters) != 3 {
		t.Errorf("%d masters serve 100 keys, want 3", len(masters))
	}
	if c.Slot("{a}1") != c.Slot("{a}2") {
		t.Error("keys of one hash tag are in two slots")
	}
}

func TestASlotMigratesStepByStep(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0)
	slot := c.Slot("k")
	from := c.MasterOf(slot)
	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}
	from.Do("SET", "k", "v")
	redirect := func(node *redistest.Server, key string) string {
		_, err := node.Try("GET", key)
		code, _, _ := strings.Cut(fmt.Sprint(err), " ")
		return code
	}

	m := c.Migrate(slot, to)
	m.Begin()
	if got := from.Do("GET", "k"); got != "v" {
		t.Errorf("before the keys move, the old master says %q", got)
	}
	if got := redirect(from, "{k}new"); got != "ASK" {
		t.Errorf("a key that is not there: %s, want ASK", got)
	}
	if moved := m.MoveKeys(); moved != 1 {
		t.Errorf("%d keys moved, want 1", moved)
	}
	if got := redirect(from, "k"); got != "ASK" {
		t.Errorf("after the keys have moved: %s, want ASK", got)
	}
	m.Finish()
	if got := redirect(from, "k"); got != "MOVED" {
		t.Errorf("in the end: %s, want MOVED", got)
	}
	if got := to.Do("GET", "k"); got != "v" || c.MasterOf(slot) != to {
		t.Errorf("in the end the new master says %q", got)
	}
	c.MigrateSlot(slot, from)
	if got := from.Do("GET", "k"); got != "v" {
		t.Errorf("back again, the old master says %q", got)
	}
}

func TestAReplicaTakesOverFromADeadMaster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	slot := c.Slot("k")
	old := c.MasterOf(slot)
	replicas := c.ReplicasOf(old)
	if len(replicas) != 1 {
		t.Fatalf("replicas are %v, want one", replicas)
	}
	old.Kill()
	if promoted := c.AwaitFailover(slot, old); promoted != replicas[0] {
		t.Errorf("%v serves the slot, want %v", promoted, replicas[0])
	}
	old.Restart()
	c.AwaitOK()
	if got := c.ReplicasOf(replicas[0]); len(got) != 1 || got[0] != old {
		t.Errorf("replicas of the promoted node are %v, want %v", got, old)
	}
}

func TestSentinelsPromoteTheReplicaOfADeadPrimary(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	if len(s.Addrs()) != 3 {
		t.Fatalf("addresses are %v", s.Addrs())
	}
	primary, replica := s.Primary(), s.Replica()
	if got := primary.Info("role") + " " + replica.Info("role"); got != "master slave" {
		t.Fatalf("roles are %s", got)
	}
	primary.Do("SET", "k", "v")
	if got := primary.Do("WAIT", "1", "9000"); got != "1" {
		t.Fatalf("%s replicas have the key", got)
	}
	primary.Kill()
	if promoted := s.AwaitFailover(primary); promoted != replica {
		t.Fatalf("primary is %v, want %v", promoted, replica)
	}
	if got := replica.Do("SET", "k", "w"); got != "OK" {
		t.Errorf("SET on the promoted server: %q", got)
	}
	if s.Replica() != primary {
		t.Error("the dead primary is not the replica")
	}
}
