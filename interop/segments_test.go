package interop

import (
	"slices"
	"testing"
	"time"
)

// TestOwnSegments lets clients bring memory of their own, as trainers do when there is no daemon.
func TestOwnSegments(t *testing.T) {
	beside(t, waits)
	eachRelease(t, func(t *testing.T, release Release) {
		r := newRig(t)
		m := startMaster(t, r, MasterOptions{})
		a := startStore(t, r, release, StoreOptions{Master: m.RPC, SegmentBytes: 48 * mib})
		if names, err := m.Segments(); err != nil || !slices.Equal(names, []string{a.Hostname}) {
			t.Fatalf("segments %q, %v; want %q", names, err, a.Hostname)
		}
		wantMetric(t, m, "master_total_capacity_bytes", 48*mib)
		one := Item{Key: "degraded", Size: 1000, Seed: 1}
		put(t, a, one, Config{"replica_num": 2})
		if at := replicas(t, a, one.Key); len(at) != 1 {
			t.Fatalf("one segment, but copies at %+v", at)
		}
		b := startStore(t, r, release, StoreOptions{Master: m.RPC, SegmentBytes: 48 * mib})
		mounted := segments(t, m, 2)
		testTwoCopies(t, a, b)
		testPreferred(t, a, mounted)
		outlived := Item{Key: "outlives its writer", Size: 2*mib + 5, Seed: 3}
		put(t, b, outlived, Config{"preferred_segment": a.Hostname})
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		segments(t, m, 1)
		get(t, a, outlived)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		segments(t, m, 0)
		wantMetric(t, m, "master_total_capacity_bytes", 0)
	})
}

func testTwoCopies(t *testing.T, a, b *Store) {
	t.Helper()
	two := Item{Key: "twice", Size: 300_000, Seed: 2}
	put(t, a, two, Config{"replica_num": 2})
	at := replicas(t, a, two.Key)
	if len(at) != 2 || at[0].Endpoint == at[1].Endpoint {
		t.Fatalf("copies at %+v", at)
	}
	get(t, a, two)
	get(t, b, two)
}

func testPreferred(t *testing.T, s *Store, mounted []SegmentDetail) {
	t.Helper()
	for n := range 8 {
		want := mounted[n%len(mounted)]
		i := Item{Key: key("preferred/%d", n), Size: 2000, Seed: 1}
		put(t, s, i, Config{"preferred_segment": want.Name})
		if at := replicas(t, s, i.Key); len(at) != 1 || at[0].Endpoint != want.Endpoint {
			t.Fatalf("%q lies at %+v, want %s", i.Key, at, want.Endpoint)
		}
	}
}

// TestSameNameTwice runs two clients under one explicit host:port. Segments are told apart by their ids, so that closing
// one leaves the other's objects alone.
func TestSameNameTwice(t *testing.T) {
	beside(t, waits)
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{})
	ports, err := r.TakePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	name := local(ports[0])
	first := startStore(t, r, R13, StoreOptions{Master: m.RPC, Host: name, SegmentBytes: 32 * mib})
	kept := itemsOf("second/", 20, func(i int) int64 { return int64(1000 + i) })
	lost := itemsOf("first/", 20, func(i int) int64 { return int64(2000 + i) })
	for _, i := range lost {
		put(t, first, i, nil)
	}
	second := startStore(t, r, R13, StoreOptions{Master: m.RPC, Host: name, SegmentBytes: 32 * mib})
	both := segments(t, m, 2)
	if both[0].Name != name || both[1].Name != name || both[0].ID == both[1].ID || both[0].Client == both[1].Client {
		t.Fatalf("segments %+v, want two of the name %s and different owners", both, name)
	}
	for _, i := range kept {
		putOn(t, second, i, both[1], both[0], first)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	segments(t, m, 1)
	for _, i := range kept {
		get(t, second, i)
	}
}

