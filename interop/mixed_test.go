package interop

import (
	"sync"
	"testing"
)

// population is a set of objects that clients of several releases wrote and all of them read.
type population struct {
	items  []Item
	stores []*Store
}

// populate lets every store write its share.
func populate(t *testing.T, stores []*Store, each int) population {
	t.Helper()
	p := population{stores: stores}
	for n, s := range stores {
		own := itemsOf("mixed/"+s.Client.Release.String()+"/"+string(rune('a'+n))+"/", each, func(i int) int64 {
			return int64(1 + (n*7919+i*104_729)%60_000)
		})
		var bad []string
		if err := s.Do("write_many", map[string]any{"items": own}, &bad); err != nil || len(bad) != 0 {
			t.Fatalf("writes of %s: failed %q, %v", s.Client.Release.Version(), bad, err)
		}
		p.items = append(p.items, own...)
	}
	return p
}

// crossRead makes all stores read everything at the same time; not one read may fail.
func (p population) crossRead(t *testing.T, total, threads int) {
	t.Helper()
	var wg sync.WaitGroup
	for n, s := range p.stores {
		wg.Go(func() {
			r, err := s.ReadMany(p.items, total/len(p.stores), threads, n)
			if err != nil || r.Failed != 0 || r.Reads < total/len(p.stores) {
				t.Errorf("%s: %d of %d reads failed, first %q, %v", s.Client.Release.Version(), r.Failed, r.Reads, r.First, err)
			}
		})
	}
	wg.Wait()
}

// TestMixedReleases lets 13 and 14 share the common port, and 12 its own port beside them, all on one address.
func TestMixedReleases(t *testing.T) {
	beside(t, works)
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{V12Port: true})
	startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 256 * mib})
	stores := []*Store{
		startStore(t, r, R13, StoreOptions{Master: m.RPC}),
		startStore(t, r, R14, StoreOptions{Master: m.RPC}),
	}
	t.Run("13 and 14", func(t *testing.T) {
		populate(t, stores, 60).crossRead(t, repeat(2000, 10_000), 4)
	})
	stores = append(stores, startStore(t, r, R12, StoreOptions{Master: m.RPCv12}))
	t.Run("12 beside them on its port", func(t *testing.T) {
		p := populate(t, append(stores[:2:2], stores[2]), 20)
		p.crossRead(t, repeat(2000, 10_000), 4)
	})
}

// TestOnly12 is a cluster of 12 on the common port: once one of them has written or mounted, even pure readers are answered
// in their dialect.
func TestOnly12(t *testing.T) {
	beside(t, works)
	known := Item{Key: "known", Size: 5000, Seed: 1}
	t.Run("after a writer", func(t *testing.T) {
		r := newRig(t)
		m := startMaster(t, r, MasterOptions{})
		startSegment(t, r, m, 1, SegmentOptions{})
		writer := startStore(t, r, R12, StoreOptions{Master: m.RPC})
		put(t, writer, known, nil)
		reader := startStore(t, r, R12, StoreOptions{Master: m.RPC})
		get(t, reader, known)
		populate(t, []*Store{writer, reader}, 40).crossRead(t, repeat(800, 10_000), 4)
	})
	t.Run("with a segment", func(t *testing.T) {
		r := newRig(t)
		m := startMaster(t, r, MasterOptions{})
		startStore(t, r, R12, StoreOptions{Master: m.RPC, SegmentBytes: 64 * mib})
		segments(t, m, 1)
		absent(t, startStore(t, r, R12, StoreOptions{Master: m.RPC}), "nothing")
	})
	t.Run("by default", func(t *testing.T) {
		r := newRig(t)
		m := startMaster(t, r, MasterOptions{Flags: []string{"--rpc_default_family=12"}})
		startSegment(t, r, m, 1, SegmentOptions{})
		reader := startStore(t, r, R12, StoreOptions{Master: m.RPC})
		callWant(t, reader, 0, "is_exist", "nothing")
		got, _, err := reader.GetInto([]Item{{Key: "nothing", Size: 64}})
		if err != nil || got[0].Size != codeNotFound {
			t.Fatalf("the first read of a pure reader: %+v, %v", got, err)
		}
		// Release 13 on the same address shows itself by writing and is served as well.
		newer := startStore(t, r, R13, StoreOptions{Master: m.RPC})
		put(t, newer, known, nil)
		get(t, newer, known)
	})
}

// TestFirstCallOf12 starts clients of 12 with a segment on the common port of a master that serves 13 on the same address.
// Their requests look alike, so the master has to find out before it answers the first read.
func TestFirstCallOf12(t *testing.T) {
	beside(t, works)
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{})
	startSegment(t, r, m, 1, SegmentOptions{})
	newer := startStore(t, r, R13, StoreOptions{Master: m.RPC, SegmentBytes: 32 * mib})
	known := Item{Key: "known", Size: 5000, Seed: 1}
	put(t, newer, known, nil)
	for n := range repeat(5, 20) {
		c, err := r.StartClient(R12)
		if err != nil {
			t.Fatal(err)
		}
		st, got, err := c.SetupAndGet(StoreOptions{Master: m.RPC, SegmentBytes: 16 * mib}, known)
		if err != nil || !got.Same {
			t.Errorf("start %d: the first get brought %+v, %v", n, got, err)
		}
		get(t, newer, known) // 13 is not disturbed
		if err := st.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
