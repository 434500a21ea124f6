package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

func modelHarness(m *model) Harness {
	return Harness{Store: m, Advance: m.advance, Dump: m.dump}
}

func TestAStoreThatKeepsTheContractPasses(t *testing.T) {
	RunHarness(t, func(*testing.T) Harness { return modelHarness(newModel()) })
}

func TestAStoreOfOneKeyListsAndPeersPasses(t *testing.T) {
	RunHarness(t, func(*testing.T) Harness {
		h := modelHarness(newModel())
		h.Store = oneKey{h.Store}
		h.OneKey, h.Peers = true, []ratelimit.Store{h.Store, h.Store}
		return h
	})
}

func TestAStoreWithoutAClockToSetPasses(t *testing.T) {
	t.Parallel()
	Run(t, func(*testing.T) ratelimit.Store { return &running{model: newModel(), since: time.Now()} })
}

// oneKey refuses lists of several names or keys.
type oneKey struct{ ratelimit.Store }

func (s oneKey) Take(ctx context.Context, list []ratelimit.Bucket) (ratelimit.Decision, error) {
	for _, b := range list {
		if b.Name != list[0].Name || b.Key != list[0].Key {
			return ratelimit.Decision{}, errors.New("several keys")
		}
	}
	return s.Store.Take(ctx, list)
}

// running is a model whose clock runs by itself.
type running struct {
	*model

	since time.Time
}

func (r *running) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = time.Since(r.since).Microseconds()
}

func (r *running) Take(ctx context.Context, list []ratelimit.Bucket) (ratelimit.Decision, error) {
	r.tick()
	return r.model.Take(ctx, list)
}

func (r *running) Peek(ctx context.Context, list []ratelimit.Bucket) (ratelimit.Decision, error) {
	r.tick()
	return r.model.Peek(ctx, list)
}

func TestAStoreThatBreaksTheContractFails(t *testing.T) {
	t.Parallel()
	for _, fault := range faults {
		t.Run(fault.name+"/"+fault.notices, func(t *testing.T) {
			t.Parallel()
			m := newModel()
			h := modelHarness(m)
			h.Store = fault.store(m)
			if checkNamed(t, fault.notices).failure(h) == "" {
				t.Error("not noticed")
			}
		})
	}
}

func TestFailuresNamesTheChecksThatAStoreFails(t *testing.T) {
	t.Parallel()
	if failures := Failures(func() Harness { return modelHarness(newModel()) }); len(failures) > 0 {
		t.Errorf("a store that keeps the contract: %v", failures)
	}
	failures := Failures(func() Harness {
		m := newModel()
		h := modelHarness(m)
		h.Store = faulty{Store: m, ping: errors.New("not ready")}
		return h
	})
	want := "a store that can decide says so"
	if len(failures) != 1 || failures[want] != "Ping: not ready" {
		t.Errorf("a store that is not ready: %v", failures)
	}
}

func checkNamed(t *testing.T, name string) Check {
	t.Helper()
	for _, check := range Checks() {
		if check.Name == name {
			return check
		}
	}
	t.Fatalf("there is no check %q", name)
	return Check{}
}

func TestEveryCheckNoticesSomeFault(t *testing.T) {
	t.Parallel()
	noticing := make(map[string]bool)
	for _, fault := range faults {
		noticing[fault.notices] = true
	}
	for _, check := range Checks() {
		if !noticing[check.Name] {
			t.Errorf("no fault shows that this check can fail: %s", check.Name)
		}
	}
}
