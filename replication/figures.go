package replication

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// Why damage takes an object away.
const (
	// DroppedGranted: a record that is lost may have given its bytes to a writer.
	DroppedGranted = "range_granted"
	// DroppedTaken: a later record gave its bytes to another object, and the record of its removal is lost.
	DroppedTaken = "range_taken"
	// DroppedOverlap: the same, and no record is lost: something else is wrong with the history.
	DroppedOverlap = "range_overlap"
)

// DropReasons are all of them.
var DropReasons = []string{DroppedGranted, DroppedTaken, DroppedOverlap}

// fileCounters are the figures of a journal that a Term does not have.
type fileCounters struct {
	syncs, syncNanos atomic.Uint64
	// What the opening found; they do not change afterwards.
	damaged, damagedBytes, lost uint64
	dropped                     map[string]uint64
}

func (c *fileCounters) synced(took time.Duration) {
	c.syncs.Add(1)
	c.syncNanos.Add(uint64(took))
}

// Figures are what an operator wants to know of a journal.
type Figures struct {
	Stats
	Syncs    uint64 // how often the disk was asked to keep what was written
	SyncTime time.Duration
	// SnapshotAt is when the newest snapshot was made; zero when there is none.
	SnapshotAt time.Time
	DiskBytes  uint64 // of all files of the directory, those put aside included
	// What the opening of this journal found: stretches that cannot be read, records that are lost with them, and objects
	// that had to be dropped, by reason.
	DamagedBlocks, DamagedBytes, LostRecords uint64
	Dropped                                  map[string]uint64
}

// Figures returns the present figures.
func (j *Journal) Figures() Figures {
	c := &j.files
	f := Figures{
		Stats: j.Stats(), Syncs: c.syncs.Load(), SyncTime: time.Duration(c.syncNanos.Load()), DiskBytes: diskBytes(j.cfg.Dir),
		DamagedBlocks: c.damaged, DamagedBytes: c.damagedBytes, LostRecords: c.lost, Dropped: c.dropped,
	}
	if ms := j.snapshot.made.Load(); ms > 0 {
		f.SnapshotAt = time.UnixMilli(ms)
	}
	return f
}

// diskBytes adds up what the files of a directory take on disk. A file that goes meanwhile counts nothing.
func diskBytes(dir string) (sum uint64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		info, err := os.Lstat(filepath.Join(dir, e.Name()))
		if err != nil || info.Mode()&fs.ModeType != 0 {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			sum += uint64(st.Blocks) * 512 // in which stat counts, whatever the file system's block
		}
	}
	return sum
}
