package metrics

import "slices"

type kind uint8

const (
	gauge kind = iota
	counter
)

// Stats are the figures that a Source hands over at a scrape.
type Stats struct {
	HA      *HA      // nil unless this master is one of several
	Journal *Journal // nil without a journal

	Keys           uint64 // objects, half written ones included
	OpenKeys       uint64 // half written ones
	SoftPinnedKeys uint64
	Segments       uint64
	ActiveClients  uint64

	DiskKeys, DiskOnlyKeys       uint64 // objects with copies on disk; of them, those with none in memory
	DiskBytes, DiskCapacityBytes uint64
	DiskClients, DiskWaiting     uint64
	Promoting                    uint64
	Promotions                   Promotions
	Snapshots                    Snapshots // of the journal, or of the log of several masters

	UnverifiedSegments uint64 // whose endpoint did not answer this process after the mount

	CapacityBytes    uint64
	AllocatedBytes   uint64
	QuarantinedBytes uint64 // held back from writes that were given up
	CatalogBytes     uint64 // memory of the records outside Go's heap

	EvictionAttempts      uint64
	EvictionSuccesses     uint64
	EvictedKeys           uint64
	EvictedBytes          uint64
	DiscardedPuts         uint64
	ReleasedPuts          uint64
	AbortedPuts           uint64
	PutStartAllocFailures uint64
	PutStartPartialAllocs uint64
	ExpiredClients        uint64

	// Clients with segments, by what is thought of them. Those that are suspect count as active as well.
	ClientsActive, ClientsSuspect, ClientsSuspected, ClientsLost uint64
	// How often clients became suspected and lost.
	SuspectedClients, LostClients, RecoveredClients uint64

	LostKeys      uint64 // objects whose every copy lies on a lost client's segments
	LostBytes     uint64 // of the copies on lost clients' segments
	HandOutReuses uint64 // ranges written again although a reader had been told of them within its lease

	// Objects that have fewer copies than they were put with: those that wait and those being copied, and what was done.
	SumsKept, CopiesRight, CopiesDoubted, SumFailures, SummedBytes uint64
	CorruptCopies, CorruptObjects, CorruptBytes                    uint64

	HealWaiting, HealCopying, HealUnhelped              uint64
	HealedObjects, HealedBytes, HealFailures, HealLooks uint64

	// Objects that move from full segments to empty ones, and what was done.
	Moving, MovedObjects, MovedBytes, MoveFailures uint64

	// Objects with more copies than they are to have, or than they were put with because they are read much.
	HealSurplus, HealTrimmed        uint64
	HotObjects, HotMade, HotDropped uint64

	Refusals []Refusal // puts refused for want of room
}

// Promotions are the figures of objects that clients were to bring back from disk.
type Promotions struct {
	Admitted, Completed, CompletedBytes, Failed, Cancelled, Expired uint64
	RejectedFrequency, RejectedWatermark, RejectedCap               uint64 // reads and objects that led to none
}

// Refusal counts puts that were refused because of one kind of object that held the room.
type Refusal struct {
	Reason string // label value: leased, pinned, in_flight, quota, reserved, unread_kept, own_bundle or no_segment
	Puts   uint64
}

// Segment is one mounted segment as the labelled series show it.
type Segment struct {
	Name           string // need not be unique: series of the same name are summed
	AllocatedBytes uint64
	CapacityBytes  uint64
	Replicas       uint64 // copies that lie on it
}

// Source is the live state behind the series. It is asked once per scrape, from the scraping goroutine.
type Source interface {
	Stats() Stats
	Segments() []Segment
	BundleFigures() Bundles
	WorkloadFigures() []Workload
	TenantFigures() Tenants
}

// snapshot is everything a scrape needs, taken at its begin.
type snapshot struct {
	Stats
	segments []Segment
	calls    *Calls
	process  processMemory
	lookups  uint64
	hits     uint64
	hitBytes uint64

	diskHits, diskHitBytes uint64
	goroutines             uint64
}

// replicas is the number of copies on all segments.
func (s *snapshot) replicas() uint64 {
	var n uint64
	for _, g := range s.segments {
		n += g.Replicas
	}
	return n
}

// row is one series without labels.
type row struct {
	name  string
	kind  kind
	help  string
	value func(*snapshot) uint64
}

