package master

import (
	"mooncake/catalog"
	"mooncake/metrics"
	"mooncake/replication"
)

// Stats hands the catalog's figures to a scrape.
func (s *Service) Stats() metrics.Stats {
	c, heal, sums := s.cat.Stats(), s.Healing(), s.integrity.figures()
	return metrics.Stats{
		Keys: c.Keys, OpenKeys: c.OpenKeys, SoftPinnedKeys: c.SoftPinnedKeys,
		Segments: c.Segments, ActiveClients: c.ActiveClients,
		CapacityBytes: c.CapacityBytes, AllocatedBytes: c.AllocatedBytes, QuarantinedBytes: c.QuarantinedBytes, CatalogBytes: c.ArenaBytes,
		EvictionAttempts: c.EvictionAttempts, EvictionSuccesses: c.EvictionSuccesses, EvictedKeys: c.EvictedKeys, EvictedBytes: c.EvictedBytes,
		DiscardedPuts: c.DiscardedPuts, ReleasedPuts: c.ReleasedPuts, AbortedPuts: c.AbortedPuts,
		PutStartAllocFailures: c.PutStartAllocFailures, PutStartPartialAllocs: c.PutStartPartialAllocs, ExpiredClients: c.ExpiredClients,
		ClientsActive: c.ActiveClients, ClientsSuspect: c.SuspectClients, ClientsSuspected: c.SuspectedClients, ClientsLost: c.LostClients,
		SuspectedClients: s.suspected.Load(), LostClients: s.lost.Load(), RecoveredClients: c.RecoveredClients,
		LostKeys: c.LostKeys, LostBytes: c.LostBytes, HandOutReuses: c.HandOutReuses,
		SumsKept: sums.Kept, CopiesRight: sums.Right, CopiesDoubted: sums.Doubted, SumFailures: sums.Failures, SummedBytes: sums.Bytes,
		CorruptCopies: c.CorruptCopies, CorruptObjects: c.CorruptObjects, CorruptBytes: c.CorruptBytes,
		HealWaiting: uint64(heal.Waiting), HealCopying: uint64(heal.Copying), HealUnhelped: uint64(heal.Unhelped), HealLooks: heal.Looks,
		HealedObjects: heal.Objects, HealedBytes: heal.Bytes, HealFailures: heal.Failures,
		HealSurplus: uint64(heal.Surplus), HealTrimmed: heal.Trimmed, HotObjects: uint64(heal.Hot), HotMade: heal.Made, HotDropped: heal.Dropped,
		Moving: uint64(heal.Moving), MovedObjects: heal.Moved, MovedBytes: heal.MovedBytes, MoveFailures: heal.FailedMoves,
		Refusals: refusalsBy(&c.Refusals), Journal: s.history.figures(),

		DiskKeys: c.Disks.Objects, DiskOnlyKeys: c.Disks.Alone, DiskBytes: c.Disks.Bytes, DiskCapacityBytes: s.diskCapacity(&c.Disks),
		DiskClients: c.Disks.Clients, DiskWaiting: c.Disks.Waiting, Promoting: c.Disks.Promoting,
		UnverifiedSegments: s.unverified(),
		Promotions:         promotions(&c.Disks.Promotions), Snapshots: s.history.snapshots(),
	}
}

// unverified counts the segments whose endpoint did not answer.
func (s *Service) unverified() (n uint64) {
	for _, seg := range s.cat.AllSegments() {
		if s.suspicion.verdict(seg.Client, seg.Endpoint) == VerdictUnverified {
			n++
		}
	}
	return n
}

func promotions(p *catalog.PromotionStats) metrics.Promotions {
	return metrics.Promotions{
		Admitted: p.Admitted, Completed: p.Completed, CompletedBytes: p.CompletedBytes, Failed: p.Failed, Cancelled: p.Cancelled,
		Expired: p.Expired, RejectedFrequency: p.RejectedFrequency, RejectedWatermark: p.RejectedWatermark, RejectedCap: p.RejectedCap,
	}
}

