package replication

import (
	"os"
	"path/filepath"
	"testing"
)

// TestInspectNothing has nothing to tell of a folder without a journal, and does not make one.
func TestInspectNothing(t *testing.T) {
	dir := t.TempDir()
	if in, err := Inspect(dir); err == nil {
		t.Errorf("%+v", in)
	}
	if in, err := Inspect(filepath.Join(dir, "none")); err == nil {
		t.Errorf("%+v", in)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// TestInspect reads a directory while it is in use, and once more when it is not.
func TestInspect(t *testing.T) {
	dir := t.TempDir()
	m := open(t, Config{Dir: dir, FileBytes: 1 << 16, SnapshotBytes: 1 << 14})
	m.mount(1, 40_000)
	for range 1500 {
		m.step()
	}
	last := m.settle()
	m.awaitSnapshot()
	want := m.cat.Stats()
	check := func(when string) {
		in, err := Inspect(dir)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		snapshots, used := 0, 0
		for _, f := range in.Files {
			if f.Snapshot {
				snapshots++
			}
			if f.Used {
				used++
			}
		}
		if in.Last < last || in.Stats.CapacityBytes != want.CapacityBytes || in.Stats.Keys == 0 || len(in.Segments) != 1 || len(in.Damaged) != 0 || snapshots == 0 || used < 2 || in.Identity == 0 {
			t.Errorf("%s: last %d of %d, %d keys, %d segments, %d snapshots, %d files count: %+v", when, in.Last, last, in.Stats.Keys, len(in.Segments), snapshots, used, in.Files)
		}
	}
	check("in use")
	m.close()
	check("at rest")
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	check("once more")
	if again, err := os.ReadDir(dir); err != nil || len(again) != len(files) {
		t.Errorf("%d files, %d before: %v", len(again), len(files), err)
	}
}
