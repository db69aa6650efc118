package catalog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// heldLog is a log that becomes durable when a test says so. A number stands for one decision or several.
type heldLog struct {
	*replayed
	changes [][]Change // by number, less one
	done    uint64
	shared  bool // the next decision has the number of the one before
}

func (l *heldLog) Append(changes []Change) uint64 {
	if !l.shared || len(l.changes) == int(l.done) {
		l.changes = append(l.changes, nil)
	}
	at := &l.changes[len(l.changes)-1]
	for i := range changes {
		*at = append(*at, changes[i].Clone())
	}
	return uint64(len(l.changes))
}

func (l *heldLog) WaitDurable(number uint64) error {
	if number > l.done {
		return errors.New("not durable")
	}
	return nil
}

func (l *heldLog) write(number int) {
	l.done = uint64(number)
	l.Settled(l.done)
}

func (l *heldLog) writeAll() { l.write(len(l.changes)) }

// newLogged returns a catalog that decides with a log.
func newLogged(t testing.TB) *heldLog {
	l := &heldLog{replayed: newTest(t, testConfig())}
	l.SetLog(l)
	return l
}

// start begins a put and returns where it lies and after which number its writer may know.
func (l *heldLog) start(now Time, key string, size uint64) (r Replica, after uint64) {
	l.t.Helper()
	o := PutOptions{Replicas: 1}
	got, err := l.PutStart(now, UUID{2, 2}, key, size, &o, nil)
	if err != nil {
		l.t.Fatalf("put of %s: %v", key, err)
	}
	return got[0], o.After
}

func (l *heldLog) mount(now Time, number, size uint64) {
	l.t.Helper()
	s := Segment{ID: UUID{9, number}, Name: fmt.Sprint("segment-", number), Base: 1 << 40, Size: size, Endpoint: fmt.Sprintf("10.0.0.%d:1", number)}
	if err := l.MountSegment(now, UUID{8, number}, s); err != nil {
		l.t.Fatal(err)
	}
}

// TestWindows follows which starts may be answered before the log has them.
func TestWindows(t *testing.T) {
	const now = 1000
	l := newLogged(t)
	l.mount(now, 1, 1<<30) // windows of 64 MiB
	early := func(what, key string, size uint64, want bool) Replica {
		t.Helper()
		r, after := l.start(now, key, size)
		if got := after <= l.done; got != want {
			t.Errorf("%s: after %d of %d, durable %d", what, after, len(l.changes), l.done)
		}
		return r
	}
	early("the first small one", "a", 4096, false)
	early("one beside it, before the window is durable", "b", 4096, false)
	early("the first large one", "A", 8<<20, false)
	l.writeAll()
	early("small, in the window", "c", 4096, true)
	early("large, in the window", "B", 8<<20, true)
	if err := l.PutEnd(now, UUID{2, 2}, "a", 0, false, ReplicaTypeAll); err != nil {
		t.Fatal(err)
	}
	if err := l.Remove(now, "a", true); err != nil {
		t.Fatal(err)
	}
	early("over what was removed a moment ago", "d", 4096, false)
	early("beside it", "e", 4096, true)
	early("a key that was removed a moment ago", "a", 4096, false)
	l.writeAll()
	early("a key that was removed durably", "f", 4096, true)
	if err := l.PutEnd(now, UUID{2, 2}, "b", 0, false, ReplicaTypeAll); err != nil {
		t.Fatal(err)
	}
	l.writeAll()
	o := PutOptions{Replicas: 1}
	if _, err := l.UpsertStart(now, UUID{2, 2}, "b", 5000, &o, nil); err != nil || o.After != uint64(len(l.changes)) {
		t.Errorf("an upsert of what is there: after %d of %d, %v", o.After, len(l.changes), err)
	}
	l.writeAll()
	for i := range 100 { // the next window is opened before the last one ends
		early("one of many", fmt.Sprint("many-", i), 8<<20, true)
		l.writeAll()
	}
	early("one longer than a window", "long", 65<<20, false)
}

