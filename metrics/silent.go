package metrics

import "github.com/prometheus/client_golang/prometheus"

// A silentGroup is series of the published masters that nothing can move here, for one reason. Those without labels that a
// published master prints at its start are printed as 0, so that no query for them fails; those with labels have no samples,
// and the rest is left out. docs/metrics.md has the same list.
type silentGroup struct {
	reason                       string
	gauges, counters, histograms []string
	labelled                     []string // have labels, or no published wheel prints them
}

// silentBounds are the bounds of the silent histograms.
var silentBounds = map[string][]float64{
	"master_nof_heartbeat_probe_latency_ms": {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000},
	"master_client_offboarding_duration_ms": {1, 5, 10, 25, 50, 100, 250, 500, 1000, 5000, 30000},
}

var silentGroups = []silentGroup{
	{
		reason: "nothing lies on NVMe over fabrics",
		gauges: []string{
			"master_nof_allocated_bytes",
			"master_total_nof_capacity_bytes",
		},
		counters: []string{
			"master_attempted_evictions_nof",
			"master_evicted_key_count_nof",
			"master_evicted_size_bytes_nof",
			"master_mount_nof_segment_failures_total",
			"master_mount_nof_segment_requests_total",
			"master_nof_heartbeat_failure_total",
			"master_nof_heartbeat_success_total",
			"master_nof_heartbeat_timeout_total",
			"master_nof_segments_unmounted_by_heartbeat_total",
			"master_remount_nof_segment_failures_total",
			"master_remount_nof_segment_requests_total",
			"master_successful_evictions_nof",
			"master_unmount_nof_segment_failures_total",
			"master_unmount_nof_segment_requests_total",
		},
		histograms: []string{
			"master_nof_heartbeat_probe_latency_ms",
		},
		labelled: []string{
			"nof_segment_allocated_bytes",
			"nof_segment_total_capacity_bytes",
		},
	},
	{
		reason: "there is no DFS",
		gauges: []string{
			"master_dfs_allocated_bytes",
			"master_dfs_total_capacity_bytes",
			"master_dfs_file_count",
		},
	},
	{
		reason: "weights are not managed",
		gauges: []string{
			"master_weight_active_leases",
			"master_weight_pending_operations",
			"master_weight_oldest_operation_age_ms",
		},
		counters: []string{
			"master_weight_reconciliation_failures_total",
		},
		labelled: []string{
			"master_weight_revisions",
			"master_weight_revision_residency",
		},
	},
	{
		reason: "memory is Go's, without jemalloc: see mooncake_go_memstats_*",
		gauges: []string{
			"mooncake_jemalloc_enabled",
			"mooncake_jemalloc_allocated_bytes",
			"mooncake_jemalloc_active_bytes",
			"mooncake_jemalloc_metadata_bytes",
			"mooncake_jemalloc_resident_bytes",
			"mooncake_jemalloc_retained_bytes",
			"mooncake_jemalloc_mapped_bytes",
			"mooncake_jemalloc_small_allocated_bytes",
			"mooncake_jemalloc_large_allocated_bytes",
			"mooncake_jemalloc_dirty_bytes",
			"mooncake_jemalloc_muzzy_bytes",
			"mooncake_jemalloc_arenas",
			"mooncake_jemalloc_background_threads",
			"mooncake_jemalloc_opt_dirty_decay_ms",
			"mooncake_jemalloc_opt_muzzy_decay_ms",
		},
		counters: []string{
			"mooncake_jemalloc_dirty_purged_pages_total",
			"mooncake_jemalloc_muzzy_purged_pages_total",
			"mooncake_jemalloc_dirty_purge_runs_total",
			"mooncake_jemalloc_muzzy_purge_runs_total",
			"mooncake_jemalloc_dirty_madvises_total",
			"mooncake_jemalloc_muzzy_madvises_total",
			"mooncake_jemalloc_small_allocations_total",
			"mooncake_jemalloc_small_deallocations_total",
		},
	},
	{
		reason: "who is to bring an object back is told at once; no list of candidates is kept",
		counters: []string{
			"master_promotion_candidate_recorded_total",
			"master_promotion_candidate_admitted_total",
			"master_promotion_candidate_admission_rejected_total",
			"master_promotion_candidate_expired_evaluated_total",
			"master_promotion_candidate_expired_unevaluated_total",
			"master_promotion_candidate_dropped_limit_total",
		},
	},
	{
		reason: "what a client leaves goes in one decision, without a queue",
		gauges: []string{
			"master_client_offboarding_queue_depth",
		},
		counters: []string{
			"master_client_offboarding_retries_total",
			"master_client_offboarding_alerts_total",
		},
		histograms: []string{
			"master_client_offboarding_duration_ms",
		},
	},
	{
		reason: "a quota is charged when a put starts; nothing is reserved apart",
		labelled: []string{
			"mooncake_tenant_quota_reserved_bytes",
		},
	},
	{
		reason: "the published masters have it in special builds only",
		labelled: []string{
			"ha_batch_record_batch_bytes",
			"ha_batch_record_batch_entries",
			"ha_batch_record_callback_latency_us",
			"ha_batch_record_callback_queue_depth",
			"ha_batch_record_commit_to_durable_us",
			"ha_batch_record_committed_queue_depth",
			"ha_batch_record_durable_batches_total",
			"ha_batch_record_durable_entries_total",
			"ha_batch_record_durable_sequence",
			"ha_batch_record_last_batch_id",
			"ha_batch_record_retry_total",
			"ha_batch_record_txn_latency_us",
		},
	},
	{
		reason: "snapshots here are those of the log, made by its leader: see ha_snapshot_count and master_ha_*",
		gauges: []string{
			"ha_snapshot_active",
			"ha_snapshot_latest_present",
			"ha_snapshot_fallback_present",
			"ha_snapshot_latest_age_seconds",
			"ha_snapshot_fallback_age_seconds",
			"ha_snapshot_candidate_floor",
			"ha_snapshot_bytes",
			"ha_snapshot_chunk_bytes",
			"ha_snapshot_chunk_count",
			"ha_snapshot_capture_pause_us",
			"ha_snapshot_suffix_batches",
			"ha_snapshot_catch_up_target_batch",
			"ha_snapshot_catch_up_target_sequence",
			"ha_snapshot_durable_batch",
			"ha_snapshot_applied_batch",
			"ha_snapshot_latest_batch",
			"ha_snapshot_fallback_batch",
			"ha_snapshot_compaction_floor",
			"ha_snapshot_gc_orphan_prefixes",
			"ha_snapshot_gc_deleted_prefixes",
			"ha_snapshot_uncompacted_batches",
		},
		counters: []string{
			"ha_snapshot_floor_advances_total",
			"ha_snapshot_lease_lost_total",
		},
		labelled: []string{
			"ha_snapshot_skip_reason",
			"ha_snapshot_skips_total",
			"ha_snapshot_operations_total",
			"ha_snapshot_errors_total",
			"ha_snapshot_duration_us_total",
		},
	},
	{
		reason: "the log here is written in records, without batches, slots and callbacks: see master_ha_*",
		gauges: []string{
			"ha_oplog_pending_entries",
			"ha_writer_retry_delay_ms",
			"ha_writer_waiting_slots",
			"ha_writer_callback_queue_depth",
			"ha_writer_last_error",
			"ha_writer_durable_batch_id",
			"ha_writer_stuck_first_sequence",
			"ha_writer_stuck_last_sequence",
		},
		counters: []string{
			"ha_writer_retry_count",
		},
		labelled: []string{
			"ha_oplog_apply_latency_us",
			"ha_oplog_batch_commits_total",
			"ha_oplog_dropped_put_end_total",
			"ha_oplog_etcd_write_failures_total",
			"ha_oplog_etcd_write_latency_us",
			"ha_oplog_etcd_write_retries_total",
			"ha_oplog_gap_resolve_attempts_total",
			"ha_oplog_gap_resolve_success_total",
			"ha_oplog_sync_batch_commits_total",
			"ha_oplog_watch_disconnections_total",
		},
	},
}

