package master

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/replication"
	"mooncake/wire"
)

// noted is a registry whose notes are kept, and the notes.
func noted(now *catalog.Time, past *replication.Notes) (*familyRegistry, *replication.Notes) {
	kept := new(replication.Notes)
	for n := range past.All() {
		kept.Add(n)
	}
	r := registry(family13)
	r.recall(past)
	r.remembering(func() catalog.Time { return *now }, kept.Add)
	return r, kept
}

// TestFamiliesOverARestart lets clients live with one master and go on with the next.
func TestFamiliesOverARestart(t *testing.T) {
	back := func(r *familyRegistry, at netip.Addr) *peerConn { return conn(r, at, wire.CallGetReplicaList) }
	for _, tc := range []struct {
		name   string
		before func(r *familyRegistry)
		after  func(r *familyRegistry) *peerConn
		want   family // familyUnknown: the reply waits
	}{
		{"an owner that is back need not prove anything first", func(r *familyRegistry) {
			writer(r, hostA, 1, family12)
		}, func(r *familyRegistry) *peerConn {
			c := conn(r, hostA, wire.CallPing)
			r.mounted(c, id(1), t0)
			if f, wait := r.familyFor(back(r, hostA), t0); f != family12 || wait {
				t.Errorf("beside it: %v, wait %v", f, wait)
			}
			return c
		}, family12},
		{"a new owner must", func(r *familyRegistry) {
			writer(r, hostA, 1, family12)
		}, func(r *familyRegistry) *peerConn {
			r.mounted(conn(r, hostA, wire.CallServiceReady), id(2), t0)
			return back(r, hostA)
		}, familyUnknown},
		{"an owner that is back where both are must", func(r *familyRegistry) {
			writer(r, hostA, 1, family12)
			writer(r, hostA, 2, family13)
		}, func(r *familyRegistry) *peerConn {
			c := conn(r, hostA, wire.CallPing)
			r.mounted(c, id(1), t0)
			return c
		}, familyUnknown},
		{"a reader of 12, all others at other addresses", func(r *familyRegistry) {
			writer(r, hostA, 1, family12)
			writer(r, hostB, 2, family13)
		}, func(r *familyRegistry) *peerConn {
			writer(r, hostB, 2, family13)
			return back(r, hostA)
		}, family12},
		{"a reader of 12 that never wrote, beside a 13 that is back", func(r *familyRegistry) {
			c := back(r, hostA)
			r.setConn(c, family12)
			r.remember(hostA, family12)
			writer(r, hostA, 2, family13)
		}, func(r *familyRegistry) *peerConn {
			writer(r, hostA, 2, family13)
			return back(r, hostA)
		}, family12},
		{"a reader of 13 beside a 12 that is back", func(r *familyRegistry) {
			writer(r, hostA, 1, family12)
			writer(r, hostA, 2, family13)
		}, func(r *familyRegistry) *peerConn {
			writer(r, hostA, 1, family12)
			return back(r, hostA)
		}, family13},
		{"both are back: the last that was proved", func(r *familyRegistry) {
			writer(r, hostA, 1, family12)
			writer(r, hostA, 2, family13)
		}, func(r *familyRegistry) *peerConn {
			writer(r, hostA, 2, family13)
			writer(r, hostA, 1, family12)
			return back(r, hostA)
		}, family12},
		{"a new process is taken for what lives", func(r *familyRegistry) {
			writer(r, hostA, 1, family12)
			writer(r, hostA, 2, family13)
		}, func(r *familyRegistry) *peerConn {
			writer(r, hostA, 2, family13)
			return conn(r, hostA, wire.CallServiceReady)
		}, family13},
		{"a pool of 12 alone, before anybody is back", func(r *familyRegistry) {
			writer(r, hostB, 1, family12)
		}, func(r *familyRegistry) *peerConn {
			return conn(r, hostA, wire.CallServiceReady)
		}, family12},
		{"nobody was there", func(*familyRegistry) {}, func(r *familyRegistry) *peerConn { return back(r, hostA) }, family13},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := catalog.Time(1_700_000_000_000)
			first, notes := noted(&now, new(replication.Notes))
			tc.before(first)
			for range 2 { // two restarts are as good as one
				now += 1000
				var r *familyRegistry
				r, notes = noted(&now, notes)
				if f, wait := r.familyFor(tc.after(r), t0); f.group() != tc.want || wait != (tc.want == familyUnknown) {
					t.Fatalf("taken for %v, wait %v; want %v", f, wait, tc.want)
				}
			}
		})
	}
}