// snapshots are the figures of snapshots: of the journal, or of the log of several masters.
func (h *history) snapshots() metrics.Snapshots {
	var st replication.Stats
	switch j, ok := h.journal.(*replication.Journal); {
	case h.term != nil:
		st = h.term.Stats()
	case ok:
		st = j.Stats()
	}
	return metrics.Snapshots{Made: st.Snapshots, Failed: st.SnapshotErrors, Counts: st.SnapshotTimes.Counts, SumMs: st.SnapshotTimes.SumMs}
}

// diskCapacity gives the bytes that copies on disk may take.
func (s *Service) diskCapacity(d *catalog.DiskStats) uint64 {
	capacity := d.Capacity
	if s.cfg.RootFSDir != "" {
		capacity += uint64(s.cfg.FileCapacity)
	}
	return capacity
}

// figures are those of the journal, if this master has one.
func (h *history) figures() *metrics.Journal {
	j, ok := h.journal.(*replication.Journal)
	if !ok {
		return nil
	}
	f := j.Figures()
	out := &metrics.Journal{
		Records: f.Records, Bytes: f.Bytes, WriteMicros: uint64(f.WriteTime.Microseconds()),
		Syncs: f.Syncs, SyncMicros: uint64(f.SyncTime.Microseconds()),
		Snapshots: f.Snapshots, SnapshotErrors: f.SnapshotErrors, SnapshotBytes: f.SnapshotBytes, SnapshotAt: f.SnapshotAt,
		DiskBytes: f.DiskBytes, DamagedBlocks: f.DamagedBlocks, DamagedBytes: f.DamagedBytes, LostRecords: f.LostRecords, Failed: f.Failed,
	}
	for _, reason := range replication.DropReasons {
		out.Dropped = append(out.Dropped, metrics.Drop{Reason: reason, Objects: f.Dropped[reason]})
	}
	return out
}

// refusalsBy lists refused puts by reason.
func refusalsBy(r *catalog.Refusals) []metrics.Refusal {
	return []metrics.Refusal{
		{Reason: "leased", Puts: r.Leased},
		{Reason: "pinned", Puts: r.Pinned},
		{Reason: "in_flight", Puts: r.InFlight},
		{Reason: "quota", Puts: r.Quota},
		{Reason: "reserved", Puts: r.Reserved},
		{Reason: "unread_kept", Puts: r.UnreadKept},
		{Reason: "own_bundle", Puts: r.OwnBundle},
		{Reason: "no_segment", Puts: r.NoSegment},
	}
}

// WorkloadFigures implements metrics.Source.
func (s *Service) WorkloadFigures() []metrics.Workload {
	stats := s.cat.WorkloadStats()
	out := make([]metrics.Workload, len(stats))
	for i := range stats {
		w := &stats[i]
		out[i] = metrics.Workload{
			Name: w.Name, SoftBytes: w.SoftBytes, HardBytes: w.HardBytes, ReservedBytes: w.ReservedBytes,
			Keys: w.Keys, Bytes: w.Bytes, EvictedKeys: w.EvictedKeys, EvictedBytes: w.EvictedBytes,
			EvictedUnreadKeys: w.EvictedUnreadKeys, ExpiredKeys: w.ExpiredKeys, ExpiredBytes: w.ExpiredBytes,
			Refusals: refusalsBy(&w.Refusals),
		}
		for _, f := range w.EvictedFor {
			by := f.Workload
			if f.Watermark {
				by = metrics.Watermark
			}
			out[i].EvictedFor = append(out[i].EvictedFor, metrics.EvictedFor{Workload: by, Bytes: f.Bytes})
		}
	}
	return out
}

// TenantFigures implements metrics.Source.
func (s *Service) TenantFigures() metrics.Tenants {
	list, capacity, err := s.TenantStats()
	out := metrics.Tenants{On: err == nil, CapacityBytes: capacity}
	for i := range list {
		t := &list[i]
		out.Each = append(out.Each, metrics.Tenant{
			Name: t.Name, RequestedBytes: t.Requested, EffectiveBytes: t.Effective, ChargedBytes: t.Charged, Objects: t.Objects,
			Closed: t.Closed, Over: t.Over(), Policy: t.Policy, Rejected: t.Rejected, EvictedBytes: t.Evicted,
		})
	}
	return out
}