// putOn writes until the object lies in memory that outlives `leaving`: the name alone cannot steer it, both have the same.
func putOn(t *testing.T, s *Store, i Item, a, b SegmentDetail, leaving *Store) {
	t.Helper()
	var mine string
	for _, at := range replicas(t, s, "first/0") {
		mine = at.Endpoint // of the client that leaves
	}
	for range 200 {
		put(t, s, i, nil)
		at := replicas(t, s, i.Key)
		if len(at) == 1 && at[0].Endpoint != mine {
			return
		}
		callWant(t, s, codeOK, "remove", i.Key, true)
	}
	t.Fatalf("200 puts never chose the second of %s and %s", a.Endpoint, b.Endpoint)
}

// TestOwnerDies kills a client with a segment: after the client TTL its objects are gone, those with a second copy stay.
func TestOwnerDies(t *testing.T) {
	beside(t, waits)
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{ClientTTLSec: 3})
	startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 64 * mib})
	doomed := startStore(t, r, R13, StoreOptions{Master: m.RPC, SegmentBytes: 64 * mib})
	segments(t, m, 2)
	reader := startStore(t, r, R13, StoreOptions{Master: m.RPC})
	single := Item{Key: "single", Size: 1000, Seed: 1}
	double := Item{Key: "double", Size: 100_000, Seed: 2}
	put(t, reader, single, Config{"preferred_segment": doomed.Hostname})
	put(t, reader, double, Config{"replica_num": 2})
	doomed.Client.Kill()
	segments(t, m, 1)
	eventually(t, 60*time.Second, "the object on the lost segment is gone", func() bool {
		var found int
		return reader.Call(&found, "is_exist", single.Key) == nil && found == 0
	})
	absent(t, reader, single.Key)
	get(t, reader, double)
	if at := replicas(t, reader, double.Key); len(at) != 1 {
		t.Fatalf("copies at %+v", at)
	}
}

// TestFullPool fills the pool: unpinned objects make room, pinned ones stay, and a pool of hard pins refuses more.
func TestFullPool(t *testing.T) {
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{LeaseMs: 500})
	startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 32 * mib})
	s := startStore(t, r, R13, StoreOptions{Master: m.RPC})
	half := func(k Key) Item { return Item{Key: k, Size: mib / 2, Seed: 1} }
	put(t, s, half("hard"), Config{"with_hard_pin": true})
	put(t, s, half("soft"), Config{"soft_pin": true})
	for n := range 110 {
		i := half(key("filler/%d", n))
		eventually(t, 60*time.Second, "room for "+string(i.Key), func() bool {
			code, err := s.Put(i, nil)
			return err == nil && code == codeOK
		})
	}
	get(t, s, half("hard"))
	get(t, s, half("soft"))
	get(t, s, half("filler/109"))
	if n := len(keysOf(t, m, "filler/")); n == 0 || n > 62 {
		t.Fatalf("%d fillers of 0.5 MiB are left in 32 MiB beside two pinned objects", n)
	}
	var removed int
	if err := s.Call(&removed, "remove_all", true); err != nil {
		t.Fatal(err)
	}
	fillWithPins(t, s)
}

func fillWithPins(t *testing.T, s *Store) {
	t.Helper()
	fitted := 0
	for {
		code, err := s.Put(Item{Key: key("pin/%d", fitted), Size: 2 * mib, Seed: 1}, Config{"with_hard_pin": true})
		if err != nil {
			t.Fatal(err)
		}
		if code == codeNoHandle {
			break
		}
		if code != codeOK || fitted > 16 {
			t.Fatalf("put %d of 2 MiB into 32 MiB: code %d", fitted, code)
		}
		fitted++
	}
	if fitted < 15 {
		t.Fatalf("only %d pinned objects of 2 MiB fit into 32 MiB", fitted)
	}
	callWant(t, s, codeOK, "remove", "pin/0", true)
	eventually(t, 60*time.Second, "room after a remove", func() bool {
		code, err := s.Put(Item{Key: "pin/again", Size: 2 * mib, Seed: 1}, Config{"with_hard_pin": true})
		return err == nil && code == codeOK
	})
}