// TestWindowsWithoutLog notes none where nothing is kept.
func TestWindowsWithoutLog(t *testing.T) {
	c := newTest(t, testConfig())
	if err := c.MountSegment(1, UUID{8, 1}, Segment{ID: UUID{9, 1}, Name: "s", Base: 1 << 40, Size: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	o := PutOptions{Replicas: 1}
	if _, err := c.PutStart(1, UUID{2, 2}, "k", 1, &o, nil); err != nil || o.After != 0 || len(c.copies) != 2 {
		t.Errorf("after %d, %d changes, %v", o.After, len(c.copies), err)
	}
}

// promised is a range of which a writer was told.
type promised struct {
	segment      UUID
	offset, size uint64
}

// TestWindowsOverTakeovers lets leaders follow each other at random points of a log. Whatever a writer was told of by one
// of them and is not in the log then is no part of an object at the next, and not given away before the discard time is
// over.
func TestWindowsOverTakeovers(t *testing.T) {
	for seed := range uint64(60) {
		dice := rand.New(rand.NewPCG(seed, 3))
		l, now := newLogged(t), Time(1000)
		l.mount(now, 1, 1<<26)
		l.mount(now, 2, 1<<24)
		for range 4 {
			told := randomPuts(l, dice, &now)
			kept := int(l.done)
			if dice.IntN(3) == 0 {
				kept += dice.IntN(len(l.changes) - kept + 1) // it was written, but nobody heard of it
			}
			// What Resume does is in no Change, so nothing is replayed beside this one.
			next := &heldLog{replayed: &replayed{Catalog: New(testConfig()), t: t}}
			t.Cleanup(next.Close)
			next.SetLog(next)
			for _, changes := range l.changes[:kept] {
				next.Apply(changes)
			}
			known := map[promised]bool{}
			for _, changes := range l.changes[:kept] {
				for i := range changes {
					if changes[i].Kind == ChangePut {
						for _, rc := range changes[i].Replicas {
							known[promised{rc.Segment, rc.Offset, rc.Size}] = true
						}
					}
				}
			}
			next.changes = append([][]Change(nil), l.changes[:kept]...)
			next.write(kept)
			now += 10
			next.Resume(now)
			next.CloseWindows(now)
			for _, p := range told {
				if !known[p] {
					expectClosed(t, seed, next.s, p)
				}
			}
			l.writeAll()
			l = next
			l.writeAll()
		}
	}
}

// randomPuts makes puts, some of which end, and removals, and returns what writers were told of before the crash.
func randomPuts(l *heldLog, dice *rand.Rand, now *Time) (told []promised) {
	type waiting struct {
		p     promised
		after uint64
	}
	var waits []waiting
	for range 150 {
		*now += Time(dice.IntN(20))
		l.shared = dice.IntN(2) == 0
		key := fmt.Sprint("key-", dice.IntN(60))
		size := uint64(1 + dice.IntN(100_000))
		if dice.IntN(8) == 0 {
			size = 1<<20 + uint64(dice.IntN(1<<20))
		}
		switch dice.IntN(6) {
		case 0, 1, 2:
			o := PutOptions{Replicas: uint64(1 + dice.IntN(2))}
			start := l.PutStart
			if dice.IntN(4) == 0 {
				start = l.UpsertStart
			}
			got, err := start(*now, UUID{2, 2}, key, size, &o, nil)
			for i := range got {
				if err == nil {
					waits = append(waits, waiting{promised{got[i].Segment.ID, got[i].Offset, size}, o.After})
				}
			}
		case 3:
			_ = l.PutEnd(*now, UUID{2, 2}, key, 0, false, ReplicaTypeAll) // there may be none
		case 4:
			_ = l.Remove(*now, key, true) // it may not be there
		case 5:
			if n := len(l.changes); n > int(l.done) {
				l.write(int(l.done) + 1 + dice.IntN(n-int(l.done)))
			}
			l.Sweep(*now)
		}
	}
	for _, w := range waits {
		if w.after <= l.done {
			told = append(told, w.p)
		}
	}
	return told
}

// expectClosed fails unless a range is in quarantine as a whole.
func expectClosed(t *testing.T, seed uint64, s *state, p promised) {
	t.Helper()
	seg := s.segments.byID[p.segment]
	for offset, size := range seg.space.Extents() {
		if offset < p.offset+p.size && p.offset < offset+size {
			t.Fatalf("seed %d: %+v: %d bytes at %d are free", seed, p, size, offset)
		}
	}
	for rn := seg.head; rn != 0; rn = s.replica(rn).segNext {
		rep := s.replica(rn)
		if owner := s.record(rep.owner); rep.offset < p.offset+p.size && p.offset < rep.offset+owner.size {
			t.Fatalf("seed %d: %+v belongs to %q", seed, p, owner.key())
		}
	}
}
