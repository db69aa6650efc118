package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Series that published masters print and that move here only at times, or never: about several masters, snapshots, and what
// is not built. Dashboards and scripts that ask for them get an answer.

// Snapshots are the figures of snapshots since the start, or since this master leads.
type Snapshots struct {
	Made, Failed uint64
	Counts       [len(snapshotBuckets) + 1]uint64 // how many took at most so long as each bound; one more for the rest
	SumMs        uint64
}

// snapshotBuckets are the bounds of the histogram of snapshots, in milliseconds.
var snapshotBuckets = [...]uint64{0, 500, 1_000, 5_000, 10_000, 30_000, 60_000, 120_000, 180_000, 240_000, 300_000}

// publishedHA are the published series of a log that several masters share. Without other masters they are 0.
var publishedHA = []struct {
	name, help string
	kind       kind
	value      func(h *HA) uint64
}{
	{"ha_oplog_last_sequence_id", "Last record of the log that several masters share.", gauge, func(h *HA) uint64 { return h.Newest }},
	{"ha_oplog_applied_sequence_id", "Last record of that log that this master has.", gauge, func(h *HA) uint64 { return h.Applied }},
	{"ha_oplog_applied_entries_total", "Records of that log that this master has.", counter, func(h *HA) uint64 { return h.Applied }},
	{"ha_oplog_standby_lag", "Records of that log that this master does not have yet.", gauge, func(h *HA) uint64 { return h.Newest - min(h.Applied, h.Newest) }},
	{"ha_pending_mutation_queue_size", "Decisions of this leader that are not in the log yet.", gauge, func(h *HA) uint64 { return h.Unacked }},
	{"ha_standby_state", "3 while this master follows another, 0 while it leads or knows no other.", gauge, func(h *HA) uint64 { return 3 * flag(h.Following) }},
	{"ha_state_transitions_total", "How often this process began or ceased to lead.", counter, func(h *HA) uint64 { return h.Changes }},
	{"ha_oplog_checksum_failures_total", "Values of the log that could not be read as they should, as the leader found it.", counter, func(h *HA) uint64 { return h.DamagedValues }},
	{"ha_oplog_skipped_entries_total", "Records of the log that were lost, as the leader found it.", counter, func(h *HA) uint64 { return h.LostRecords }},
	{"ha_writer_accepting", "1 while this master leads and takes decisions.", gauge, func(h *HA) uint64 { return flag(h.Leader && !h.NoSpace) }},
	{"ha_writer_committed_queue_depth", "Decisions of this leader that are not in the log yet.", gauge, func(h *HA) uint64 { return h.Unacked }},
	{"ha_writer_durable_sequence", "Last record of the log that is in etcd.", gauge, func(h *HA) uint64 { return h.Newest }},
	{"ha_snapshot_enabled", "1 where several masters share a log: snapshots of it are made.", gauge, func(h *HA) uint64 { return flag(h.Shared) }},
	{"ha_snapshot_count", "Snapshots of the log made in the term under way.", gauge, func(h *HA) uint64 { return h.Snapshots }},
}

// publishedDescs are the descriptions of publishedHA, and then that of the histogram.
func publishedDescs() (descs []*prometheus.Desc, snapshots *prometheus.Desc) {
	for _, r := range publishedHA {
		descs = append(descs, prometheus.NewDesc(r.name, r.help, nil, nil))
	}
	return descs, prometheus.NewDesc("master_snapshot_duration_ms", "How long snapshots took, in milliseconds.", nil, nil)
}

// collectPublished sends what these series say.
func (c *collector) collectPublished(s *snapshot, out chan<- prometheus.Metric) {
	ha := s.HA
	if ha == nil {
		ha = &HA{}
	}
	for i, r := range publishedHA {
		out <- constant(c.published[i], r.kind, r.value(ha))
	}
	buckets, count := make(map[float64]uint64, len(snapshotBuckets)), uint64(0)
	for i, bound := range snapshotBuckets {
		count += s.Stats.Snapshots.Counts[i]
		buckets[float64(bound)] = count
	}
	count += s.Stats.Snapshots.Counts[len(snapshotBuckets)]
	out <- prometheus.MustNewConstHistogram(c.snapshotTimes, count, float64(s.Stats.Snapshots.SumMs), buckets)
}
