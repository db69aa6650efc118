package catalog

import "testing"

// threeCopies has an object that is to have two copies, and has one on each of three segments.
func threeCopies(t *testing.T, o *PutOptions) (*replayed, []UUID, Time) {
	t.Helper()
	c, now := newTest(t, testConfig()), Time(1_800_000_000_064)
	var ids []UUID
	for i, name := range []string{"a", "b", "c"} {
		id := UUID{Hi: 8, Lo: uint64(i)}
		ids = append(ids, id)
		s := Segment{ID: UUID{Hi: 9, Lo: uint64(i)}, Name: name, Base: uint64(i+1) << 30, Size: 4000, Endpoint: name + ":1", Protocol: "tcp"}
		if err := c.MountSegment(now, id, s); err != nil {
			t.Fatal(err)
		}
	}
	o.Replicas, o.Preferred = 2, []string{"a", "b"}
	if _, err := c.PutStart(now, ids[0], "k", 100, o, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.PutEnd(now, ids[0], "k", 0, false, ReplicaTypeAll); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.CopyStart(now, ids[0], "k", "a", []string{"c"}, nil); err != nil {
		t.Fatal(err)
	}
	return c, ids, now
}

func replicaOn(t *testing.T, c *replayed, name string) uint64 {
	t.Helper()
	_, copies, _ := c.ThinCopies("k", nil)
	for i := range copies {
		if copies[i].Segment.Name == name {
			return copies[i].ID
		}
	}
	return 0
}

// TestTrimCopy takes a copy away that is to spare, and no other.
func TestTrimCopy(t *testing.T) {
	c, ids, now := threeCopies(t, &PutOptions{})
	trim := func(what, name string, keep int, want error) {
		t.Helper()
		if err := c.TrimCopy(now, "k", replicaOn(t, c, name), keep); err != want {
			t.Fatalf("%s: %v, want %v", what, err, want)
		}
	}
	trim("while it is copied", "a", 1, ErrReplicationTask)
	if err := c.CopyEnd(now, ids[0], "k"); err != nil {
		t.Fatal(err)
	}
	if err := c.TrimCopy(now, "gone", 1, 1); err != ErrObjectNotFound {
		t.Fatalf("no object: %v", err)
	}
	if err := c.TrimCopy(now, "k", 999, 1); err != ErrReplicaNotFound {
		t.Fatalf("no such copy: %v", err)
	}
	trim("three are to stay", "a", 3, ErrReplicaNotFound)
	if _, _, err := c.Get(now, "k", nil); err != nil {
		t.Fatal(err)
	}
	trim("leased", "a", 2, ErrHasLease)
	now += 10_001
	for _, id := range ids {
		c.Ping(now, id)
	}
	c.Suspect(now, ids[1])
	trim("one of the others does not answer", "a", 2, ErrReplicaNotFound)
	c.Ping(now, ids[1])
	if _, err := c.UpsertStart(now, ids[0], "k", 50, &PutOptions{Replicas: 2}, nil); err != nil {
		t.Fatal(err)
	}
	trim("while it is written", "a", 2, ErrNotReady)
	if err := c.UpsertRevoke(now, ids[0], "k", ReplicaTypeAll); err != nil {
		t.Fatal(err)
	}
	trim("one too many", "a", 1, nil)
	if _, copies, _ := c.ThinCopies("k", nil); len(copies) != 2 || replicaOn(t, c, "a") != 0 {
		t.Fatalf("%+v are left", copies)
	}
	trim("as many as it is to have", "b", 1, ErrReplicaNotFound)
	if _, replicas, err := c.Get(now, "k", nil); err != nil || len(replicas) != 2 {
		t.Fatalf("%v, %v", replicas, err)
	}
}

// TestTrimmedRangeWaits has a reader who may still be at the copy that goes: its range is nobody's until his lease is over.
func TestTrimmedRangeWaits(t *testing.T) {
	cfg := testConfig()
	c, ids, now := threeCopies(t, &PutOptions{})
	if err := c.CopyEnd(now, ids[0], "k"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Get(now, "k", nil); err != nil {
		t.Fatal(err)
	}
	used := func() (used, held uint64) {
		st, _ := c.SegmentByID(UUID{Hi: 9, Lo: 2})
		return st.Used, st.Quarantined
	}
	now += Time(cfg.LeaseMs) + 1
	if err := c.TrimCopy(now, "k", replicaOn(t, c, "c"), 2); err != nil {
		t.Fatal(err)
	}
	if u, held := used(); u != 0 || held != 0 {
		t.Errorf("%d bytes used and %d held after the lease", u, held)
	}
}

// TestTrimKeepsPinned leaves a hard pinned object all its copies.
func TestTrimKeepsPinned(t *testing.T) {
	c, ids, now := threeCopies(t, &PutOptions{HardPin: true})
	if err := c.CopyEnd(now, ids[0], "k"); err != nil {
		t.Fatal(err)
	}
	if err := c.TrimCopy(now, "k", replicaOn(t, c, "a"), 1); err != ErrUnavailableStatus {
		t.Errorf("%v", err)
	}
}

// TestCopyThatIsWanted has somebody ask for a third copy: three there are to be from then on, also after a snapshot.
func TestCopyThatIsWanted(t *testing.T) {
	c, ids, now := threeCopies(t, &PutOptions{})
	if err := c.CopyEndMore(now, ids[0], "k"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := c.TrimCopy(now, "k", replicaOn(t, c, name), 1); err != ErrReplicaNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.compare()
	built := New(testConfig())
	defer built.Close()
	if err := c.Snapshot(func(changes []Change) error { built.Apply(changes); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Catalog{c.Catalog, c.twin, built} {
		if object, _, _ := x.ThinCopies("k", nil); object.Wanted != 3 {
			t.Errorf("%d copies are wanted", object.Wanted)
		}
	}
	if _, err := c.UnmountSegment(now, UUID{Hi: 9, Lo: 1}, UUID{}); err != nil {
		t.Fatal(err)
	}
	if object, _, thin := c.ThinCopies("k", nil); !thin || object.Copies != 2 {
		t.Errorf("%+v, thin %v", object, thin)
	}
}

// TestLookFindsBoth has one object with too few copies, one with too many, and one with as many as it is to have.
func TestLookFindsBoth(t *testing.T) {
	c, ids, now := threeCopies(t, &PutOptions{})
	if err := c.CopyEnd(now, ids[0], "k"); err != nil {
		t.Fatal(err)
	}
	for key, n := range map[string]uint64{"few": 9, "right": 2, "one": 1} {
		if _, err := c.PutStart(now, ids[0], key, 10, &PutOptions{Replicas: n}, nil); err != nil {
			t.Fatal(err)
		}
		if err := c.PutEnd(now, ids[0], key, 0, false, ReplicaTypeAll); err != nil {
			t.Fatal(err)
		}
	}
	found, more := c.ThinSlice(new(HealWalk), nil)
	got := map[string][2]int{}
	for _, f := range found {
		got[f.Key] = [2]int{f.Copies, f.Wanted}
	}
	if more || len(got) != 2 || got["k"] != [2]int{3, 2} || got["few"][0] != 3 || got["few"][1] < 4 {
		t.Errorf("%v", got)
	}
	usable, allocated := c.Filled()
	if usable != 12_000 || allocated != 300+30+20+10 {
		t.Errorf("%d of %d", allocated, usable)
	}
}
