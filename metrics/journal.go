package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Journal are the figures of the files in which a master keeps its decisions.
type Journal struct {
	Records, Bytes uint64 // written
	WriteMicros    uint64 // that writing took, syncs included
	Syncs          uint64
	SyncMicros     uint64
	Snapshots      uint64
	SnapshotErrors uint64
	SnapshotBytes  uint64    // of the newest
	SnapshotAt     time.Time // zero: there is none
	DiskBytes      uint64
	DamagedBlocks  uint64
	DamagedBytes   uint64
	LostRecords    uint64
	Failed         bool
	Dropped        []Drop
}

// Drop counts objects that damage of the journal took away, for one reason.
type Drop struct {
	Reason  string
	Objects uint64
}

// journalRows are the series that only a master with a journal has.
var journalRows = []struct {
	name, help string
	kind       kind
	value      func(j *Journal) float64
}{
	{"mooncake_go_journal_records_total", "Records written", counter, func(j *Journal) float64 { return float64(j.Records) }},
	{"mooncake_go_journal_bytes_total", "Bytes of records written", counter, func(j *Journal) float64 { return float64(j.Bytes) }},
	{"mooncake_go_journal_write_seconds_total", "Time that writing records took, syncs included", counter, func(j *Journal) float64 { return float64(j.WriteMicros) / 1e6 }},
	{"mooncake_go_journal_syncs_total", "Times that the disk was asked to keep what was written", counter, func(j *Journal) float64 { return float64(j.Syncs) }},
	{"mooncake_go_journal_sync_seconds_total", "Time that the disk took for it", counter, func(j *Journal) float64 { return float64(j.SyncMicros) / 1e6 }},
	{"mooncake_go_journal_snapshots_total", "Snapshots made", counter, func(j *Journal) float64 { return float64(j.Snapshots) }},
	{"mooncake_go_journal_snapshot_failures_total", "Snapshots that failed; the journal grows until one succeeds", counter, func(j *Journal) float64 { return float64(j.SnapshotErrors) }},
	{"mooncake_go_journal_snapshot_bytes", "Bytes of the newest snapshot; 0 when there is none", gauge, func(j *Journal) float64 { return float64(j.SnapshotBytes) }},
	{"mooncake_go_journal_disk_bytes", "What all files in the journal's directory take on disk", gauge, func(j *Journal) float64 { return float64(j.DiskBytes) }},
	{"mooncake_go_journal_failed", "1 when the journal cannot be written any more: nothing is acknowledged", gauge, func(j *Journal) float64 { return float64(flag(j.Failed)) }},
	{"mooncake_go_journal_damaged_blocks", "Stretches that could not be read at the last start", gauge, func(j *Journal) float64 { return float64(j.DamagedBlocks) }},
	{"mooncake_go_journal_damaged_bytes", "Bytes of these stretches", gauge, func(j *Journal) float64 { return float64(j.DamagedBytes) }},
	{"mooncake_go_journal_lost_records", "Records that were lost with them", gauge, func(j *Journal) float64 { return float64(j.LostRecords) }},
}

const (
	journalAge         = "mooncake_go_journal_snapshot_age_seconds"
	journalAgeHelp     = "Time since the newest snapshot was made; absent while there is none"
	journalDropped     = "mooncake_go_journal_dropped_objects"
	journalDroppedHelp = "Objects that were dropped at the last start because damage made their bytes doubtful"
)

// journalCollector renders the figures of a journal.
type journalCollector struct {
	rows         []*prometheus.Desc
	age, dropped *prometheus.Desc
	now          func() time.Time
}

func newJournalCollector() *journalCollector {
	c := &journalCollector{
		age: prometheus.NewDesc(journalAge, journalAgeHelp, nil, nil), now: time.Now,
		dropped: prometheus.NewDesc(journalDropped, journalDroppedHelp, []string{"reason"}, nil),
	}
	for _, r := range journalRows {
		c.rows = append(c.rows, prometheus.NewDesc(r.name, r.help, nil, nil))
	}
	return c
}

func (c *journalCollector) describe(out chan<- *prometheus.Desc) {
	for _, d := range c.rows {
		out <- d
	}
	out <- c.age
	out <- c.dropped
}

func (c *journalCollector) collect(j *Journal, out chan<- prometheus.Metric) {
	if j == nil {
		return
	}
	for i, r := range journalRows {
		out <- constantFloat(c.rows[i], r.kind, r.value(j))
	}
	if !j.SnapshotAt.IsZero() {
		out <- constant(c.age, gauge, uint64(max(0, c.now().Sub(j.SnapshotAt))/time.Second))
	}
	for _, d := range j.Dropped {
		out <- constant(c.dropped, gauge, d.Objects, d.Reason)
	}
}
