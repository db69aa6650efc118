package metrics

import "github.com/prometheus/client_golang/prometheus"

// HA are the figures of a master that is one of several. Those of the log are of the term under way.
type HA struct {
	Shared     bool   // there is a log that several masters share
	Following  bool   // another one leads, or nobody
	Changes    uint64 // how often it began or ceased to lead
	Leader     bool   // it leads
	Ready      bool   // it serves, or could at once
	NoSpace    bool   // etcd is full
	EtcdBytes  uint64 // taken of its database
	EtcdQuota  uint64
	Term       uint64 // number of the leadership under way, of whoever leads; 0 = nobody does
	Terms      uint64 // led by this process
	Applied    uint64 // number of the last record in this master's history
	Newest     uint64 // number of the last record in etcd, when it was asked last
	LogRecords uint64
	LogBytes   uint64
	LogMicros  uint64 // waited for etcd
	Snapshots  uint64
	Failed     uint64 // snapshots that failed
	Unacked    uint64 // decisions that are not in etcd yet

	// What damage of the log took: values that could not be read, records lost with them, objects dropped by reason.
	DamagedValues, LostRecords                      uint64
	DroppedGranted, DroppedTaken, DroppedOverlapped uint64
}

// haRows are the series that only a master that is one of several has.
var haRows = []struct {
	name, help string
	kind       kind
	value      func(h *HA) float64
}{
	{"master_ha_is_leader", "1 while this master leads", gauge, func(h *HA) float64 { return float64(flag(h.Leader)) }},
	{"master_ha_ready", "1 while this master serves, or could at once if the leader went", gauge, func(h *HA) float64 { return float64(flag(h.Ready)) }},
	{"master_ha_etcd_no_space", "1 while etcd is full, as far as this master knows: nothing is acknowledged", gauge, func(h *HA) float64 { return float64(flag(h.NoSpace)) }},
	{"master_ha_etcd_bytes", "Bytes of etcd's database in use, by all its users", gauge, func(h *HA) float64 { return float64(h.EtcdBytes) }},
	{"master_ha_etcd_quota_bytes", "What etcd's database may hold; 2 GiB if it does not say", gauge, func(h *HA) float64 { return float64(h.EtcdQuota) }},
	{"master_ha_term", "Number of the leadership under way; 0 when nobody leads", gauge, func(h *HA) float64 { return float64(h.Term) }},
	{"master_ha_terms_total", "Terms that this process has led", counter, func(h *HA) float64 { return float64(h.Terms) }},
	{"master_ha_applied_sequence", "Last record of the log that this master has", gauge, func(h *HA) float64 { return float64(h.Applied) }},
	{"master_ha_leader_sequence", "Last record of the log in etcd", gauge, func(h *HA) float64 { return float64(h.Newest) }},
	{"master_ha_log_records", "Records written in the term under way", gauge, func(h *HA) float64 { return float64(h.LogRecords) }},
	{"master_ha_log_bytes", "Bytes written in the term under way", gauge, func(h *HA) float64 { return float64(h.LogBytes) }},
	{"master_ha_log_wait_seconds", "Time that writing to etcd took in the term under way", gauge, func(h *HA) float64 { return float64(h.LogMicros) / 1e6 }},
	{"master_ha_snapshots", "Snapshots of the log made in the term under way", gauge, func(h *HA) float64 { return float64(h.Snapshots) }},
	{"master_ha_snapshot_failures", "Snapshots of the log that failed in the term under way", gauge, func(h *HA) float64 { return float64(h.Failed) }},
	{"master_ha_log_damaged_values", "Values in etcd that could not be read as they should, as the leader found the log", gauge, func(h *HA) float64 { return float64(h.DamagedValues) }},
	{"master_ha_log_lost_records", "Records of the log that were lost, as the leader found it", gauge, func(h *HA) float64 { return float64(h.LostRecords) }},
	{"master_ha_dropped_range_granted", "Objects dropped because a lost record may have given their bytes to a writer", gauge, func(h *HA) float64 { return float64(h.DroppedGranted) }},
	{"master_ha_dropped_range_taken", "Objects dropped because a later record gave their bytes to another", gauge, func(h *HA) float64 { return float64(h.DroppedTaken) }},
	{"master_ha_dropped_range_overlap", "The same, although no record was lost", gauge, func(h *HA) float64 { return float64(h.DroppedOverlapped) }},
	{"master_ha_unacked_records", "Decisions that are not in etcd yet; with --ha_ack=async calls may have been answered all the same", gauge, func(h *HA) float64 { return float64(h.Unacked) }},
}

func flag(on bool) uint64 {
	if on {
		return 1
	}
	return 0
}

// haDescs are the descriptions of haRows.
func haDescs() (descs []*prometheus.Desc) {
	for _, r := range haRows {
		descs = append(descs, prometheus.NewDesc(r.name, r.help, nil, nil))
	}
	return descs
}