// row of a silent series.
type silentRow struct {
	name string
	kind kind
	desc *prometheus.Desc
}

// silentSeries are the descriptions of what is printed of silentGroups.
func silentSeries() (rows []silentRow, histograms map[string]*prometheus.Desc) {
	histograms = map[string]*prometheus.Desc{}
	for _, g := range silentGroups {
		help := "Never moves: " + g.reason + "."
		for _, name := range g.gauges {
			rows = append(rows, silentRow{name, gauge, prometheus.NewDesc(name, help, nil, nil)})
		}
		for _, name := range g.counters {
			rows = append(rows, silentRow{name, counter, prometheus.NewDesc(name, help, nil, nil)})
		}
		for _, name := range g.histograms {
			histograms[name] = prometheus.NewDesc(name, help, nil, nil)
		}
	}
	return rows, histograms
}

// collectSilent sends their zeros.
func (c *collector) collectSilent(out chan<- prometheus.Metric) {
	for _, r := range c.silent {
		out <- constant(r.desc, r.kind, 0)
	}
	for name, desc := range c.silentHistograms {
		buckets := map[float64]uint64{}
		for _, bound := range silentBounds[name] {
			buckets[bound] = 0
		}
		out <- prometheus.MustNewConstHistogram(desc, 0, 0, buckets)
	}
}
