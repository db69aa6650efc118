package catalog

import (
	"fmt"
	"testing"

	"mooncake/internal/limits"
)

// clearRunOf begins a removal of all objects and walks through them, so that a test can do something before the end.
func clearRunOf(t *testing.T, c *replayed, now Time, force bool) *clearRun {
	t.Helper()
	run := &clearRun{now: now, force: force}
	if !c.beginClear(run) {
		t.Fatal("it does not begin")
	}
	c.inSlices(func() bool { return c.clearSlice(run) })
	return run
}

// mount gives segments of alice with names of their own.
func (r *replayed) mount(count int, size uint64) {
	r.t.Helper()
	for i := range count {
		s := segmentNo(uint64(i), size)
		s.Name, s.Endpoint = fmt.Sprint("seg", i), fmt.Sprintf("host%d:1", i)
		if err := r.MountSegment(1, alice, s); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestClearIsOneChange removes many objects: one Change says so, whatever their number, and their memory goes back with the
// next sweep.
func TestClearIsOneChange(t *testing.T) {
	c := newTest(t, testConfig())
	c.mount(3, 1<<30)
	const n = 1500 // of more memory than is kept back
	for i := range n {
		store(t, c, 2, fmt.Sprintf("%020000d", i), one())
	}
	full, before := c.Stats(), len(c.copies)
	if got := c.RemoveMatching(20_000, nil, false); got != n {
		t.Errorf("removed %d of %d", got, n)
	}
	if changes := c.copies[before:]; len(changes) != 1 || changes[0].Kind != ChangeClear {
		t.Errorf("%d changes", len(changes))
	}
	if st := c.Stats(); st.Keys != 0 || st.AllocatedBytes != 0 {
		t.Errorf("after all: %+v", st)
	}
	for _, seg := range c.Segments() {
		if seg.LargestFree != seg.Size || seg.ObjectCount != 0 || seg.Used != 0 {
			t.Errorf("%+v", seg)
		}
	}
	c.Ping(20_100, alice)
	c.Sweep(20_100)
	if st := c.Stats(); st.ArenaBytes != limits.CatalogSpareSpans*spanBytes || full.ArenaBytes <= limits.CatalogSpareSpans*spanBytes {
		t.Errorf("%d bytes of records are held, %d were when it was full", st.ArenaBytes, full.ArenaBytes)
	}
	store(t, c, 20_200, "again", one())
	if st := c.Stats(); st.Keys != 1 || st.ArenaBytes > full.ArenaBytes {
		t.Errorf("filled again: %+v, before %+v", st, full)
	}
}

// TestClearSpares removes all objects beside such as must stay, and such as go by themselves.
func TestClearSpares(t *testing.T) {
	for _, force := range []bool{false, true} {
		t.Run(fmt.Sprint("force=", force), func(t *testing.T) {
			c := newTest(t, testConfig())
			c.mount(4, 1<<30)
			const plain = 500
			for i := range plain {
				store(t, c, 2, fmt.Sprint("plain", i), one())
			}
			store(t, c, 2, "leased", one())
			store(t, c, 2, "two", &PutOptions{Replicas: 2})
			store(t, c, 2, "pinned", &PutOptions{Replicas: 1, SoftPin: SoftPinEnable})
			store(t, c, 2, "hard", &PutOptions{Replicas: 1, HardPin: true})
			store(t, c, 2, "member", &PutOptions{Replicas: 1, Group: "g"})
			store(t, c, 2, "other", &PutOptions{Replicas: 1, Group: "g"})
			store(t, c, 2, "replaced", one())
			const now = 30_000
			if _, err := c.PutStart(now, bob, "open", 1000, one(), nil); err != nil {
				t.Fatal(err)
			}
			if _, err := c.UpsertStart(now, bob, "replaced", 2000, one(), nil); err != nil {
				t.Fatal(err)
			}
			if _, _, err := c.Get(now, "leased", nil); err != nil {
				t.Fatal(err)
			}
			want, stay := int64(plain+5), []string{"leased", "replaced"}
			if force {
				want, stay = want+1, stay[1:]
			}
			if got := c.RemoveMatching(now+1, nil, force); got != want {
				t.Errorf("removed %d, want %d", got, want)
			}
			c.compare()
			left := map[string]bool{}
			for key := range c.Keys {
				left[key] = true
			}
			if len(left) != len(stay) {
				t.Errorf("%v are left", left)
			}
			for _, key := range stay {
				if !left[key] {
					t.Errorf("%q is gone", key)
				}
			}
			quarantined := uint64(0)
			for _, seg := range c.Segments() {
				quarantined += seg.Quarantined
			}
			if (quarantined > 0) != force {
				t.Errorf("%d bytes wait for readers", quarantined)
			}
			wantErr(t, "end", c.PutEnd(now+2, bob, "open", 0, false, ReplicaTypeAll), 0)
			wantErr(t, "end", c.PutEnd(now+2, bob, "replaced", 0, false, ReplicaTypeAll), 0)
			c.Ping(now+100, alice)
			c.Sweep(now + 100)
			c.compare()
			for i := range plain {
				store(t, c, now+200, fmt.Sprint("plain", i), one())
			}
			if got := c.RemoveMatching(now+60_000, nil, force); got != plain+int64(len(stay))+1 {
				t.Errorf("then %d went", got)
			}
		})
	}
}

// TestClearMeets lets others do something to objects that the walk has passed.
func TestClearMeets(t *testing.T) {
	const now = 30_000
	for _, tc := range []struct {
		name  string
		force bool
		do    func(t *testing.T, c *replayed)
		want  int64 // of ten
		fails bool  // the walk counts for nothing
		after func(t *testing.T, c *replayed)
	}{
		{"a read leases", false, func(t *testing.T, c *replayed) {
			if !c.Exist(now, "k3") {
				t.Error("an object is away before it is removed")
			}
		}, 9, false, nil},
		{"a read, and force", true, func(t *testing.T, c *replayed) {
			if _, _, err := c.Get(now, "k3", nil); err != nil {
				t.Error(err)
			}
		}, 10, false, func(t *testing.T, c *replayed) {
			if q := c.Segments()[0].Quarantined + c.Segments()[1].Quarantined; q == 0 {
				t.Error("the range of a reader is free")
			}
		}},
		{"a removal", false, func(t *testing.T, c *replayed) {
			wantErr(t, "remove", c.Remove(now, "k3", false), 0)
		}, 9, false, nil},
		{"a removal and a put", false, func(t *testing.T, c *replayed) {
			wantErr(t, "remove", c.Remove(now, "k3", false), 0)
			store(t, c, now, "k3", one())
			store(t, c, now, "new", &PutOptions{Replicas: 1, Group: "g"})
		}, 9, false, func(t *testing.T, c *replayed) {
			if !c.Exist(now, "k3") || !c.Exist(now, "new") {
				t.Error("what was put in the meantime is gone")
			}
		}},
		{"a write over it", false, func(t *testing.T, c *replayed) {
			if _, err := c.UpsertStart(now, bob, "k3", 1<<20, one(), nil); err != nil {
				t.Fatal(err)
			}
		}, 9, false, func(t *testing.T, c *replayed) {
			wantErr(t, "end", c.UpsertEnd(now, bob, "k3", 0, false, ReplicaTypeAll), 0)
		}},
		{"a pin", false, func(t *testing.T, c *replayed) {
			wantErr(t, "pin", c.SoftPin(now, "k3", 60_000), 0)
		}, 10, false, nil},
		{"a copy", false, func(t *testing.T, c *replayed) {
			list := c.Segments()
			_, replicas, err := c.Peek("k3", nil)
			if err != nil {
				t.Fatal(err)
			}
			target := list[0].Name
			if target == replicas[0].Segment.Name {
				target = list[1].Name
			}
			if _, _, err := c.MoveStart(now, alice, "k3", replicas[0].Segment.Name, target, nil); err != nil {
				t.Fatal(err)
			}
			wantErr(t, "move", c.MoveEnd(now, alice, "k3"), 0)
		}, 10, false, nil},
		{"a segment goes", false, func(t *testing.T, c *replayed) {
			if _, err := c.UnmountSegment(now, c.Segments()[0].ID, alice); err != nil {
				t.Fatal(err)
			}
		}, -1, false, nil},
		{"many reads, and force", true, func(t *testing.T, c *replayed) {
			for i := range limits.ClearKept + 10 {
				if _, _, err := c.Get(now, fmt.Sprint("k", i%9), nil); err != nil {
					t.Fatal(err)
				}
			}
			if _, _, err := c.Get(now, "k9", nil); err != nil {
				t.Fatal(err)
			}
		}, 10, false, func(t *testing.T, c *replayed) {
			if q := c.Segments()[0].Quarantined + c.Segments()[1].Quarantined; q != 1000 {
				t.Errorf("of the ranges of readers %d bytes are held back", q)
			}
		}},
		{"too many reads", false, func(t *testing.T, c *replayed) {
			for range limits.ClearKept + 1 {
				c.Exist(now, "k3")
			}
		}, 0, true, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newTest(t, testConfig())
			c.mount(2, 1<<30)
			for i := range 10 {
				store(t, c, 2, fmt.Sprint("k", i), one())
			}
			run := clearRunOf(t, c, now, tc.force)
			tc.do(t, c)
			if done := c.commitClear(run); done == tc.fails {
				t.Errorf("done: %v", done)
			}
			for _, key := range run.left {
				if c.removeWhole(now, key, tc.force) == nil {
					run.removed++
				}
			}
			if run.removed != tc.want && tc.want >= 0 {
				t.Errorf("%d went, want %d", run.removed, tc.want)
			}
			c.compare()
			if tc.after != nil {
				tc.after(t, c)
			}
			for i := range 10 {
				key := fmt.Sprint("again", i)
				store(t, c, now, key, one())
			}
			c.compare()
			c.RemoveMatching(now+60_000, nil, true)
			if st := c.Stats(); st.Keys != 0 || st.AllocatedBytes != 0 {
				t.Errorf("after all: %+v", st)
			}
		})
	}
}

// TestClearGivesUp has more leased objects than stay at once.
func TestClearGivesUp(t *testing.T) {
	c := newTest(t, testConfig())
	c.OnlyWhenHeard(func() bool { return false })
	c.OnObject(nil)
	c.mount(1, 1<<30)
	const leased, plain = limits.ClearKept + 1, 100
	for i := range leased {
		key := fmt.Sprint("leased", i)
		store(t, c, 2, key, one())
		c.Exist(3, key)
	}
	for i := range plain {
		store(t, c, 2, fmt.Sprint("plain", i), one())
	}
	if got := c.RemoveMatching(4, nil, false); got != plain {
		t.Errorf("%d went, want %d", got, plain)
	}
	if got := c.Stats().Keys; got != leased {
		t.Errorf("%d are left, want %d", got, leased)
	}
	if got := c.RemoveMatching(5, nil, true); got != leased {
		t.Errorf("%d went by force, want %d", got, leased)
	}
	for key := range c.Keys {
		t.Fatalf("%q is left", key)
	}
	c.OnObject(c.told.hear)
}

// TestClearTellsWhoListens tells of each object where somebody hears it, and looks at none where nobody does.
func TestClearTellsWhoListens(t *testing.T) {
	for _, heard := range []bool{true, false} {
		c := &replayed{Catalog: New(testConfig()), t: t}
		t.Cleanup(c.Close)
		gone := 0
		c.OnObject(func(e ObjectEvent) {
			if e.Gone {
				gone++
			}
		})
		c.OnlyWhenHeard(func() bool { return heard })
		c.mount(1, 1<<30)
		const objects = 100
		for i := range objects {
			store(t, c, 2, fmt.Sprint(i), one())
		}
		if got := c.RemoveMatching(4, nil, true); got != objects || gone != 0 != heard {
			t.Errorf("heard %v: %d went, %d were told", heard, got, gone)
		}
		if heard && gone != objects {
			t.Errorf("%d of %d were told", gone, objects)
		}
	}
}

// TestClearOfWhatIsRead removes by force what was read just now, and more of it than is held back one by one: then all is.
func TestClearOfWhatIsRead(t *testing.T) {
	c := &replayed{Catalog: New(testConfig()), t: t}
	t.Cleanup(c.Close)
	c.mount(1, 1<<30)
	const read, plain = limits.ClearReads + 1, 5000
	for i := range read + plain {
		key := fmt.Sprint(i)
		store(t, c, 2, key, one())
		if i < read {
			if _, _, err := c.Get(3, key, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.Exist(3, "0")
	if got := c.RemoveMatching(4, nil, true); got != read+plain {
		t.Errorf("%d went, want %d", got, read+plain)
	}
	if st := c.Stats(); st.Keys != 0 || st.AllocatedBytes != 0 || st.QuarantinedBytes != (read+plain)*100 {
		t.Errorf("after all: %+v", st)
	}
	check(t, c.s)
}
