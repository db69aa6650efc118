package master

import (
	"net/netip"
	"testing"
	"time"

	"mooncake/internal/limits"
	"mooncake/wire"
)

var (
	hostA = netip.MustParseAddr("127.0.0.2")
	hostB = netip.MustParseAddr("127.0.0.3")
	t0    = time.Unix(1_700_000_000, 0)
)

func registry(fallback family) *familyRegistry {
	r := newFamilyRegistry(fallback, 10*time.Second)
	r.now = func() time.Time { return t0 }
	return r
}

// conn opens a connection whose first request was the given call.
func conn(r *familyRegistry, at netip.Addr, first wire.CallID) *peerConn {
	c := r.opened(at, familyUnknown)
	r.arrived(c, first)
	return c
}

func id(n uint64) wire.UUID { return wire.UUID{Hi: 1, Lo: n} }

// writer is a connection of a client without a segment whose put has proved its family.
func writer(r *familyRegistry, at netip.Addr, n uint64, f family) *peerConn {
	c := conn(r, at, wire.CallServiceReady)
	r.learn(c, f)
	r.bind(c, id(n))
	return c
}

func TestFamilyDecisions(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(r *familyRegistry) *peerConn
		want family
		wait bool
	}{
		{"nobody known: the default", func(r *familyRegistry) *peerConn { return conn(r, hostA, wire.CallServiceReady) }, family13, false},
		{"nobody known, bare read: the default", func(r *familyRegistry) *peerConn { return conn(r, hostA, wire.CallGetReplicaList) }, family13, false},
		{"its own put", func(r *familyRegistry) *peerConn { return writer(r, hostA, 1, family12) }, family12, false},
		{"the client's family learned on another connection", func(r *familyRegistry) *peerConn {
			writer(r, hostA, 1, family12)
			c := conn(r, hostA, wire.CallGetReplicaList)
			r.bind(c, id(1))
			return c
		}, family12, false},
		{"mounted and unproved: wait", func(r *familyRegistry) *peerConn {
			c := conn(r, hostA, wire.CallServiceReady)
			r.mounted(c, id(1), t0)
			return c
		}, familyUnknown, true},
		{"probe failed: the default", func(r *familyRegistry) *peerConn {
			c := conn(r, hostA, wire.CallServiceReady)
			r.mounted(c, id(1), t0)
			r.wantsProbe(c, id(1))
			r.probeDone(id(1))
			return c
		}, family13, false},
		{"additional connection beside an unproved client: wait", func(r *familyRegistry) *peerConn {
			r.mounted(conn(r, hostA, wire.CallServiceReady), id(1), t0)
			return conn(r, hostA, wire.CallGetReplicaList)
		}, familyUnknown, true},
		{"additional connection, unproved client elsewhere: no wait", func(r *familyRegistry) *peerConn {
			r.mounted(conn(r, hostB, wire.CallServiceReady), id(1), t0)
			return conn(r, hostA, wire.CallGetReplicaList)
		}, family13, false},
		{"a reader beside an unproved client never waits", func(r *familyRegistry) *peerConn {
			r.mounted(conn(r, hostA, wire.CallServiceReady), id(1), t0)
			return conn(r, hostA, wire.CallServiceReady)
		}, family13, false},
		{"the only living family of its address", func(r *familyRegistry) *peerConn {
			writer(r, hostA, 1, family12)
			writer(r, hostB, 2, family13)
			return conn(r, hostA, wire.CallServiceReady)
		}, family12, false},
		{"the only living family of all", func(r *familyRegistry) *peerConn {
			writer(r, hostB, 1, family12)
			return conn(r, hostA, wire.CallServiceReady)
		}, family12, false},
		{"two living families: last proved at the address", func(r *familyRegistry) *peerConn {
			writer(r, hostA, 1, family13)
			writer(r, hostA, 2, family12)
			return conn(r, hostA, wire.CallServiceReady)
		}, family12, false},
		{"the living have gone: last proved at the address", func(r *familyRegistry) *peerConn {
			r.closed(writer(r, hostA, 1, family12), t0)
			return conn(r, hostA, wire.CallServiceReady)
		}, family12, false},
		{"the living have gone, elsewhere: the only family there ever was", func(r *familyRegistry) *peerConn {
			r.closed(writer(r, hostB, 1, family12), t0)
			return conn(r, hostA, wire.CallServiceReady)
		}, family12, false},
		{"the living have gone, elsewhere, of two families: the default", func(r *familyRegistry) *peerConn {
			r.closed(writer(r, hostB, 1, family12), t0)
			r.closed(writer(r, hostB, 1, family13), t0)
			return conn(r, hostA, wire.CallServiceReady)
		}, family13, false},
		{"our own daemon has no vote", func(r *familyRegistry) *peerConn {
			daemon, err := wire.NewDaemonClientID()
			if err != nil {
				panic(err)
			}
			d := conn(r, hostA, wire.CallServiceReady)
			r.mounted(d, daemon, t0)
			r.learn(d, family13)
			writer(r, hostA, 1, family12)
			return conn(r, hostA, wire.CallServiceReady)
		}, family12, false},
		{"a port of its own decides", func(r *familyRegistry) *peerConn {
			writer(r, hostA, 1, family13)
			return r.opened(hostA, family12)
		}, family12, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := registry(family13)
			f, wait := r.familyFor(tc.make(r), t0)
			if f.group() != tc.want || wait != tc.wait {
				t.Fatalf("got %v wait %v, want %v wait %v", f, wait, tc.want, tc.wait)
			}
		})
	}
}

