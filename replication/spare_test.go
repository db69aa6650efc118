package replication

import (
	"context"
	"testing"
)

// TestSpareLease has a leader leave: the standby takes the lead in one transaction, with a lease that it had at hand and what
// it lacks of the log.
func TestSpareLease(t *testing.T) {
	c := newCluster(t)
	a, b := c.join("a:1"), c.join("b:1")
	first := a.lead()
	first.mount(1, 1<<20)
	type elected struct {
		term *Term
		h    *History
		err  error
	}
	won := make(chan elected, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		term, h, err := b.Lead(ctx)
		won <- elected{term, h, err}
	}()
	waitFor(t, "the standby to be ready with a lease", func() bool { return b.Standing().Ready && c.etcd.Calls("LeaseGrant") == 2 })
	for range 50 {
		first.step()
	}
	first.settle()
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	want := first.describe()
	if err := first.term().Resign(ctx); err != nil {
		t.Fatal(err)
	}
	e := <-won
	if e.err != nil {
		t.Fatal(e.err)
	}
	second := b.rule(e.term, e.h)
	if n := c.etcd.Calls("LeaseGrant"); n != 2 {
		t.Errorf("%d leases were drawn, want one for each", n)
	}
	expectSame(t, "the next leader's history", second.describe(), want)
	second.step()
	second.settle()
}

// TestFinish reads what came with the key, or all of the log when that may not be everything.
func TestFinish(t *testing.T) {
	c := newCluster(t)
	a := c.join("a:1")
	m := a.lead()
	m.mount(1, 1<<20)
	last := uint64(0)
	for last < 100 {
		m.step()
		last = m.settle()
	}
	for _, behind := range []uint64{0, 3, 90} {
		h := newHistory(catalogConfig(), a.shelf.log)
		all, err := a.shelf.all(t.Context(), c.keys.logs())
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range all[:uint64(len(all))-behind] {
			if err := h.take(&c.keys, kv.Key, kv.Value); err != nil {
				t.Fatal(err)
			}
		}
		rest := all[uint64(len(all))-behind:]
		if err := a.finish(t.Context(), h, rest[:min(len(rest), 64)]); err != nil || h.Last != last {
			t.Errorf("%d behind: at %d of %d, %v", behind, h.Last, last, err)
		}
		h.Catalog.Close()
	}
}
