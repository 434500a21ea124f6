package redistest

import "strconv"

// Migration moves one slot from one master to another, a step at a time, so
// that a test can look at the cluster between the steps.
type Migration struct {
	cluster  *Cluster
	slot     string
	from, to *Server
}

// Migrate prepares to move a slot from the node that serves it to another
// master. Nothing happens before Begin.
func (c *Cluster) Migrate(slot int, to *Server) *Migration {
	c.tb.Helper()
	from := c.MasterOf(slot)
	if from == nil || from == to {
		c.tb.Fatalf("redistest: Migrate: slot %d is served by %v, cannot move to %v", slot, from, to)
	}
	return &Migration{cluster: c, slot: strconv.Itoa(slot), from: from, to: to}
}

// MigrateSlot moves a slot to another master, all steps at once.
func (c *Cluster) MigrateSlot(slot int, to *Server) {
	c.tb.Helper()
	m := c.Migrate(slot, to)
	m.Begin()
	m.MoveKeys()
	m.Finish()
}

// Begin marks the slot as importing and migrating. From now on, keys that the
// old master does not have are redirected with ASK.
func (m *Migration) Begin() {
	m.cluster.tb.Helper()
	m.to.Do("CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.from.id())
	m.from.Do("CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.to.id())
}

// MoveKeys moves all keys of the slot that the old master has, and returns how
// many it moved.
func (m *Migration) MoveKeys() int {
	m.cluster.tb.Helper()
	for moved := 0; ; {
		keys := m.keys()
		if len(keys) == 0 {
			return moved
		}
		m.from.Do(append([]string{"MIGRATE", "127.0.0.1", strconv.Itoa(m.to.port), "", "0", "5000", "KEYS"}, keys...)...)
		moved += len(keys)
	}
}

// keys are some of the slot's keys that the old master has.
func (m *Migration) keys() []string {
	m.cluster.tb.Helper()
	reply, err := m.from.command("CLUSTER", "GETKEYSINSLOT", m.slot, "100")
	if err != nil {
		m.cluster.tb.Fatalf("redistest: CLUSTER GETKEYSINSLOT: %v", err)
	}
	list, _ := reply.([]any)
	keys := make([]string, len(list))
	for i, key := range list {
		keys[i] = text(key)
	}
	return keys
}

// Finish gives the slot to the new master: it answers, and the old one
// redirects with MOVED. The other masters are told; replicas hear of it by
// gossip.
func (m *Migration) Finish() {
	m.cluster.tb.Helper()
	id := m.to.id()
	m.to.Do("CLUSTER", "SETSLOT", m.slot, "NODE", id)
	m.from.Do("CLUSTER", "SETSLOT", m.slot, "NODE", id)
	for _, node := range m.cluster.running() {
		if self, err := node.self(); err == nil && self.master == "" && node != m.to && node != m.from {
			node.Do("CLUSTER", "SETSLOT", m.slot, "NODE", id)
		}
	}
}
