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
		DiscardedPuts: c.DiscardedPuts, ReleasedPuts: c.ReleasedPuts,
		PutStartAllocFailures: c.PutStartAllocFailures, PutStartPartialAllocs: c.PutStartPartialAllocs, ExpiredClients: c.ExpiredClients,
	}
}
