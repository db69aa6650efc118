package catalog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"mooncake/bundle"
	"mooncake/internal/limits"
)

// storeBundle publishes a bundle with payload of the given number of keys.
func storeBundle(t *testing.T, c *replayed, now Time, id string, payload int, group string) {
	t.Helper()
	o := &PutOptions{Replicas: 1, Group: group}
	keys := []string{id + "/meta"}
	for i := range payload {
		keys = append(keys, fmt.Sprintf("%s/buffer/m/chunk/%d", id, i))
	}
	for _, key := range append(keys, id+"/manifest") {
		if _, err := c.PutStart(now, bob, key, 10, o, nil); err != nil {
			t.Fatalf("%q: %v", key, err)
		}
		if err := c.PutEnd(now, bob, key, 0, false, ReplicaTypeAll); err != nil {
			t.Fatalf("%q: %v", key, err)
		}
	}
}

func bundleNo(n int) string { return fmt.Sprintf("p/d/%032d", n) }

func TestReclaimOrder(t *testing.T) {
	c := newTest(t, testConfig())
	if err := c.MountSegment(1, alice, segmentNo(1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	payload := 3*limits.CatalogSliceItems + 1
	storeBundle(t, c, 1, bundleNo(1), payload, "g")
	var parts []bundle.Part
	log := c.onChange
	c.OnChange(func(changes []Change) {
		log(changes)
		for i := range changes {
			_, part := bundle.Parse(changes[i].Key)
			parts = append(parts, part)
		}
		if len(changes) > limits.CatalogSliceItems {
			t.Errorf("%d removals in one slice", len(changes))
		}
	})
	if info, err := c.ReclaimBundle(2, bundleNo(1)); err != nil || info.State != BundleReclaimed {
		t.Fatalf("%+v, %v", info, err)
	}
	if len(parts) != payload+2 || parts[payload] != bundle.Meta || parts[payload+1] != bundle.Manifest {
		t.Errorf("%d removals, the last %v", len(parts), parts[max(0, len(parts)-2):])
	}
	if st := c.Stats(); st.AllocatedBytes != 0 || st.Keys != 0 {
		t.Errorf("after the reclaim: %+v", st)
	}
}

func TestTombstones(t *testing.T) {
	c := newTest(t, testConfig())
	if err := c.MountSegment(1, alice, segmentNo(1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	begin := func(now Time, id string) {
		t.Helper()
		if _, err := c.PutStart(now, bob, id+"/meta", 10, one(), nil); err != nil {
			t.Fatal(err)
		}
		if err := c.PutRevoke(now, bob, id+"/meta", ReplicaTypeAll); err != nil {
			t.Fatal(err)
		}
	}
	for i := range limits.BundleTombstones + 10 {
		begin(Time(i+1), bundleNo(i))
	}
	if n := c.s.ended.count; n != limits.BundleTombstones {
		t.Errorf("%d bundles are remembered, %d is the bound", n, limits.BundleTombstones)
	}
	if _, _, ok := c.Bundle(20_000, bundleNo(9)); ok {
		t.Error("the oldest ones are remembered")
	}
	if info, _, ok := c.Bundle(20_000, bundleNo(10)); !ok || info.State != BundleAborted {
		t.Errorf("the others are not: %+v", info)
	}
	long := strings.Repeat("p", limits.BundleTextBytes) + "/d/" + bundleNo(1)[4:]
	begin(20_000, long)
	if _, _, ok := c.Bundle(20_000, long); ok {
		t.Error("a bundle with a name of a client's imagination is remembered")
	}
	later := Time(20_000 + limits.BundleTombstoneMs + 1)
	begin(later, bundleNo(1))
	if n := c.s.ended.count; n != 1 {
		t.Errorf("after their time %d are remembered", n)
	}
}

// TestManyFirstReads reads more bundles between two sweeps than are told of one by one.
func TestManyFirstReads(t *testing.T) {
	c := newTest(t, testConfig())
	if err := c.MountSegment(1, alice, segmentNo(1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	n := limits.BundleNews + 50
	for i := range n {
		storeBundle(t, c, 1, bundleNo(i), 1, "")
	}
	for i := range n {
		if _, _, err := c.Get(2, bundleNo(i)+"/manifest", nil); err != nil {
			t.Fatal(err)
		}
	}
	news := c.Sweep(3).Bundles
	if len(news.Published) != limits.BundleNews || len(news.HandedOff) != limits.BundleNews {
		t.Errorf("told of %d publications and %d first reads", len(news.Published), len(news.HandedOff))
	}
	if c.s.unread.count != 0 || c.s.ages.count != n {
		t.Errorf("%d bundles count as unread", c.s.unread.count)
	}
}

// TestStandstill lets this process stand still: nobody could write to it, so nothing is idle for that.
func TestStandstill(t *testing.T) {
	c := newTest(t, testConfig())
	if err := c.MountSegment(1, alice, segmentNo(1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	put := func(now Time, key string) {
		t.Helper()
		if _, err := c.PutStart(now, bob, key, 10, one(), nil); err != nil {
			t.Fatal(err)
		}
		if err := c.PutEnd(now, bob, key, 0, false, ReplicaTypeAll); err != nil {
			t.Fatal(err)
		}
	}
	put(1000, bundleNo(1)+"/meta")
	c.Sweep(1000)
	if got := c.Sweep(200_000).Bundles.Collected; len(got) != 0 {
		t.Errorf("collected %+v", got)
	}
	put(200_001, bundleNo(1)+"/manifest")
	put(200_001, bundleNo(2)+"/meta")
	for now := Time(201_000); now < 320_000; now += 1000 {
		if got := c.Sweep(now).Bundles.Collected; len(got) != 0 {
			t.Errorf("at %d: collected %+v", now, got)
		}
	}
	if got := c.Sweep(320_001).Bundles.Collected; len(got) != 1 || got[0].ID != bundleNo(2) {
		t.Errorf("collected %+v", got)
	}
}

// TestWriterOfReclaimedBundle: who was writing hears of it for as long as it is remembered.
func TestWriterOfReclaimedBundle(t *testing.T) {
	c := newTest(t, testConfig())
	if err := c.MountSegment(1, alice, segmentNo(1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	key := bundleNo(1) + "/meta"
	start := func(now Time, by UUID) error {
		_, err := c.PutStart(now, by, key, 10, one(), nil)
		return err
	}
	if err := start(1, bob); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReclaimBundle(2, bundleNo(1)); err != nil {
		t.Fatal(err)
	}
	if err := start(3, bob); !errors.Is(err, ErrUnavailableStatus) {
		t.Errorf("the writer goes on: %v", err)
	}
	if n := c.Stats().Bundles.LateWrites; n != 1 {
		t.Errorf("%d late writes are counted", n)
	}
	if err := start(2+limits.BundleTombstoneMs+1, bob); err != nil {
		t.Errorf("after it was forgotten: %v", err)
	}
	if _, err := c.ReclaimBundle(3, "p/d/unknown"); !errors.Is(err, ErrObjectNotFound) {
		t.Errorf("a bundle that never was: %v", err)
	}
}

// TestBundleMemory bounds what a member of a bundle of usual size costs beside its own record.
func TestBundleMemory(t *testing.T) {
	const members = 26
	id := "miles-object-store/default/0123456789abcdef0123456789abcdef/"
	own := int(slotBytes[classOf(bundleBytes+len(id))]) / members
	links := 16 // in the record: bundle, neighbours, part
	if own+links > 64 {
		t.Errorf("a member costs %d bytes", own+links)
	}
}

// TestWindowRanks keeps apart, for windows over several objects, what goes first: by list, then by age.
func TestWindowRanks(t *testing.T) {
	c := New(testConfig())
	defer c.Close()
	now := bucketOf(int64(present))
	o := c.order(0, 0)
	last := uint32(0)
	for _, list := range victimLists {
		for _, age := range []uint32{0, now - 10_000, now - 1, now} {
			rank := c.rank(o, 0, list, age, now)
			if rank <= last && (list != listSpent || age != 0) || rank == wall {
				t.Errorf("list %d, age %d: rank %d after %d", list, age, rank, last)
			}
			last = rank
		}
	}
}

// TestRecentBundles lists those that something happened to last, and counts the others.
func TestRecentBundles(t *testing.T) {
	c := newTest(t, testConfig())
	if err := c.MountSegment(1, alice, segmentNo(1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	const n = 40
	for i := range n {
		storeBundle(t, c, Time(10+i*7%n), bundleNo(i), 1, "") // 7 and 40 have no common factor: each its own time
	}
	if _, err := c.ReclaimBundle(100, bundleNo(3)); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{0, 1, 5, 39, 40, 100} {
		list, more := c.RecentBundles(101, limit)
		if want := min(max(limit, 1), n); len(list) != want || more != n-want {
			t.Fatalf("limit %d: %d and %d more", limit, len(list), more)
		}
		if list[0].ID != bundleNo(3) || list[0].State != BundleReclaimed {
			t.Errorf("limit %d: first is %+v", limit, list[0])
		}
		for i := 2; i < len(list); i++ {
			if list[i].LastWrite >= list[i-1].LastWrite {
				t.Errorf("limit %d: %d is of %d, the one before of %d", limit, i, list[i].LastWrite, list[i-1].LastWrite)
			}
		}
	}
}

// TestMissMembers marks a bundle as damaged once its manifest is known to name what is not there, for good, and only as long as
// it is about the same manifest.
func TestMissMembers(t *testing.T) {
	c := newTest(t, testConfig())
	if err := c.MountSegment(1, alice, segmentNo(1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	copyOf := func(id string) uint64 {
		t.Helper()
		_, members, ok := c.Bundle(2, id)
		for _, m := range members {
			if ok && m.Part == bundle.Manifest {
				return m.Replicas[0].ID
			}
		}
		t.Fatalf("no manifest of %s", id)
		return 0
	}
	storeBundle(t, c, 1, bundleNo(1), 2, "g")
	storeBundle(t, c, 1, bundleNo(2), 2, "")
	first, second := copyOf(bundleNo(1)), copyOf(bundleNo(2))
	for _, call := range []struct {
		id      string
		copy    uint64
		missing int
		want    bool
	}{
		{bundleNo(9), first, 1, false},
		{bundleNo(1), second, 1, false},
		{bundleNo(1), first, 0, false},
		{bundleNo(1), first, 3, true},
		{bundleNo(1), first, 3, false}, // it is known
	} {
		if got := c.MissMembers(2, call.id, call.copy, call.missing); got != call.want {
			t.Errorf("%+v: %t", call, got)
		}
	}
	if info, _, _ := c.Bundle(2, bundleNo(1)); info.State != BundleDamaged || info.LostKeys != 3 || info.Keys != 4 {
		t.Errorf("%+v", info)
	}
	if info, _, _ := c.Bundle(2, bundleNo(2)); info.State != BundlePublished {
		t.Errorf("%+v", info)
	}
	if _, err := c.ReclaimBundle(3, bundleNo(2)); err != nil {
		t.Fatal(err)
	}
	if c.MissMembers(4, bundleNo(2), second, 1) {
		t.Error("a bundle that is gone was found damaged")
	}
	if info, err := c.ReclaimBundle(5, bundleNo(1)); err != nil || info.AllocatedBytes != 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

// TestTornManifestIsWrittenOver writes over the manifest of a bundle that lost members, in place: it is marked again at the end, and
// a snapshot in between tells the same.
func TestTornManifestIsWrittenOver(t *testing.T) {
	cfg := testConfig()
	cfg.HideDamagedBundles = true
	c := newTest(t, cfg)
	const prefix = "p/00000000000000000000000000000001/"
	segments := []Segment{segmentNo(1, 1000), segmentNo(2, 100)}
	for i, key := range []string{"meta", "manifest"} {
		segments[i].Name, segments[i].Endpoint = key, key+":1"
		if err := c.MountSegment(1, alice, segments[i]); err != nil {
			t.Fatal(err)
		}
		store(t, c, 2, prefix+key, &PutOptions{Replicas: 1, Preferred: []string{key}})
	}
	if _, err := c.UnmountSegment(3, segments[0].ID, alice); err != nil {
		t.Fatal(err)
	}
	hidden := func() {
		t.Helper()
		if _, _, err := c.Get(4, prefix+"manifest", nil); err != ErrObjectNotFound {
			t.Errorf("the manifest of what lost members: %v", err)
		}
	}
	hidden()
	if _, err := c.UpsertStart(5, bob, prefix+"manifest", 100, one(), nil); err != nil {
		t.Fatal(err)
	}
	c.compare()
	c.compareSnapshot()
	wantErr(t, "end", c.UpsertEnd(6, bob, prefix+"manifest", 0, false, ReplicaTypeAll), 0)
	hidden()
}
