package catalog

import (
	"slices"
	"strings"
	"testing"

	"mooncake/internal/limits"
)

// twoOfAName mounts two segments that share a name, and a third of another client.
func twoOfAName(t *testing.T) *replayed {
	t.Helper()
	c := newTest(t, testConfig())
	third := segmentNo(3, 1<<20)
	third.Name = "host:2"
	for i, s := range []Segment{segmentNo(1, 1<<20), segmentNo(2, 1<<20), third} {
		owner := []UUID{alice, bob, bob}[i]
		if err := c.MountSegment(1, owner, s); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func store(t *testing.T, c *replayed, now Time, key string, o *PutOptions) []Replica {
	t.Helper()
	replicas, err := c.PutStart(now, alice, key, 100, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.PutEnd(now, alice, key, 0, false, ReplicaTypeAll); err != nil {
		t.Fatal(err)
	}
	return replicas
}

func TestSegmentLookups(t *testing.T) {
	c := twoOfAName(t)
	store(t, c, 2, "k", &PutOptions{Replicas: 3})
	if list := c.Segments(); len(list) != 3 || list[0].Used != 100 || list[0].ObjectCount != 1 || list[0].Status != SegmentOK ||
		list[0].LargestFree != 1<<20-100 {
		t.Errorf("segments %+v", list)
	}
	if list := c.SegmentsNamed("host:1"); len(list) != 2 || list[0].Client != alice || list[1].Client != bob {
		t.Errorf("of that name %+v", list)
	}
	if list := c.SegmentsOf(bob); len(list) != 2 || list[1].Name != "host:2" {
		t.Errorf("of bob %+v", list)
	}
	if s, ok := c.SegmentByID(UUID{100, 3}); !ok || s.Name != "host:2" {
		t.Errorf("by id %+v %v", s, ok)
	}
	if _, ok := c.SegmentByID(UUID{}); ok || len(c.SegmentsNamed("none")) > 0 || len(c.SegmentsOf(UUID{})) > 0 {
		t.Error("found what is not there")
	}
	if c.ClientStage(alice) == StageGone || c.ClientStage(UUID{}) != StageGone || len(c.ActiveClients()) != 0 {
		t.Error("mounting makes a client known, not active")
	}
	if err := c.ReMountSegments(3, bob, nil); err != nil || !slices.Equal(c.ActiveClients(), []UUID{bob}) {
		t.Error("remounting makes it active", err)
	}
}

func TestClearReplicas(t *testing.T) {
	c := twoOfAName(t)
	store(t, c, 2, "k", &PutOptions{Replicas: 3})
	if c.ClearReplicas(3, bob, "k", "") || c.ClearReplicas(3, alice, "none", "") || c.ClearReplicas(3, alice, "k", "host:9") {
		t.Error("cleared what it must not")
	}
	if !c.ClearReplicas(3, alice, "k", "host:1") {
		t.Error("both replicas under that name should go")
	}
	c.compare()
	_, replicas, err := c.Peek("k", nil)
	if err != nil || len(replicas) != 1 || replicas[0].Segment.Name != "host:2" {
		t.Errorf("left %+v, %v", replicas, err)
	}
	c.Exist(4, "k")
	if c.ClearReplicas(5, alice, "k", "") {
		t.Error("leased objects stay")
	}
	if !c.ClearReplicas(20_000, alice, "k", "host:2") || c.Stats().Keys != 0 {
		t.Error("the last replica takes the object with it")
	}
}

func TestFindMatchingLeases(t *testing.T) {
	c := twoOfAName(t)
	for _, key := range []string{"a1", "a2", "b1"} {
		store(t, c, 2, key, one())
	}
	if _, err := c.PutStart(2, alice, "a3", 1, one(), nil); err != nil {
		t.Fatal(err)
	}
	var found []string
	c.FindMatching(3, func(key string) bool { return strings.HasPrefix(key, "a") }, func(key string, o Object, replicas []Replica) bool {
		if o.Size != 100 || len(replicas) != 1 {
			t.Errorf("%s: %+v %+v", key, o, replicas)
		}
		found = append(found, key)
		return true
	})
	slices.Sort(found)
	if !slices.Equal(found, []string{"a1", "a2"}) {
		t.Errorf("found %v", found)
	}
	if _, _, err := c.Peek("b1", nil); err != nil {
		t.Error(err)
	}
	wantErr(t, "remove found", c.Remove(4, "a1", false), ErrHasLease)
	wantErr(t, "remove looked at", c.Remove(4, "b1", false), 0)
	for range c.Keys {
		break
	}
	c.FindMatching(4, func(string) bool { return true }, func(string, Object, []Replica) bool { return false })
}

func TestTypesOfReplicas(t *testing.T) {
	c := twoOfAName(t)
	const disk int32 = 1
	if _, err := c.PutStart(2, alice, "k", 1, one(), nil); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "end of disk replicas", c.PutEnd(3, alice, "k", 0, false, disk), 0)
	wantErr(t, "revoke of disk replicas", c.PutRevoke(3, alice, "k", disk), 0)
	wantErr(t, "which were none", c.Remove(3, "k", false), ErrNotReady)
	wantErr(t, "upsert end", c.UpsertEnd(3, alice, "k", 5, true, ReplicaTypeMemory), 0)
	if o, _, err := c.Peek("k", nil); err != nil || !o.HasChecksum || o.Checksum != 5 {
		t.Errorf("%+v %v", o, err)
	}
	if _, err := c.UpsertStart(4, bob, "k", 1, one(), nil); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "upsert revoke by the first writer", c.UpsertRevoke(4, alice, "k", ReplicaTypeAll), ErrIllegalClient)
	wantErr(t, "upsert revoke", c.UpsertRevoke(4, bob, "k", ReplicaTypeAll), 0)
}

func TestErrorsHaveTexts(t *testing.T) {
	for e := ErrInvalidParams; e <= ErrInternal; e++ {
		if text := e.Error(); text == "" || text == Error(0).Error() {
			t.Errorf("error %d says %q", e, text)
		}
	}
	if Error(200).Error() != Error(0).Error() {
		t.Error("errors that are none have one text")
	}
}

// TestReadsTakeNoMemory holds the read path to its budget.
func TestReadsTakeNoMemory(t *testing.T) {
	c := twoOfAName(t)
	store(t, c, 2, "k", &PutOptions{Replicas: 2, Group: "g"})
	buf := make([]Replica, 0, 4)
	for what, read := range map[string]func(){
		"Get":   func() { _, _, _ = c.Get(3, "k", buf) },
		"Exist": func() { c.Exist(3, "k") },
		"Peek":  func() { _, _, _ = c.Peek("none", buf) },
	} {
		if n := testing.AllocsPerRun(100, read); n != 0 {
			t.Errorf("%s takes %v allocations", what, n)
		}
	}
}

// TestMassRemovalGivesMemoryBack fills and empties a catalog.
func TestMassRemovalGivesMemoryBack(t *testing.T) {
	c := newTest(t, testConfig())
	if err := c.MountSegment(1, alice, segmentNo(1, 1<<30)); err != nil {
		t.Fatal(err)
	}
	const n = 20_000
	for i := range n {
		store(t, c, 2, strings.Repeat("x", 900)+string(rune('0'+i%10))+strings.Repeat("y", i/10%7)+UUID{1, uint64(i)}.String(), one())
	}
	full := c.Stats()
	if got := c.RemoveMatching(3, nil, false); got != n {
		t.Errorf("removed %d", got)
	}
	if st := c.Stats(); st.Keys != 0 || st.AllocatedBytes != 0 || st.ArenaBytes > limits.CatalogSpareSpans*spanBytes || st.ArenaBytes >= full.ArenaBytes {
		t.Errorf("before %+v, after %+v", full, st)
	}
	if seg := c.Segments()[0]; seg.LargestFree != seg.Size || seg.ObjectCount != 0 {
		t.Errorf("%+v", seg)
	}
}
