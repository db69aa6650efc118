package catalog

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// sumBed is a catalog with segments of some hosts.
func sumBed(t testing.TB, hosts int, size uint64) *replayed {
	t.Helper()
	cfg := testConfig()
	cfg.Sums = true
	c := newTest(t, cfg)
	for i := range hosts {
		seg := segmentNo(uint64(i), size)
		seg.Name, seg.Endpoint = fmt.Sprintf("h%d:1", i), fmt.Sprintf("127.0.0.%d:1", i+1)
		if err := c.MountSegment(0, UUID{7, uint64(i)}, seg); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func putDone(t testing.TB, c *replayed, now Time, key string, size uint64, o *PutOptions) {
	t.Helper()
	if _, err := c.PutStart(now, bob, key, size, o, nil); err != nil {
		t.Fatal(key, err)
	}
	if err := c.PutEnd(now, bob, key, 0, false, ReplicaTypeAll); err != nil {
		t.Fatal(key, err)
	}
}

// found has the same sum found for each task.
func found(tasks []SumTask, sum uint32, sure bool) (out []SumResult) {
	for _, t := range tasks {
		out = append(out, SumResult{t, sum, sure})
	}
	return out
}

func wantVerdicts(t *testing.T, what string, got []SumVerdict, want ...SumVerdict) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// TestLooksAtOneCopy asks for one replica while others, and it, are looked at: only its own earlier look counts for nothing.
func TestLooksAtOneCopy(t *testing.T) {
	c := sumBed(t, 2, 1000)
	putDone(t, c, 1, "k", 100, &PutOptions{Replicas: 2})
	both := c.SumTasks("k", nil)
	again, ok := c.SumTaskOf("k", both[1].Replica)
	if !ok || again.Replica != both[1].Replica || again.Segment != both[1].Segment || again.Size != 100 {
		t.Fatalf("%+v", again)
	}
	for _, replica := range []uint64{0, both[1].Replica + 1000} {
		if task, ok := c.SumTaskOf("k", replica); ok {
			t.Errorf("replica %d is %+v", replica, task)
		}
	}
	if _, ok := c.SumTaskOf("nobody", both[0].Replica); ok {
		t.Error("a copy of another object")
	}
	wantVerdicts(t, "both", c.SumsFound(2, found(both, 5, false), nil), SumKept, SumStale)
	wantVerdicts(t, "the later look", c.SumsFound(2, found([]SumTask{again}, 5, false), nil), SumRight)
}

// TestSums follows an object with two copies: its sum is kept, a copy that differs goes for good, and the other is left.
func TestSums(t *testing.T) {
	c := sumBed(t, 2, 1000)
	putDone(t, c, 1, "k", 100, &PutOptions{Replicas: 2})
	keys, missed := c.TakeUnsummed(nil)
	if fmt.Sprint(keys, missed) != "[k] false" {
		t.Fatal(keys, missed)
	}
	tasks := c.SumTasks("k", nil)
	wantVerdicts(t, "first look", c.SumsFound(2, found(tasks, 77, false), nil), SumKept, SumRight)
	if o, _, err := c.Get(3, "k", nil); err != nil || !o.HasSum || o.Sum != 77 {
		t.Fatalf("%+v %v", o, err)
	}
	sign := c.HealSign()
	bad := c.SumTasks("k", nil)[:1]
	wantVerdicts(t, "another sum", c.SumsFound(4, found(bad, 78, false), nil), SumWrong)
	if _, got, _ := c.Peek("k", nil); len(got) != 2 {
		t.Fatal("a copy went before it was looked at again", got)
	}
	bad = c.SumTasks("k", nil)[:1]
	wantVerdicts(t, "again", c.SumsFound(5, found(bad, 78, true), nil), SumCondemned)
	o, got, err := c.Get(6, "k", nil)
	if err != nil || len(got) != 1 || got[0].ID == bad[0].Replica || o.Sum != 77 {
		t.Fatal(o, got, err)
	}
	thin, _, isThin := c.ThinCopies("k", nil)
	if !isThin || thin.Copies != 1 || c.HealSign() == sign {
		t.Fatalf("it is not to be healed: %+v", thin)
	}
	want := []CorruptRange{{"k", bad[0].Segment.ID, bad[0].Offset, 100, 5}}
	if list := c.CorruptRanges(); !slices.Equal(list, want) {
		t.Fatal(list)
	}
	if st := c.Stats(); st.CorruptBytes != 100 || st.CorruptRanges != 1 || st.CorruptCopies != 1 || st.CorruptObjects != 0 || st.QuarantinedBytes != 100 {
		t.Fatalf("%+v", st)
	}
	c.Sweep(25_000)
	if len(c.CorruptRanges()) != 1 {
		t.Fatal("time ended the quarantine")
	}
	if n := c.ReleaseCorrupt(25_001, UUID{9, 9}); n != 0 {
		t.Fatal("released on another segment", n)
	}
	if n := c.ReleaseCorrupt(25_001, bad[0].Segment.ID); n != 1 || len(c.CorruptRanges()) != 0 {
		t.Fatal("not released", n)
	}
}

// TestLastCopyIsWrong has one copy only: the object is absent afterwards, its key can be put again, elsewhere.
func TestLastCopyIsWrong(t *testing.T) {
	c := sumBed(t, 1, 300)
	putDone(t, c, 1, "k", 100, one())
	wantVerdicts(t, "first", c.SumsFound(2, found(c.SumTasks("k", nil), 1, false), nil), SumKept)
	first := c.SumTasks("k", nil)
	wantVerdicts(t, "wrong", c.SumsFound(3, found(first, 2, true), nil), SumLost)
	_, _, err := c.Get(4, "k", nil)
	wantErr(t, "get", err, ErrObjectNotFound)
	if c.Exist(4, "k") {
		t.Fatal("it exists")
	}
	if st := c.Stats(); st.CorruptObjects != 1 || st.Keys != 0 {
		t.Fatalf("%+v", st)
	}
	for i := range 2 {
		replicas, err := c.PutStart(5, bob, fmt.Sprint("new", i), 100, one(), nil)
		if err != nil || replicas[0].Offset == first[0].Offset {
			t.Fatal(replicas, err)
		}
	}
	_, err = c.PutStart(5, bob, "more", 100, one(), nil)
	wantErr(t, "put where only the corrupt range is left", err, ErrNoSpace)
}

// TestLateSums brings sums of what is not there any more.
func TestLateSums(t *testing.T) {
	for _, play := range []struct {
		name string
		do   func(t *testing.T, c *replayed)
	}{
		{"removed", func(t *testing.T, c *replayed) { wantErr(t, "remove", c.Remove(2, "k", true), 0) }},
		{"removed and put again", func(t *testing.T, c *replayed) {
			wantErr(t, "remove", c.Remove(2, "k", true), 0)
			putDone(t, c, 3, "k", 100, one())
		}},
		{"written over in place", func(t *testing.T, c *replayed) {
			if _, err := c.UpsertStart(2, bob, "k", 100, one(), nil); err != nil {
				t.Fatal(err)
			}
			wantErr(t, "end", c.UpsertEnd(2, bob, "k", 0, false, ReplicaTypeAll), 0)
		}},
		{"being written over in place", func(t *testing.T, c *replayed) {
			if _, err := c.UpsertStart(2, bob, "k", 100, one(), nil); err != nil {
				t.Fatal(err)
			}
		}},
		{"the segment went", func(t *testing.T, c *replayed) {
			_, err := c.UnmountSegment(2, segmentNo(0, 0).ID, UUID{7, 0})
			wantErr(t, "unmount", err, 0)
		}},
		{"asked again", func(_ *testing.T, c *replayed) { c.SumTasks("k", nil) }},
		{"given up", func(_ *testing.T, c *replayed) { c.DropSums(c.SumTasks("k", nil)) }},
	} {
		t.Run(play.name, func(t *testing.T) {
			c := sumBed(t, 1, 100)
			putDone(t, c, 1, "k", 100, one())
			wantVerdicts(t, "kept", c.SumsFound(1, found(c.SumTasks("k", nil), 5, false), nil), SumKept)
			late := c.SumTasks("k", nil)
			play.do(t, c)
			wantVerdicts(t, "late", c.SumsFound(4, found(late, 6, true), nil), SumStale)
			if o, _, err := c.Peek("k", nil); err == nil && o.HasSum && o.Sum != 5 {
				t.Fatalf("%+v", o)
			}
		})
	}
}

// TestNewValueHasNoSum writes an object anew, beside the old value and over it.
func TestNewValueHasNoSum(t *testing.T) {
	for _, room := range []uint64{100, 200} {
		c := sumBed(t, 1, room)
		putDone(t, c, 1, "k", 100, one())
		wantVerdicts(t, "kept", c.SumsFound(1, found(c.SumTasks("k", nil), 5, false), nil), SumKept)
		if _, err := c.UpsertStart(2, bob, "k", 100, one(), nil); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "end", c.UpsertEnd(3, bob, "k", 0, false, ReplicaTypeAll), 0)
		if o, _, err := c.Peek("k", nil); err != nil || o.HasSum {
			t.Fatalf("with room for %d: %+v %v", room, o, err)
		}
		if keys, _ := c.TakeUnsummed(nil); fmt.Sprint(keys) != "[k k]" {
			t.Fatal(keys)
		}
	}
}

// TestSumWalk walks through what lies with one client.
func TestSumWalk(t *testing.T) {
	c := sumBed(t, 2, 10_000)
	for i := range 40 {
		putDone(t, c, 1, fmt.Sprintf("k%02d", i), 100, &PutOptions{Replicas: uint64(1 + i%2)})
	}
	walk := func(client UUID, missing bool) (tasks []SumTask) {
		var w SumWalk
		for more := true; more; {
			had := len(tasks)
			if tasks, more = c.SumSlice(&w, client, missing, 250, tasks); len(tasks)-had > 3 {
				t.Fatalf("%d tasks at once", len(tasks)-had)
			}
		}
		return tasks
	}
	a, b := walk(UUID{7, 0}, false), walk(UUID{7, 1}, false)
	if len(a)+len(b) != 60 || len(walk(UUID{7, 2}, false)) != 0 {
		t.Fatal(len(a), len(b))
	}
	for _, v := range c.SumsFound(2, found(a, 3, false), nil) {
		if v != SumKept {
			t.Fatal(v)
		}
	}
	if left := walk(UUID{7, 0}, true); len(left) != 0 {
		t.Fatal(left)
	}
	for _, task := range walk(UUID{7, 1}, true) {
		if task.HasSum {
			t.Fatalf("%+v", task)
		}
	}
}

// TestCorruptSourceOfCopy condemns the replica that is being copied: what was copied does not join the object.
func TestCorruptSourceOfCopy(t *testing.T) {
	c := sumBed(t, 3, 1000)
	putDone(t, c, 1, "k", 100, &PutOptions{Replicas: 2, Preferred: []string{"h0:1", "h1:1"}})
	wantVerdicts(t, "kept", c.SumsFound(1, found(c.SumTasks("k", nil), 5, false), nil), SumKept, SumRight)
	tasks := c.SumTasks("k", nil)
	source := tasks[0]
	if _, _, err := c.CopyStart(2, alice, "k", source.Segment.Name, []string{"h2:1"}, nil); err != nil {
		t.Fatal(err)
	}
	wantVerdicts(t, "source", c.SumsFound(3, found(tasks[:1], 6, true), nil), SumCondemned)
	wantErr(t, "end", c.CopyEnd(4, alice, "k"), ErrNoReplicationTask)
	if _, got, err := c.Peek("k", nil); err != nil || len(got) != 1 || got[0].ID != tasks[1].Replica {
		t.Fatal(got, err)
	}
}

// sumWorld is memory with bytes in it, and daemons that are slow to read it.
type sumWorld struct {
	c       *replayed
	t       *rapid.T
	now     Time
	version uint32
	memory  map[rangeStart]uint32 // what lies there
	flipped map[rangeStart]bool   // not by a writer
	writing map[string][]Replica
	truth   map[string]uint32
	asked   []SumResult
	read    []bool
}

func (w *sumWorld) at(seg *SegmentInfo, offset uint64) rangeStart { return rangeStart{seg.ID, offset} }

// start begins to write a key, whatever was there.
func (w *sumWorld) start(key string, upsert bool) {
	o := &PutOptions{Replicas: uint64(rapid.IntRange(1, 2).Draw(w.t, "replicas"))}
	begin := w.c.PutStart
	if upsert {
		begin = w.c.UpsertStart
	}
	replicas, err := begin(w.now, bob, key, 100, o, nil)
	if err != nil {
		return
	}
	for _, r := range replicas {
		if slices.ContainsFunc(w.c.CorruptRanges(), func(b CorruptRange) bool { return b.Segment == r.Segment.ID && b.Offset == r.Offset }) {
			w.t.Fatalf("%s got the corrupt range at %d", key, r.Offset)
		}
	}
	w.writing[key] = replicas
	w.write(key)
}

// write puts new bytes into the ranges of a write under way.
func (w *sumWorld) write(key string) {
	w.version++
	for _, r := range w.writing[key] {
		at := w.at(r.Segment, r.Offset)
		w.memory[at] = w.version
		delete(w.flipped, at)
	}
}

func (w *sumWorld) end(key string) {
	replicas, ok := w.writing[key]
	if !ok {
		return
	}
	delete(w.writing, key)
	if w.c.PutEnd(w.now, bob, key, 0, false, ReplicaTypeAll) == nil {
		w.truth[key] = w.memory[w.at(replicas[0].Segment, replicas[0].Offset)]
	}
}

// flip changes the bytes of a copy whose object has a sum.
func (w *sumWorld) flip(key string) {
	o, replicas, err := w.c.Peek(key, nil)
	if _, writing := w.writing[key]; err != nil || !o.HasSum || writing {
		return
	}
	r := replicas[rapid.IntRange(0, len(replicas)-1).Draw(w.t, "copy")]
	w.version++
	w.memory[w.at(r.Segment, r.Offset)], w.flipped[w.at(r.Segment, r.Offset)] = w.version, true
}

func (w *sumWorld) ask(key string, sure bool) {
	for _, r := range found(w.c.SumTasks(key, nil), 0, sure) {
		w.asked, w.read = append(w.asked, r), append(w.read, false)
	}
}

// daemonReads lets a daemon look at what lies where it was told to look, whatever that is by now.
func (w *sumWorld) daemonReads(i int) {
	f := &w.asked[i]
	f.Found, w.read[i] = w.memory[w.at(f.Segment, f.Offset)], true
}

func (w *sumWorld) deliver(i int) {
	if !w.read[i] {
		w.daemonReads(i)
	}
	f := w.asked[i]
	w.asked, w.read = slices.Delete(w.asked, i, i+1), slices.Delete(w.read, i, i+1)
	at := w.at(f.Segment, f.Offset)
	switch v := w.c.SumsFound(w.now, []SumResult{f}, nil)[0]; v {
	case SumWrong:
		w.ask(f.Key, true)
		fallthrough
	case SumCondemned, SumLost:
		if !w.flipped[at] {
			w.t.Fatalf("%s: verdict %d on a replica that nobody changed", f.Key, v)
		}
	case SumRight:
		if f.Found != w.truth[f.Key] {
			w.t.Fatalf("%s: %d is called right, it is %d", f.Key, f.Found, w.truth[f.Key])
		}
	}
}

func (w *sumWorld) check() {
	for key := range w.truth {
		o, _, err := w.c.Peek(key, nil)
		if err == nil && o.HasSum && o.Sum != w.truth[key] {
			w.t.Fatalf("%s: the catalog has %d, the value's is %d", key, o.Sum, w.truth[key])
		}
	}
}

// TestSumsUnderRandomCalls writes, removes and damages objects while daemons find out sums late and in any order: no sum is
// another value's, and no replica is condemned that nobody damaged.
func TestSumsUnderRandomCalls(t *testing.T) {
	keys := []string{"a", "b", "c"}
	rapid.Check(t, func(rt *rapid.T) {
		w := &sumWorld{
			c: sumBed(t, 2, 400), t: rt, now: 1, memory: map[rangeStart]uint32{}, flipped: map[rangeStart]bool{},
			writing: map[string][]Replica{}, truth: map[string]uint32{},
		}
		defer func() { w.c.compare(); w.c.compareSnapshot() }()
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			w.now += Time(rapid.IntRange(0, 2).Draw(rt, "ms"))
			key := rapid.SampledFrom(keys).Draw(rt, "key")
			which := 0
			if len(w.asked) > 0 {
				which = rapid.IntRange(0, len(w.asked)-1).Draw(rt, "which")
			}
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				w.start(key, false)
			case 1:
				w.start(key, true)
			case 2, 3:
				w.end(key)
			case 4:
				if w.c.Remove(w.now, key, true) == nil {
					delete(w.writing, key)
				}
			case 5:
				w.ask(key, false)
			case 6:
				if len(w.asked) > 0 {
					w.daemonReads(which)
				}
			case 7:
				if len(w.asked) > 0 {
					w.deliver(which)
				}
			case 8:
				w.flip(key)
			case 9:
				w.now += 20_000
				w.c.Sweep(w.now)
			}
			w.check()
		}
	})
}