func TestHoldEndsWithTheProof(t *testing.T) {
	r := registry(family13)
	c := conn(r, hostA, wire.CallServiceReady)
	r.mounted(c, id(1), t0)
	other := conn(r, hostA, wire.CallGetReplicaList)
	var got []family
	for _, p := range []*peerConn{c, other} {
		if f, parked := r.park(p, t0, func(f family) { got = append(got, f) }); !parked {
			t.Fatalf("not parked but answered for %v", f)
		}
	}
	if !r.wantsProbe(c, id(1)) || r.wantsProbe(c, id(1)) {
		t.Fatal("the probe must go out exactly once")
	}
	third := conn(r, hostA, wire.CallCopyStart)
	r.bind(third, id(1))
	r.learn(third, family12)
	if len(got) != 2 || got[0] != family12 || got[1] != family12 {
		t.Fatalf("answered for %v, want twice 0.3.12", got)
	}
}

func TestHoldEndsByItself(t *testing.T) {
	r := registry(family13)
	c := conn(r, hostA, wire.CallServiceReady)
	r.mounted(c, id(1), t0)
	var got []family
	r.park(c, t0, func(f family) { got = append(got, f) })
	r.sweep(t0.Add(limits.FamilyHoldMs*time.Millisecond - 1))
	if len(got) != 0 {
		t.Fatal("answered before the hold was over")
	}
	r.sweep(t0.Add(limits.FamilyHoldMs * time.Millisecond))
	if len(got) != 1 || got[0] != family13 {
		t.Fatalf("answered for %v, want the default", got)
	}
}

// TestHoldComesOnce has a client that mounts and never fetches a task: its later replies do not wait again, and a late proof
// still counts.
func TestHoldComesOnce(t *testing.T) {
	r := registry(family13)
	c := conn(r, hostA, wire.CallServiceReady)
	r.mounted(c, id(1), t0)
	later := t0.Add(limits.FamilyHoldMs * time.Millisecond)
	r.pinged(c, id(1), later)
	if f, wait := r.familyFor(c, later); wait || f != family13 {
		t.Fatalf("wait %v for %v after the hold", wait, f)
	}
	if f, wait := r.familyFor(conn(r, hostA, wire.CallGetReplicaList), later); wait || f != family13 {
		t.Fatalf("wait %v for %v on another connection", wait, f)
	}
	if !r.wantsProbe(c, id(1)) {
		t.Fatal("the probe does not go out any more")
	}
	r.learn(c, family12)
	if f, _ := r.familyFor(c, later); f != family12 {
		t.Fatalf("%v after the proof", f)
	}
}

func TestHangUpTurnsTheGuess(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after time.Duration
		more  bool
		first []wire.CallID // of the connections that follow
		want  family        // for the last of them
	}{
		{"at once", 10 * time.Millisecond, false, []wire.CallID{wire.CallGetReplicaList}, family12},
		{"a new process is not the one that left", 10 * time.Millisecond, false, []wire.CallID{wire.CallServiceReady}, family13},
		{"nor is what follows it", 10 * time.Millisecond, false, []wire.CallID{wire.CallServiceReady, wire.CallGetReplicaList}, family13},
		{"after another call", 10 * time.Millisecond, true, []wire.CallID{wire.CallGetReplicaList}, family13},
		{"later", time.Second, false, []wire.CallID{wire.CallGetReplicaList}, family13},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := registry(family13)
			c := conn(r, hostA, wire.CallServiceReady)
			r.familyFor(c, t0)
			if tc.more {
				r.arrived(c, wire.CallRemove)
			}
			r.closed(c, t0.Add(tc.after))
			for i, first := range tc.first {
				f, _ := r.familyFor(conn(r, hostA, first), t0)
				if i == len(tc.first)-1 && f != tc.want {
					t.Fatalf("the last reader is taken for %v, want %v", f, tc.want)
				}
			}
		})
	}
}

