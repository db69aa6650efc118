package master

import "mooncake/metrics"

// Stats hands the catalog's figures to a scrape.
func (s *Service) Stats() metrics.Stats {
	c := s.cat.Stats()
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
		Refusals: []metrics.Refusal{
			{Reason: "leased", Puts: c.Refusals.Leased},
			{Reason: "pinned", Puts: c.Refusals.Pinned},
			{Reason: "in_flight", Puts: c.Refusals.InFlight},
			{Reason: "quota", Puts: c.Refusals.Quota},
			{Reason: "own_bundle", Puts: c.Refusals.OwnBundle},
			{Reason: "no_segment", Puts: c.Refusals.NoSegment},
		},
	}
}
