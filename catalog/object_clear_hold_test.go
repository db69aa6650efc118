package catalog

import (
	"fmt"
	"testing"

	"mooncake/internal/limits"
)

// clearMix stores one object or more of every sort that a removal of all objects may meet, and returns those that stay.
func clearMix(t *testing.T, c *replayed, now Time, force bool) (stay []string) {
	t.Helper()
	read := func(key string) {
		t.Helper()
		if _, _, err := c.Get(now, key, nil); err != nil {
			t.Fatal(key, err)
		}
	}
	for i := range 300 {
		tenant := &PutOptions{Replicas: 1, Tenant: []string{"", "red", "blue"}[i%3]}
		store(t, c, 2, fmt.Sprint("plain", i), tenant)
		store(t, c, 2, fmt.Sprint("hole", i), one())
		store(t, c, 2, fmt.Sprint("former", i), one())
	}
	for i := range 300 {
		if i%3 == 0 {
			wantErr(t, "remove", c.Remove(now, fmt.Sprint("hole", i), true), 0)
		}
		if i%7 == 0 {
			read(fmt.Sprint("former", i))
			wantErr(t, "remove", c.Remove(now, fmt.Sprint("former", i), true), 0)
		}
		if i%5 == 0 {
			read(fmt.Sprint("plain", i))
			if !force {
				stay = append(stay, fmt.Sprint("plain", i))
			}
		}
	}
	store(t, c, 2, "two", &PutOptions{Replicas: 2})
	store(t, c, 2, "pinned", &PutOptions{Replicas: 1, SoftPin: SoftPinEnable})
	store(t, c, 2, "hard", &PutOptions{Replicas: 1, HardPin: true})
	for _, group := range []string{"g", "h"} {
		store(t, c, 2, "member of "+group, &PutOptions{Replicas: 1, Group: group})
		store(t, c, 2, "other of "+group, &PutOptions{Replicas: 1, Group: group})
	}
	store(t, c, 2, "p/00000000000000000000000000000001/meta", &PutOptions{Replicas: 1, Group: "h"})
	store(t, c, 2, "p/00000000000000000000000000000001/manifest", &PutOptions{Replicas: 1, Group: "h"})
	for _, key := range []string{"two", "pinned", "hard", "member of g"} {
		if read(key); !force {
			stay = append(stay, key)
		}
	}
	if !force {
		stay = append(stay, "other of g") // the lease of a member is its group's
	}
	store(t, c, 2, "replaced", one())
	if _, err := c.PutStart(now, bob, "open", 1000, one(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.UpsertStart(now, bob, "replaced", 2000, one(), nil); err != nil {
		t.Fatal(err)
	}
	return append(stay, "replaced")
}

// TestClearIsFollowed removes all objects of every sort, and holds what was read back one by one or in pieces. Whoever follows takes
// the same road, finds nothing that has to go by itself, and has the same afterwards.
func TestClearIsFollowed(t *testing.T) {
	const now = 30_000
	for _, clearReads := range []int{0, 50, limits.ClearReads} {
		for _, force := range []bool{false, true} {
			t.Run(fmt.Sprintf("one by one up to %d, force=%v", clearReads, force), func(t *testing.T) {
				c := newTest(t, testConfig())
				c.clearReads = clearReads
				c.mount(4, 1<<30)
				stay := clearMix(t, c, now, force)
				c.compare()
				c.RemoveMatching(now+1, nil, force)
				clears := 0
				for i := range c.copies {
					ch := &c.copies[i]
					if ch.Kind == ChangeClear {
						clears++
						if kept, others := c.twin.s.partForClear(ch); len(others) > 0 || len(kept) == 0 {
							t.Errorf("%d have to go by themselves, %d stay", len(others), len(kept))
						}
						if held := ch.Until != 0; held != (force && clearReads < limits.ClearReads) {
							t.Errorf("all is held back: %v", held)
						}
					}
					c.twin.Apply(c.copies[i : i+1])
				}
				if a := c.twin.s.arena; clears != 1 || len(a.torn)+len(a.fenced) > 0 || len(a.spare) > limits.CatalogSpareSpans {
					t.Errorf("%d times all went; %d spans are torn, %d behind a fence, %d spare", clears, len(a.torn), len(a.fenced), len(a.spare))
				}
				c.compare()
				left := map[string]bool{}
				for key := range c.Keys {
					left[key] = true
				}
				for _, key := range stay {
					if !left[key] {
						t.Errorf("%q is gone", key)
					}
				}
				if len(left) != len(stay) {
					t.Errorf("%d are left, want %d: %v", len(left), len(stay), left)
				}
				c.Ping(now+20_000, alice)
				c.Sweep(now + 20_000)
				if st := c.Stats(); st.QuarantinedBytes != 0 {
					t.Errorf("long afterwards: %+v", st)
				}
			})
		}
	}
}

// storeLarge stores objects of so many bytes; their keys are their numbers.
func storeLarge(t *testing.T, c *replayed, objects int, size uint64) {
	t.Helper()
	for i := range objects {
		key := fmt.Sprint(i)
		if _, err := c.PutStart(2, bob, key, size, one(), nil); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "end", c.PutEnd(2, bob, key, 0, false, ReplicaTypeAll), 0)
	}
}

// TestClearHoldsInPieces removes what is being read from a pool that is nearly full: what was read is held back until the last lease
// is over, in pieces of which a put in need takes as many as it needs, and puts that find other room take none.
func TestClearHoldsInPieces(t *testing.T) {
	const (
		now, objects, size = 30_000, 100, 2_500_000
		room               = 256_000_000
	)
	c := newTest(t, testConfig())
	c.clearReads = 0
	c.mount(1, room)
	storeLarge(t, c, objects, size)
	for i := range objects {
		if _, _, err := c.Get(now+Time(i), fmt.Sprint(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.RemoveMatching(now+200, nil, true); got != objects {
		t.Errorf("%d went", got)
	}
	c.compare()
	pieces := len(c.s.segments.mounted[0].held)
	if st := c.Stats(); st.QuarantinedBytes != objects*size || pieces != objects*size/limits.ClearPieceBytes+1 && pieces != objects*size/limits.ClearPieceBytes+2 {
		t.Errorf("%d bytes are held back in %d pieces", st.QuarantinedBytes, pieces)
	}
	for _, held := range c.s.segments.mounted[0].held {
		if held.size > limits.ClearPieceBytes || held.until != now+objects-1+10_000 || held.handed != now+objects-1 {
			t.Errorf("a piece is %+v", held)
		}
	}
	put := func(key string, size, least, most uint64) {
		t.Helper()
		before := c.Stats()
		if _, err := c.PutStart(now+300, bob, key, size, &PutOptions{Replicas: 1, HardPin: true}, nil); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "end", c.PutEnd(now+300, bob, key, 0, false, ReplicaTypeAll), 0)
		if taken := c.Stats().HandOutReuses - before.HandOutReuses; taken < least || taken > most {
			t.Errorf("%q took %d pieces from readers, want %d to %d", key, taken, least, most)
		}
	}
	put("fits", 3_000_000, 0, 0)
	put("fits, too", 2_000_000, 0, 0)
	put("does not fit", 4_000_000, 1, 1)
	put("large", 40_000_000, 3, 4)
	c.compare()
	c.Ping(now+9_000, alice)
	c.Sweep(now + 9_000)
	if st := c.Stats(); st.QuarantinedBytes == 0 {
		t.Error("while readers are at them, ranges became free")
	}
	c.Ping(now+10_200, alice)
	c.Sweep(now + 10_200)
	if st := c.Stats(); st.QuarantinedBytes != 0 || st.AllocatedBytes != 49_000_000 {
		t.Errorf("when the leases are over: %+v", st)
	}
}

// TestClearHoldsHoles has so many holes between what is being read that they are held back as well.
func TestClearHoldsHoles(t *testing.T) {
	const now, holes = 30_000, limits.ClearHoles + 1
	c := newTest(t, testConfig())
	c.clearReads = 0
	c.OnObject(nil) // so many go one by one while somebody hears of them
	c.mount(1, 1<<30)
	for i := range holes + 1 {
		store(t, c, 2, fmt.Sprint("k", i), one())
		store(t, c, 2, fmt.Sprint("hole", i), one())
	}
	for i := range holes + 1 {
		wantErr(t, "remove", c.Remove(now, fmt.Sprint("hole", i), true), 0)
	}
	if _, _, err := c.Get(now, "k1", nil); err != nil {
		t.Fatal(err)
	}
	c.RemoveMatching(now, nil, true)
	if st, pieces := c.Stats(), len(c.s.segments.mounted[0].held); st.QuarantinedBytes != (2*holes+1)*100 || pieces != 1 {
		t.Errorf("%d bytes are held back in %d pieces", st.QuarantinedBytes, pieces)
	}
	c.compare()
	c.OnObject(c.told.hear)
}

// TestClearLeavesTheRest removes all objects by force while few are being read, more than go one by one: only the pieces with a byte
// of theirs are held back, and as long as there is other room nobody gets what was read.
func TestClearLeavesTheRest(t *testing.T) {
	const now, objects, size, room = 30_000, 200, 2_500_000, 256_000_000
	c := newTest(t, testConfig())
	c.clearReads = 0
	c.mount(2, room)
	storeLarge(t, c, objects, size)
	var read []Replica
	for _, key := range []string{"3", "50", "51"} {
		var err error
		if _, read, err = c.Get(now, key, read); err != nil {
			t.Fatal(err)
		}
	}
	c.RemoveMatching(now+200, nil, true)
	c.compare()
	if st := c.Stats(); st.QuarantinedBytes < 3*size || st.QuarantinedBytes > 6*limits.ClearPieceBytes {
		t.Errorf("%d bytes are held back for three objects of %d", st.QuarantinedBytes, size)
	}
	stored := 0
	for ; ; stored++ {
		placed, err := c.PutStart(now+300, bob, fmt.Sprint("next", stored), size, one(), nil)
		if err != nil || c.Stats().HandOutReuses > 0 {
			break
		}
		for _, p := range placed {
			for _, r := range read {
				if p.Segment == r.Segment && p.Offset < r.Offset+size && r.Offset < p.Offset+size {
					t.Fatalf("%+v lies on %+v, which is being read", p, r)
				}
			}
		}
	}
	if stored < objects-6*limits.ClearPieceBytes/size-2 {
		t.Errorf("only %d objects found room that nobody was reading", stored)
	}
	c.compare()
}

// TestClearWithoutItsSegments has a segment with what is being read go while the removal of all objects walks on: what is
// held back lies on the other one.
func TestClearWithoutItsSegments(t *testing.T) {
	const now, objects, size, room = 30_000, 100, 2_500_000, 256_000_000
	for gone := range 2 {
		c := newTest(t, testConfig())
		c.clearReads = 0
		c.mount(2, room)
		storeLarge(t, c, objects, size)
		for i := range objects {
			if _, _, err := c.Get(now, fmt.Sprint(i), nil); err != nil {
				t.Fatal(err)
			}
		}
		run := clearRunOf(t, c, now+1, true)
		for _, seg := range c.Segments()[:gone] {
			if _, err := c.UnmountSegment(now+2, seg.ID, alice); err != nil {
				t.Fatal(err)
			}
		}
		for c.s.tidy(limits.CatalogSliceItems) {
		}
		if !c.commitClear(run) {
			t.Fatal("not everything went")
		}
		for c.s.arena.mend() {
		}
		c.compare()
		if st := c.Stats(); st.QuarantinedBytes == 0 || st.QuarantinedBytes > uint64(2-gone)*room || st.Keys != 0 {
			t.Errorf("without %d segments: %+v", gone, st)
		}
	}
}
