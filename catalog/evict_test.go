package catalog

import (
	"fmt"
	"slices"
	"testing"

	"mooncake/internal/limits"
	"pgregory.net/rapid"
)

// TestVictimIsReadMeanwhile leases one member of a group after it was chosen: none of them may go, and all are seen.
func TestVictimIsReadMeanwhile(t *testing.T) {
	for _, group := range []string{"g", ""} {
		c := newTest(t, testConfig())
		if err := c.MountSegment(1, alice, segmentNo(1, 1000)); err != nil {
			t.Fatal(err)
		}
		keys := make([]string, 3)
		for i := range keys {
			keys[i] = fmt.Sprintf("p/%032x/buffer/%d", 1, i)
			store(t, c, 2, keys[i], &PutOptions{Replicas: 1, Group: group})
		}
		c.startVictims()
		c.addVictim(c.wholeOf(c.s.lookup(keys[0])))
		if len(c.placer.victims) != 3 {
			t.Fatalf("%d victims", len(c.placer.victims))
		}
		c.Exist(3, keys[1])
		if c.evict(3) {
			t.Error("a leased group was evicted")
		}
		for _, key := range keys {
			if _, _, err := c.Peek(key, nil); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}

// TestLargeGroupGoesAtOnce evicts a group of more members than decisions mostly have: one decision takes all of them, and what that
// needed is not kept.
func TestLargeGroupGoesAtOnce(t *testing.T) {
	const members = limits.CatalogChangesKept + 100
	cfg := testConfig()
	cfg.HighWatermark, cfg.EvictionRatio = 0.9, 0.1
	c := newTest(t, cfg)
	if err := c.MountSegment(1, alice, segmentNo(1, members*100+1000)); err != nil {
		t.Fatal(err)
	}
	putMany(t, c.Catalog, 2, "member", members, &PutOptions{Replicas: 1, Group: "g"})
	log, decisions := c.onChange, 0
	c.OnChange(func(changes []Change) {
		log(changes)
		decisions++
	})
	if out := c.Sweep(3); out.EvictedKeys != members || out.EvictedBytes != members*100 || decisions != 1 {
		t.Errorf("%d members went with %d bytes in %d decisions", out.EvictedKeys, out.EvictedBytes, decisions)
	}
	store(t, c, 4, "next", one())
	if most := cap(c.changes); most > limits.CatalogChangesKept {
		t.Errorf("memory for %d changes is kept", most)
	}
}

// TestAges moves nodes about and compares the walk with a sorted list.
func TestAges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newState()
		defer s.arena.freeAll()
		a := &ages{list: listAge}
		key := rapid.Custom(func(t *rapid.T) uint32 {
			return rapid.OneOf(rapid.Uint32Range(0, 5), rapid.Uint32Range(0, 500), rapid.Just(wall-1)).Draw(t, "bucket")
		})
		var all []name // what the walk must give: by bucket, then by share, then as they came
		cut := func(i int) name {
			n := all[i]
			all = slices.Delete(all, i, i+1)
			a.cut(s, n)
			return n
		}
		add := func(n name) {
			k := key.Draw(t, "key")
			s.node(n).share = rapid.SampledFrom([]uint8{0, 2, 1}).Draw(t, "share")
			a.add(s, n, k)
			at := 0
			for at < len(all) && (s.node(all[at]).bucket < k || s.node(all[at]).bucket == k && s.node(all[at]).share <= s.node(n).share) {
				at++
			}
			all = slices.Insert(all, at, n)
		}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 3).Draw(t, "what"); {
			case what > 1 || len(all) == 0:
				add(s.arena.alloc(kindRecord, recordBytes))
			case what == 0:
				cut(rapid.IntRange(0, len(all)-1).Draw(t, "at"))
			default:
				add(cut(rapid.IntRange(0, len(all)-1).Draw(t, "at")))
			}
		}
		for i := range a.parts {
			if rapid.Bool().Draw(t, "tidy") {
				a.parts[i].tidy()
			}
		}
		if a.count != len(all) {
			t.Fatalf("%d of %d", a.count, len(all))
		}
		last := key.Draw(t, "last")
		w := new(order).walk(a, Time(last)*limits.AgeBucketMs)
		for _, want := range all {
			if s.node(want).bucket > last {
				break
			}
			if got := w.step(s); got != want {
				t.Fatalf("walk gives %d instead of %d", got, want)
			}
		}
		if n := w.step(s); n != 0 {
			t.Fatalf("walk goes on to %d", n)
		}
	})
}

// TestTimesBeyondTheLast has a clock that shows more than the ages can tell apart. Then they give no order any more, but what
// is leased stays and is not in the way, and a sweep comes to its end.
func TestTimesBeyondTheLast(t *testing.T) {
	for _, now := range []Time{TimeMax - 1000, TimeMax, TimeMax + 1, 1_796_000_000_000, 1 << 55} {
		cfg := testConfig()
		cfg.HighWatermark, cfg.EvictionRatio = 0.5, 0.1
		c := newTest(t, cfg)
		store := func(key, segment string, size uint64) {
			t.Helper()
			if _, err := c.PutStart(now, bob, key, size, &PutOptions{Replicas: 1, Preferred: []string{segment}}, nil); err != nil {
				t.Fatalf("at %d: put of %s: %v", now, key, err)
			}
			wantErr(t, "end", c.PutEnd(now, bob, key, 0, false, ReplicaTypeAll), 0)
		}
		silent, kept := segmentNo(1, 1000), segmentNo(2, 1000)
		silent.Name, silent.Endpoint, kept.Name = "silent", "elsewhere:1", "kept"
		wantErr(t, "mount", c.MountSegment(now, alice, silent), 0)
		store("hidden", "silent", 100)
		store("too", "silent", 100)
		for range 13 {
			c.Sweep(now)
			now += 1000
		}
		wantErr(t, "mount", c.MountSegment(now, bob, kept), 0)
		for _, key := range []string{"leased", "free", "late"} {
			store(key, "kept", 300)
		}
		for _, key := range []string{"leased", "late"} {
			if _, _, err := c.Get(now, key, nil); err != nil {
				t.Fatal(err)
			}
		}
		store("new", "kept", 300)
		if c.Exist(now, "free") || !c.Exist(now, "leased") || !c.Exist(now, "late") {
			t.Errorf("at %d the wrong object went", now)
		}
		c.Exist(now, "new")
		c.Sweep(now)
		c.Sweep(now + 100)
		if st := c.Stats(); st.AllocatedBytes != 1100 {
			t.Errorf("at %d: %+v", now, st)
		}
	}
}
