package replication

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestFigures writes, makes a snapshot, and damages what follows: the figures tell all of it, over a restart as well.
func TestFigures(t *testing.T) {
	dir := t.TempDir()
	began := time.Now().Add(-time.Second)
	m := open(t, Config{Dir: dir, Sync: SyncAlways, FileBytes: 1 << 16, SnapshotBytes: 1 << 14})
	m.mount(1, 40_000)
	for range 400 {
		m.step()
		m.settle()
	}
	m.awaitSnapshot()
	f := m.journal.Figures()
	if f.Records < 100 || f.Syncs < f.Records || f.SyncTime <= 0 || f.Snapshots == 0 || f.SnapshotAt.Before(began) || f.DiskBytes < 1<<16 {
		t.Errorf("%+v", f)
	}
	if f.DamagedBlocks+f.LostRecords != 0 || len(f.Dropped) != 0 {
		t.Errorf("damage where there is none: %+v", f)
	}
	m.close()

	m = open(t, Config{Dir: dir, FileBytes: 1 << 20, SnapshotBytes: 1 << 30})
	if got := m.journal.Figures(); got.SnapshotAt.UnixMilli() != m.journal.snapshot.made.Load() || got.SnapshotAt.Before(began) || got.SnapshotBytes == 0 {
		t.Errorf("after a restart: %+v", got)
	}
	m.close()
}

// TestFiguresOfDamage hurts a record in the middle of a journal that has no snapshot.
func TestFiguresOfDamage(t *testing.T) {
	dir := t.TempDir()
	m := open(t, Config{Dir: dir, FileBytes: 1 << 20})
	m.mount(1, 20_000)
	m.settle()
	for range 1500 {
		m.step()
		m.settle()
	}
	m.close()
	if f := m.journal.Figures(); !f.SnapshotAt.IsZero() {
		t.Errorf("a snapshot that nobody made: %+v", f)
	}
	path := journalFiles(t, dir)[0]
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found, err := scan(path, text, m.journal.identity, func(*header, []byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	dropped := uint64(0)
	for i := range int64(8) {
		other := copyDir(t, dir)
		hurt := append([]byte(nil), text...)
		at := fileHeaderBytes + 2000 + i*(found.end-20_000)/8
		for b := at; b < at+4096; b++ {
			hurt[b] ^= 0xa5
		}
		if err := os.WriteFile(filepath.Join(other, filepath.Base(path)), hurt, 0o600); err != nil {
			t.Fatal(err)
		}
		again := open(t, Config{Dir: other})
		f := again.journal.Figures()
		if f.DamagedBlocks != 1 || f.DamagedBytes < 4096 || f.LostRecords == 0 || f.LostRecords != again.history.Lost {
			t.Errorf("at %d: %+v", at, f)
		}
		sum := uint64(0)
		for _, reason := range DropReasons {
			sum += f.Dropped[reason]
		}
		if sum != uint64(len(again.history.Dropped)) {
			t.Errorf("at %d: %d objects dropped, the reasons add up to %d", at, len(again.history.Dropped), sum)
		}
		dropped += sum
		again.close()
		third := open(t, Config{Dir: other})
		if f := third.journal.Figures(); f.DamagedBlocks+f.LostRecords != 0 || f.SnapshotAt.IsZero() {
			t.Errorf("after the repair: %+v", f)
		}
		third.close()
	}
	if dropped == 0 {
		t.Error("no damage cost any object: the reasons were not tested")
	}
}