// TestExpectedInVain lets a host get another release while the master is restarted: the first guess is wrong, once.
func TestExpectedInVain(t *testing.T) {
	now := catalog.Time(1_700_000_000_000)
	r, notes := noted(&now, new(replication.Notes))
	writer(r, hostA, 1, family12)
	r, _ = noted(&now, notes)
	writer(r, hostA, 2, family13)
	lost := conn(r, hostA, wire.CallGetReplicaList)
	if f, _ := r.familyFor(lost, t0); f != family12 {
		t.Fatalf("taken for %v: nothing was to be learned", f)
	}
	r.closed(lost, t0.Add(time.Millisecond))
	for i := range 3 {
		c := conn(r, hostA, wire.CallGetReplicaList)
		if f, _ := r.familyFor(c, t0); f != family13 {
			t.Fatalf("connection %d is taken for %v", i, f)
		}
		r.arrived(c, wire.CallExistKey)
	}
}

// TestReaderAmongTheOther reads with 12 from a host where both families are, of which the master knows: every guess may be
// wrong once, none twice in a row.
func TestReaderAmongTheOther(t *testing.T) {
	now := catalog.Time(1_700_000_000_000)
	r, _ := noted(&now, new(replication.Notes))
	writer(r, hostA, 1, family12)
	writer(r, hostA, 2, family13)
	lost := conn(r, hostA, wire.CallGetReplicaList)
	if f, _ := r.familyFor(lost, t0); f != family13 {
		t.Fatalf("taken for %v", f)
	}
	r.closed(lost, t0.Add(time.Millisecond))
	if f, _ := r.familyFor(conn(r, hostA, wire.CallGetReplicaList), t0); f != family12 {
		t.Fatalf("its next connection is taken for %v", f)
	}
	// A new process that reads once and leaves says nothing here.
	r, _ = noted(&now, new(replication.Notes))
	writer(r, hostA, 1, family12)
	writer(r, hostA, 2, family13)
	once := conn(r, hostA, wire.CallServiceReady)
	r.familyFor(once, t0)
	r.closed(once, t0.Add(time.Millisecond))
	if f, _ := r.familyFor(conn(r, hostA, wire.CallGetReplicaList), t0); f != family13 {
		t.Fatalf("the next connection is taken for %v", f)
	}
}

// TestFamilyNotesAge renews the notes of the living now and then, forgets at a start what was gone long before, and has room
// for so many addresses.
func TestFamilyNotesAge(t *testing.T) {
	now := catalog.Time(1_700_000_000_000)
	r, notes := noted(&now, new(replication.Notes))
	writes := 0
	r.memory.write = func(n replication.Note) { writes++; notes.Add(n) }
	r.closed(writer(r, hostA, 1, family12), t0)
	stays := writer(r, hostA, 2, family13)
	r.sweep(t0)
	if writes != 2 {
		t.Fatalf("%d notes about two families", writes)
	}
	for range 25 {
		now += limits.FamilyNoteMs
		r.bind(stays, id(2))
		r.sweep(t0)
	}
	if writes != 27 {
		t.Fatalf("%d notes after 25 hours, one for each was wanted", writes)
	}
	r, _ = noted(&now, notes)
	if bits := r.memory.expected[hostA]; familyOf(bits) != family13 {
		t.Fatalf("expected: %b", bits)
	}
	r, notes = noted(&now, new(replication.Notes))
	r.remember(hostA, family12)
	for i := range limits.LogNotes {
		now++
		r.remember(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), family13)
	}
	if _, kept := r.memory.met[hostA]; kept || len(r.memory.met) != limits.LogNotes || notes.Len() != limits.LogNotes {
		t.Fatalf("%d addresses, %d notes, the oldest among them: %v", len(r.memory.met), notes.Len(), kept)
	}
}

func TestForeignNotesAreLeftAlone(t *testing.T) {
	good := noteOf(hostA, met{5, 1 << 60})
	for name, n := range map[string]replication.Note{
		"no address": {Name: "somebody", Value: good.Value},
		"nothing":    {Name: good.Name},
		"too short":  {Name: good.Name, Value: good.Value[:1]},
		"too long":   {Name: good.Name, Value: append(slices.Clone(good.Value), 1)},
		"too late":   {Name: good.Name, Value: []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0}},
	} {
		if a, m, ok := parseFamilyNote(n); ok {
			t.Errorf("%s: %v %v", name, a, m)
		}
	}
	if a, m, ok := parseFamilyNote(good); !ok || a != hostA || m != (met{5, 1 << 60}) {
		t.Errorf("%v %v %v", a, m, ok)
	}
}
