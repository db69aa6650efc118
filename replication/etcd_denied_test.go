package replication

import (
	"context"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestCompactionDenied gives the leader a user that may not compact: it says so once, asks no more, and all else goes on.
func TestCompactionDenied(t *testing.T) {
	c := newCluster(t)
	c.etcd.Deny("Compact")
	m := c.join("a:1").lead()
	core, logs := observer.New(zap.WarnLevel)
	term := m.term()
	term.shelf.log = zap.New(core)
	m.mount(1, 1<<20)
	for range 50 {
		m.step()
	}
	m.settle()
	if err := m.stop(); err != nil { // what follows is its tidying up alone
		t.Fatal(err)
	}
	before := c.etcd.Calls("Compact")
	for range 5 {
		term.keeper.compacted, term.keeper.compactable = term.keeper.compacted.Add(-1e12), 1
		if !term.compact {
			break
		}
		if err := term.forget(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if calls := c.etcd.Calls("Compact") - before; calls != 1 || term.compact {
		t.Errorf("%d calls, and it would ask again: %v", calls, term.compact)
	}
	if n := logs.FilterMessageSnippet("not compact").Len(); n != 1 {
		t.Errorf("%d lines", n)
	}
}