// TestReaderThatAsksOnProvesTheGuess reads with nobody known: a client that goes on after the first reply has read it.
func TestReaderThatAsksOnProvesTheGuess(t *testing.T) {
	r := registry(family13)
	c := conn(r, hostA, wire.CallServiceReady)
	r.familyFor(c, t0)
	if r.all.n != [4]int{} {
		t.Fatalf("a guess alone counts as proof: %v", r.all.n)
	}
	r.arrived(c, wire.CallGetReplicaList)
	if f := family(c.fam.Load()); f != family13 || r.all.n[family13] != 1 {
		t.Fatalf("taken for %v, living %v", f, r.all.n)
	}
	r.closed(conn(r, hostA, wire.CallServiceReady), t0)
	r.closed(c, t0)
	if r.proved[hostA] != family13 || len(r.turned) != 0 || r.all.n != [4]int{} {
		t.Fatalf("proved %v, turned %v, living %v", r.proved, r.turned, r.all.n)
	}
}

// TestReadersThatReadOnceAndLeave come one after another and end right after their read. None may spoil the next one's.
func TestReadersThatReadOnceAndLeave(t *testing.T) {
	for _, fallback := range []family{family12, family13} {
		r := registry(fallback)
		for i := range 10 {
			c := conn(r, hostA, wire.CallServiceReady)
			if f, wait := r.familyFor(c, t0); f != fallback || wait {
				t.Fatalf("reader %d is taken for %v", i, f)
			}
			r.closed(c, t0.Add(time.Millisecond))
		}
	}
}

// TestReaderOfTheOtherFamily reads where all the living are of another family: its first read is lost, no more.
func TestReaderOfTheOtherFamily(t *testing.T) {
	r := registry(family13)
	writer(r, hostB, 1, family13)
	lost := conn(r, hostA, wire.CallServiceReady)
	if f, _ := r.familyFor(lost, t0); f != family13 {
		t.Fatalf("taken for %v", f)
	}
	r.closed(lost, t0.Add(time.Millisecond))
	next := conn(r, hostA, wire.CallGetReplicaList)
	if f, _ := r.familyFor(next, t0); f != family12 {
		t.Fatalf("its next connection is taken for %v", f)
	}
	r.arrived(next, wire.CallExistKey)
	if f, _ := r.familyFor(conn(r, hostA, wire.CallServiceReady), t0); f != family12 {
		t.Fatalf("the next process of the host is taken for %v", f)
	}
}

func TestRegistryForgetsTheDead(t *testing.T) {
	r := registry(family13)
	c := writer(r, hostA, 1, family12)
	r.pinged(c, id(1), t0)
	r.closed(c, t0)
	r.sweep(t0.Add(9 * time.Second))
	if r.all.n[family12] != 1 {
		t.Fatalf("a client that pinged is living: %v", r.all.n)
	}
	r.sweep(t0.Add(11 * time.Second))
	if r.all.n != [4]int{} || len(r.clients) != 0 || len(r.conns) != 0 || len(r.byAddr) != 0 {
		t.Fatalf("left behind: %v %d clients %d conns", r.all.n, len(r.clients), len(r.conns))
	}
}

func TestParkedRepliesAreBounded(t *testing.T) {
	r := registry(family13)
	c := conn(r, hostA, wire.CallServiceReady)
	r.mounted(c, id(1), t0)
	for range limits.ParkedReplies {
		if _, parked := r.park(c, t0, func(family) {}); !parked {
			t.Fatal("refused below the limit")
		}
	}
	if f, parked := r.park(c, t0, func(family) {}); parked || f != family13 {
		t.Fatalf("beyond the limit: parked %v, family %v", parked, f)
	}
	r.closed(c, t0)
	if len(r.parked) != 0 {
		t.Fatal("a closed connection left its parked replies behind")
	}
}