// totals is the table of all series without labels except those of remote calls, which callRows derives.
var totals = []row{
	{"master_allocated_bytes", gauge, "Bytes of all replicas on mounted segments.", func(s *snapshot) uint64 { return s.AllocatedBytes }},
	{"master_total_capacity_bytes", gauge, "Bytes of all mounted segments.", func(s *snapshot) uint64 { return s.CapacityBytes }},
	{"master_key_count", gauge, "Objects known, half written ones included.", func(s *snapshot) uint64 { return s.Keys }},
	{"master_soft_pin_key_count", gauge, "Objects with a living soft pin.", func(s *snapshot) uint64 { return s.SoftPinnedKeys }},
	{"master_active_clients", gauge, "Clients that mounted segments and keep pinging.", func(s *snapshot) uint64 { return s.ActiveClients }},

	{"master_put_start_alloc_failures_total", counter, "Puts refused because no room was found.", func(s *snapshot) uint64 { return s.PutStartAllocFailures }},
	{"master_put_start_partial_allocations_total", counter, "Puts that got fewer copies than they asked for.", func(s *snapshot) uint64 { return s.PutStartPartialAllocs }},
	{"master_put_start_discard_cnt", counter, "Unfinished puts that another put took over or that grew too old.", func(s *snapshot) uint64 { return s.DiscardedPuts }},
	{"master_put_start_release_cnt", counter, "Unfinished puts that went and whose room was given back.", func(s *snapshot) uint64 { return s.ReleasedPuts }},
	{"master_put_start_discarded_staging_size", gauge, "Bytes held back from writes that were given up.", func(s *snapshot) uint64 { return s.QuarantinedBytes }},

	{"master_attempted_evictions_total", counter, "Rounds of eviction begun.", func(s *snapshot) uint64 { return s.EvictionAttempts }},
	{"master_successful_evictions_total", counter, "Rounds of eviction that freed something.", func(s *snapshot) uint64 { return s.EvictionSuccesses }},
	{"master_evicted_key_count", counter, "Objects evicted.", func(s *snapshot) uint64 { return s.EvictedKeys }},
	{"master_evicted_size_bytes", counter, "Bytes evicted.", func(s *snapshot) uint64 { return s.EvictedBytes }},

	{"master_attempted_evictions_mem", counter, "Rounds of eviction begun; nothing but memory is evicted.", func(s *snapshot) uint64 { return s.EvictionAttempts }},
	{"master_successful_evictions_mem", counter, "Rounds of eviction that freed something; nothing but memory is evicted.", func(s *snapshot) uint64 { return s.EvictionSuccesses }},
	{"master_evicted_key_count_mem", counter, "Objects evicted from memory; nothing but memory is evicted.", func(s *snapshot) uint64 { return s.EvictedKeys }},
	{"master_evicted_size_bytes_mem", counter, "Bytes evicted from memory; nothing but memory is evicted.", func(s *snapshot) uint64 { return s.EvictedBytes }},

	{"master_put_start_object_already_exists_total", counter, "Puts of keys that were there already.", func(s *snapshot) uint64 { return s.calls.exists.Load() }},
	{"master_batch_put_start_object_already_exists_total", counter, "Items of batches of puts whose keys were there already.", func(s *snapshot) uint64 { return s.calls.batchExists.Load() }},
	{"master_snapshot_success", counter, "Snapshots made of what this master knows.", func(s *snapshot) uint64 { return s.Stats.Snapshots.Made }},
	{"master_snapshot_fail", counter, "Snapshots that failed.", func(s *snapshot) uint64 { return s.Stats.Snapshots.Failed }},

	{"total_get_nums_", counter, "Keys whose replica list was asked for.", func(s *snapshot) uint64 { return s.lookups }},
	{"valid_get_nums_", counter, "Keys whose replica list was asked for and found.", func(s *snapshot) uint64 { return s.hits }},
	{"mem_cache_hit_nums_", counter, "Replica lists found with a copy in memory.", func(s *snapshot) uint64 { return s.hits - min(s.diskHits, s.hits) }},
	{"mem_cache_hit_bytes_total", counter, "Bytes of the objects whose replica lists were found with a copy in memory.", func(s *snapshot) uint64 { return s.hitBytes }},
	{"mem_cache_nums_", gauge, "Copies held in memory, half written ones included.", func(s *snapshot) uint64 { return s.replicas() }},

	{"file_cache_hit_nums_", counter, "Replica lists found with copies on disk only.", func(s *snapshot) uint64 { return s.diskHits }},
	{"file_cache_hit_bytes_total", counter, "Bytes of the objects whose replica lists were found with copies on disk only.", func(s *snapshot) uint64 { return s.diskHitBytes }},
	{"file_cache_nums_", gauge, "Objects with a copy on disk.", func(s *snapshot) uint64 { return s.DiskKeys }},
	{"master_allocated_file_size_bytes", gauge, "Bytes of all copies on disk.", func(s *snapshot) uint64 { return s.DiskBytes }},
	{"master_total_file_capacity_bytes", gauge, "Bytes that copies on disk may take, as clients and flags say.", func(s *snapshot) uint64 { return s.DiskCapacityBytes }},
	{"mooncake_go_disk_only_keys", gauge, "Objects of which nothing is in memory.", func(s *snapshot) uint64 { return s.DiskOnlyKeys }},
	{"mooncake_go_disk_clients", gauge, "Clients that keep copies on disks of their own.", func(s *snapshot) uint64 { return s.DiskClients }},
	{"mooncake_go_disk_waiting", gauge, "Objects that clients are to copy to their disks.", func(s *snapshot) uint64 { return s.DiskWaiting }},
	{"master_promotion_in_flight", gauge, "Objects that clients are to bring back from disk.", func(s *snapshot) uint64 { return s.Promoting }},
	{"master_promotion_admitted_total", counter, "Objects that a client was told to bring back.", func(s *snapshot) uint64 { return s.Promotions.Admitted }},
	{"master_promotion_completed_total", counter, "Objects that clients brought back from disk.", func(s *snapshot) uint64 { return s.Promotions.Completed }},
	{"master_promotion_completed_bytes_total", counter, "Bytes of these objects.", func(s *snapshot) uint64 { return s.Promotions.CompletedBytes }},
	{"master_promotion_failed_total", counter, "Objects that the client could not bring back.", func(s *snapshot) uint64 { return s.Promotions.Failed }},
	{"master_promotion_cancelled_total", counter, "Objects whose client went away before it brought them back, or that were removed or written meanwhile.", func(s *snapshot) uint64 { return s.Promotions.Cancelled }},
	{"master_promotion_expired_total", counter, "Objects that their client did not bring back in time.", func(s *snapshot) uint64 { return s.Promotions.Expired }},
	{"master_promotion_rejected_frequency_total", counter, "Reads of objects on disk that were too few yet to bring them back.", func(s *snapshot) uint64 { return s.Promotions.RejectedFrequency }},
	{"master_promotion_rejected_watermark_total", counter, "Objects not brought back because the pool was too full.", func(s *snapshot) uint64 { return s.Promotions.RejectedWatermark }},
	{"master_promotion_rejected_cap_total", counter, "Objects not brought back because too many were on their way.", func(s *snapshot) uint64 { return s.Promotions.RejectedCap }},

	{"mooncake_master_segments", gauge, "Mounted segments.", func(s *snapshot) uint64 { return s.Stats.Segments }},
	{"mooncake_go_unverified_segments", gauge, "Segments whose endpoint did not answer the master when they were mounted.", func(s *snapshot) uint64 { return s.UnverifiedSegments }},
	{"mooncake_master_open_keys", gauge, "Objects whose first write has not ended.", func(s *snapshot) uint64 { return s.OpenKeys }},
	{"mooncake_master_catalog_bytes", gauge, "Memory of the catalog's records, which Go's heap figures do not show.", func(s *snapshot) uint64 { return s.CatalogBytes }},
	{"master_client_liveness_active_clients", gauge, "Clients with segments that keep pinging, or are silent for less than the active TTL.", func(s *snapshot) uint64 { return s.ClientsActive }},
	{"master_client_liveness_suspected_clients", gauge, "Clients silent for longer than the active TTL, whose objects are hidden.", func(s *snapshot) uint64 { return s.ClientsSuspected }},
	{"master_client_liveness_offline_clients", gauge, "Clients silent for longer than the suspicion TTL as well, whose objects are kept for their return.", func(s *snapshot) uint64 { return s.ClientsLost }},
	{"master_client_liveness_suspected_transitions_total", counter, "Clients that fell silent for longer than the active TTL.", func(s *snapshot) uint64 { return s.SuspectedClients }},
	{"master_client_liveness_recoveries_total", counter, "Returns of clients that were silent for longer than the active TTL.", func(s *snapshot) uint64 { return s.RecoveredClients }},
	{"master_client_liveness_offline_transitions_total", counter, "Clients that were lost.", func(s *snapshot) uint64 { return s.LostClients }},

	{"mooncake_go_clients_active", gauge, "Clients with segments that keep pinging and are not suspect.", func(s *snapshot) uint64 { return s.ClientsActive - min(s.ClientsActive, s.ClientsSuspect) }},
	{"mooncake_go_clients_suspect", gauge, "Clients that missed pings or do not answer: nothing new goes to their segments.", func(s *snapshot) uint64 { return s.ClientsSuspect }},
	{"mooncake_go_clients_suspected", gauge, "Clients whose objects are hidden until they are heard again.", func(s *snapshot) uint64 { return s.ClientsSuspected }},
	{"mooncake_go_clients_lost", gauge, "Clients whose segments count no more and whose objects are kept for their return.", func(s *snapshot) uint64 { return s.ClientsLost }},
	{"mooncake_go_lost_keys", gauge, "Objects of which nothing but copies on lost clients' segments is left.", func(s *snapshot) uint64 { return s.LostKeys }},
	{"mooncake_go_lost_bytes", gauge, "Bytes of the copies on lost clients' segments.", func(s *snapshot) uint64 { return s.LostBytes }},
	{"mooncake_go_quarantined_bytes", gauge, "Bytes that belong to no object and are not given out yet: a dead writer may still write them, or a reader read them.", func(s *snapshot) uint64 { return s.QuarantinedBytes }},
	{"mooncake_go_aborted_puts_total", counter, "Unfinished writes that ended because their writer was known to be gone or a client removed them by force.", func(s *snapshot) uint64 { return s.AbortedPuts }},
	{"mooncake_go_hand_out_reuses_total", counter, "Ranges given to a put for want of other room although a reader had been told of them within its lease.", func(s *snapshot) uint64 { return s.HandOutReuses }},
	{"mooncake_go_sums_kept_total", counter, "Objects whose checksum was found and kept.", func(s *snapshot) uint64 { return s.SumsKept }},
	{"mooncake_go_copies_right_total", counter, "Copies that were compared with the checksum of their object and had it.", func(s *snapshot) uint64 { return s.CopiesRight }},
	{"mooncake_go_copies_doubted_total", counter, "Copies that had another checksum than their object and were looked at again.", func(s *snapshot) uint64 { return s.CopiesDoubted }},
	{"mooncake_go_sum_failures_total", counter, "Requests for checksums that a daemon did not answer.", func(s *snapshot) uint64 { return s.SumFailures }},
	{"mooncake_go_summed_bytes_total", counter, "Bytes of the copies whose checksums were found.", func(s *snapshot) uint64 { return s.SummedBytes }},
	{"mooncake_go_corrupt_copies_total", counter, "Copies whose bytes did not stay what they were: they are not handed out any more.", func(s *snapshot) uint64 { return s.CorruptCopies }},
	{"mooncake_go_corrupt_objects_total", counter, "Objects that went because their only copy did not stay what it was.", func(s *snapshot) uint64 { return s.CorruptObjects }},
	{"mooncake_go_corrupt_bytes", gauge, "Bytes of ranges that held such copies and are not used any more.", func(s *snapshot) uint64 { return s.CorruptBytes }},
	{"mooncake_go_heal_waiting_objects", gauge, "Objects with fewer copies than they were put with that nobody was asked to copy yet.", func(s *snapshot) uint64 { return s.HealWaiting }},
	{"mooncake_go_heal_copying_objects", gauge, "Objects with fewer copies than they were put with that are being copied.", func(s *snapshot) uint64 { return s.HealCopying }},
	{"mooncake_go_heal_unhelped_objects", gauge, "Objects with fewer copies than they were put with for which there is no room on another host, or whose copy failed; looked at again later.", func(s *snapshot) uint64 { return s.HealUnhelped }},
	{"mooncake_go_heal_looks_total", counter, "Looks through all objects for such with too few copies.", func(s *snapshot) uint64 { return s.HealLooks }},
	{"mooncake_go_healed_objects_total", counter, "Objects that were copied again.", func(s *snapshot) uint64 { return s.HealedObjects }},
	{"mooncake_go_healed_bytes_total", counter, "Bytes of the copies that were made again.", func(s *snapshot) uint64 { return s.HealedBytes }},
	{"mooncake_go_heal_failures_total", counter, "Copies that were to be made again and failed.", func(s *snapshot) uint64 { return s.HealFailures }},
	{"mooncake_go_heal_surplus_objects", gauge, "Objects with more copies than they are to have, because a segment came back after they had been copied again.", func(s *snapshot) uint64 { return s.HealSurplus }},
	{"mooncake_go_heal_trimmed_copies_total", counter, "Copies taken away of objects that had more than they are to have.", func(s *snapshot) uint64 { return s.HealTrimmed }},
	{"mooncake_go_hot_objects", gauge, "Objects that have further copies because they are read much.", func(s *snapshot) uint64 { return s.HotObjects }},
	{"mooncake_go_hot_copies_made_total", counter, "Copies made of objects because they were read much.", func(s *snapshot) uint64 { return s.HotMade }},
	{"mooncake_go_hot_copies_dropped_total", counter, "Such copies taken away because the object was read less.", func(s *snapshot) uint64 { return s.HotDropped }},
	{"mooncake_go_rebalance_moving_objects", gauge, "Objects on their way from full segments to empty ones.", func(s *snapshot) uint64 { return s.Moving }},
	{"mooncake_go_rebalanced_objects_total", counter, "Objects that were moved from full segments to empty ones.", func(s *snapshot) uint64 { return s.MovedObjects }},
	{"mooncake_go_rebalanced_bytes_total", counter, "Bytes of these objects.", func(s *snapshot) uint64 { return s.MovedBytes }},
	{"mooncake_go_rebalance_failures_total", counter, "Such moves that failed.", func(s *snapshot) uint64 { return s.MoveFailures }},
	{"mooncake_master_expired_clients_total", counter, "Clients that stayed silent until what their segments held was forgotten.", func(s *snapshot) uint64 { return s.ExpiredClients }},
	{"mooncake_master_goroutines", gauge, "Goroutines of the process.", func(s *snapshot) uint64 { return s.goroutines }},
}

