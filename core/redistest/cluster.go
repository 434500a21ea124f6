package redistest

import (
	"fmt"
	"strconv"
)

const slots = 16384

// Cluster is a Redis Cluster of local servers.
type Cluster struct {
	// Nodes are all servers: first those started as masters, then their
	// replicas. A failover does not change the order.
	Nodes []*Server

	tb TB
}

// StartCluster starts a cluster of masters, which share the slots evenly, each
// with so many replicas, and returns when every node finds the cluster ok and
// every replica is in step. A node that is gone is noticed after about a
// second. Tests are skipped without redis-server on PATH; see [Require].
//
// The slots of a dead master without a replica take the whole cluster down
// unless the options say Args("--cluster-require-full-coverage", "no").
func StartCluster(tb TB, masters, replicasPerMaster int, opts ...Option) *Cluster {
	tb.Helper()
	Require(tb)
	c := &Cluster{tb: tb}
	for range masters * (1 + replicasPerMaster) {
		c.Nodes = append(c.Nodes, start(tb, func(s *Server) []string {
			return append(append(s.args, clusterArgs...), newOptions(opts).args...)
		}))
	}
	c.meet()
	c.assignSlots(c.Nodes[:masters])
	c.attachReplicas(masters)
	c.AwaitOK()
	return c
}

var clusterArgs = []string{
	"--cluster-enabled", "yes",
	"--cluster-config-file", "nodes.conf",
	"--cluster-node-timeout", "1000",
	// A replica is promoted however stale it is, and stays with its master.
	"--cluster-replica-validity-factor", "0",
	"--cluster-allow-replica-migration", "no",
	"--repl-diskless-sync-delay", "0",
}

// meet makes the nodes known to each other. Their epochs differ from the start:
// nodes that have to settle that among themselves take a while.
func (c *Cluster) meet() {
	c.tb.Helper()
	for i, node := range c.Nodes {
		node.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		c.Nodes[0].Do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(node.port))
	}
	c.awaitEach("knowing all nodes", func(node *Server) error {
		info, err := node.Try("CLUSTER", "INFO")
		return want(err, "known nodes", infoField(info, "cluster_known_nodes"), strconv.Itoa(len(c.Nodes)))
	})
}

func (c *Cluster) assignSlots(masters []*Server) {
	c.tb.Helper()
	for i, master := range masters {
		first, last := i*slots/len(masters), (i+1)*slots/len(masters)-1
		master.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last))
	}
}

func (c *Cluster) attachReplicas(masters int) {
	c.tb.Helper()
	for i, replica := range c.Nodes[masters:] {
		replica.Do("CLUSTER", "REPLICATE", c.Nodes[i%masters].id())
	}
}

// Addrs are the TCP addresses of all nodes, as cluster clients want them.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		addrs[i] = node.Addr()
	}
	return addrs
}

// AwaitOK waits until all nodes that are neither killed nor paused find the
// cluster ok and agree on each other's roles, and their replicas are in step.
func (c *Cluster) AwaitOK() {
	c.tb.Helper()
	c.awaitEach("a cluster that is ok", func(node *Server) error {
		info, err := node.Try("CLUSTER", "INFO")
		return want(err, "state", infoField(info, "cluster_state"), "ok")
	})
	c.awaitEach("one view of the roles", c.agrees)
	c.awaitEach("replicas in step", inStep)
}

// agrees returns how node's view of the running nodes differs from what they
// say of themselves.
func (c *Cluster) agrees(node *Server) error {
	view, err := node.view()
	if err != nil {
		return err
	}
	for _, other := range c.running() {
		self, err := other.self()
		if err != nil {
			return err
		}
		if seen := view[self.id]; seen.master != self.master {
			return fmt.Errorf("%v takes %v for a replica of %q, it is one of %q", node, other, seen.master, self.master)
		}
	}
	return nil
}

// AwaitFailover waits until a node other than old serves a slot, and returns it.
func (c *Cluster) AwaitFailover(slot int, old *Server) *Server {
	c.tb.Helper()
	var master *Server
	await(c.tb, "a failover", func() error {
		if master = c.MasterOf(slot); master == nil || master == old {
			return fmt.Errorf("slot %d is served by %v", slot, master)
		}
		return nil
	})
	return master
}

// MasterOf returns the running node that serves a slot, nil while none does.
func (c *Cluster) MasterOf(slot int) *Server {
	var master *Server
	epoch := -1
	for _, node := range c.running() {
		self, err := node.self()
		// Two nodes may both claim a slot for a moment; the higher epoch wins.
		if err == nil && self.master == "" && self.serves(slot) && self.epoch > epoch {
			master, epoch = node, self.epoch
		}
	}
	return master
}

// ReplicasOf returns the running replicas of a master.
func (c *Cluster) ReplicasOf(master *Server) []*Server {
	c.tb.Helper()
	var replicas []*Server
	id := master.id()
	for _, node := range c.running() {
		if self, err := node.self(); err == nil && self.master == id {
			replicas = append(replicas, node)
		}
	}
	return replicas
}

// Slot is the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.tb.Helper()
	running := c.running()
	if len(running) == 0 {
		c.tb.Fatalf("redistest: Slot: no node of the cluster is running")
	}
	slot, err := strconv.Atoi(running[0].Do("CLUSTER", "KEYSLOT", key))
	if err != nil {
		c.tb.Fatalf("redistest: CLUSTER KEYSLOT: %v", err)
	}
	return slot
}

// running are the nodes that are neither killed nor paused.
func (c *Cluster) running() []*Server {
	var running []*Server
	for _, node := range c.Nodes {
		if node.answering() {
			running = append(running, node)
		}
	}
	return running
}

// awaitEach waits until reached holds for every running node.
func (c *Cluster) awaitEach(what string, reached func(*Server) error) {
	c.tb.Helper()
	await(c.tb, what, func() error {
		for _, node := range c.running() {
			if err := reached(node); err != nil {
				return fmt.Errorf("%v: %w", node, err)
			}
		}
		return nil
	})
}

// inStep returns why a node that is a replica has not caught up.
func inStep(node *Server) error {
	info, err := node.Try("INFO", "replication")
	if err == nil && infoField(info, "role") == "master" {
		return nil
	}
	return want(err, "link to its master", infoField(info, "master_link_status"), "up")
}

// want returns err, or how a value differs from the one waited for.
func want(err error, what, got, wanted string) error {
	if err == nil && got != wanted {
		return fmt.Errorf("%s is %q, want %q", what, got, wanted)
	}
	return err
}
