package replication

import (
	"sync/atomic"
	"time"
)

// counters are the figures behind Stats.
type counters struct {
	records, bytes, nanos, files, snapshots, snapshotErrors atomic.Uint64

	snapshotTimes [len(SnapshotBuckets) + 1]atomic.Uint64
	snapshotMs    atomic.Uint64
}

// SnapshotBuckets are the bounds of how long snapshots take, in milliseconds.
var SnapshotBuckets = [...]uint64{0, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 120_000, 180_000, 240_000, 300_000}

// SnapshotTimes says how long snapshots took: how many at most as long as each bound, one more count for all that took longer,
// and the sum of all.
type SnapshotTimes struct {
	Counts [len(SnapshotBuckets) + 1]uint64
	SumMs  uint64
}

// snapshotMade counts a snapshot.
func (c *counters) snapshotMade(took time.Duration) {
	ms, i := uint64(took.Milliseconds()), 0
	for i < len(SnapshotBuckets) && ms > SnapshotBuckets[i] {
		i++
	}
	c.snapshots.Add(1)
	c.snapshotTimes[i].Add(1)
	c.snapshotMs.Add(ms)
}

func (c *counters) times() (t SnapshotTimes) {
	for i := range c.snapshotTimes {
		t.Counts[i] = c.snapshotTimes[i].Load()
	}
	t.SumMs = c.snapshotMs.Load()
	return t
}

func (c *counters) wrote(bytes int, took time.Duration) {
	c.records.Add(1)
	c.bytes.Add(uint64(bytes))
	c.nanos.Add(uint64(took))
}

// Stats are the figures of a journal since it was opened.
type Stats struct {
	Last, Durable  uint64 // numbers of records
	Records, Bytes uint64 // written
	WriteTime      time.Duration
	Files          uint64 // begun
	Snapshots      uint64
	SnapshotErrors uint64
	SnapshotBytes  uint64 // of the newest
	SnapshotTimes  SnapshotTimes
	Unacked        uint64 // decisions that are not durable yet, or never will be
	Failed         bool
	Harm           Harm // of a Term; a Journal has it in its Figures
}

// Harm is what damage of a log took, as far as the history that was built from it.
type Harm struct {
	Values  uint64            // of etcd that could not be read as they should
	Records uint64            // lost with them
	Dropped map[string]uint64 // objects by reason, see DropReasons
}

// Stats returns the present figures.
func (j *Journal) Stats() Stats {
	c := &j.stats
	return Stats{
		Last: j.Last(), Durable: j.Durable(), Records: c.records.Load(), Bytes: c.bytes.Load(), WriteTime: time.Duration(c.nanos.Load()),
		Files: c.files.Load(), Snapshots: c.snapshots.Load(), SnapshotErrors: c.snapshotErrors.Load(),
		SnapshotBytes: uint64(j.snapshot.bytes.Load()), SnapshotTimes: c.times(), Unacked: j.undurable(), Failed: j.Err() != nil && j.Err() != errClosed,
	}
}