// processRows are printed where the system tells them.
var processRows = []row{
	{"mooncake_process_rss_bytes", gauge, "Resident memory of the process.", func(s *snapshot) uint64 { return s.process.rss }},
	{"mooncake_process_rss_peak_bytes", gauge, "Highest resident memory so far.", func(s *snapshot) uint64 { return s.process.rssPeak }},
	{"mooncake_process_rss_anon_bytes", gauge, "Resident memory that no file backs.", func(s *snapshot) uint64 { return s.process.rssAnon }},
	{"mooncake_process_rss_file_bytes", gauge, "Resident memory that files back.", func(s *snapshot) uint64 { return s.process.rssFile }},
	{"mooncake_process_rss_shmem_bytes", gauge, "Resident shared memory.", func(s *snapshot) uint64 { return s.process.rssShmem }},
	{"mooncake_process_vsize_bytes", gauge, "Mapped address space.", func(s *snapshot) uint64 { return s.process.vsize }},
	{"mooncake_process_swap_bytes", gauge, "Memory of the process in swap.", func(s *snapshot) uint64 { return s.process.swap }},
}

// callRows derives the rows of the remote calls that have series of their own.
func callRows() []row {
	var out []row
	add := func(call, name, help string, kind kind, pick func(CallCounts) uint64) {
		out = append(out, row{"master_" + name, kind, help, func(s *snapshot) uint64 { return pick(s.calls.Read(call)) }})
	}
	for _, c := range slices.Concat(callSeries, batchSeries) {
		add(c.call, c.series+"_requests_total", "Calls of "+c.call+".", counter, func(n CallCounts) uint64 { return n.Requests })
		add(c.call, c.series+"_failures_total", "Calls of "+c.call+" in which everything failed.", counter, func(n CallCounts) uint64 { return n.Failures })
	}
	for _, c := range batchSeries {
		add(c.call, c.series+"_partial_successes_total", "Calls of "+c.call+" in which some items failed.", counter, func(n CallCounts) uint64 { return n.Partial })
		add(c.call, c.series+"_items_total", "Items of all calls of "+c.call+".", counter, func(n CallCounts) uint64 { return n.Items })
		add(c.call, c.series+"_failed_items_total", "Items of "+c.call+" that failed.", counter, func(n CallCounts) uint64 { return n.FailedItems })
	}
	return out
}

// Series with labels, and the histogram.
const (
	segmentAllocated  = "segment_allocated_bytes"
	segmentCapacity   = "segment_total_capacity_bytes"
	valueSize         = "master_value_size_bytes"
	otherRequests     = "mooncake_master_other_calls_total"
	otherFailures     = "mooncake_master_other_call_failures_total"
	refusals          = "mooncake_go_put_refusals_total"
	refusedCalls      = "mooncake_go_refused_calls_total"
	refusedCallsHelp  = "Calls, and items of batches, answered with an error, by the name of its code."
	buildInfo         = "mooncake_build_info"
	segmentAllocHelp  = "Bytes of the replicas on segments of this name."
	segmentCapHelp    = "Bytes of the mounted segments of this name."
	valueSizeHelp     = "Sizes of the values whose put was started."
	otherRequestsHelp = "Calls that have no series of their own."
	otherFailuresHelp = "Calls without series of their own that failed."
	refusalsHelp      = "Puts refused for want of room, by what held it: leases, pins, unfinished writes, the hard limit of the put's workload, what others reserved, unread bundles that are kept, the put's own bundle, or no segment that is large enough and answers."
	buildInfoHelp     = "Always 1; the labels tell the release."
)
