package master

import (
	"context"

	"mooncake/catalog"
	"mooncake/kvevents"
	"mooncake/metrics"
	"mooncake/wire"
)

// leading runs do with the service of this master, if it leads.
func (c *cluster) leading(do func(s *Service)) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.service == nil {
		return false
	}
	do(c.service)
	return true
}

// BundleFigures implements metrics.Source.
func (c *cluster) BundleFigures() (out metrics.Bundles) {
	c.leading(func(s *Service) { out = s.BundleFigures() })
	return out
}

// WorkloadFigures implements metrics.Source.
func (c *cluster) WorkloadFigures() (out []metrics.Workload) {
	c.leading(func(s *Service) { out = s.WorkloadFigures() })
	return out
}

// TenantFigures implements metrics.Source.
func (c *cluster) TenantFigures() (out metrics.Tenants) {
	c.leading(func(s *Service) { out = s.TenantFigures() })
	return out
}

// Healing implements InspectSource.
func (c *cluster) Healing() (out HealInfo) {
	c.leading(func(s *Service) { out = s.Healing() })
	return out
}

// Integrity implements InspectSource.
func (c *cluster) Integrity() (out IntegrityInfo) {
	c.leading(func(s *Service) { out = s.Integrity() })
	return out
}

// ScrubNow implements InspectSource.
func (c *cluster) ScrubNow() (daemons int) {
	c.leading(func(s *Service) { daemons = s.ScrubNow() })
	return daemons
}

// ReleaseCorrupt implements InspectSource.
func (c *cluster) ReleaseCorrupt(segment string) (ranges int) {
	c.leading(func(s *Service) { ranges = s.ReleaseCorrupt(segment) })
	return ranges
}

// Bundles implements BundleSource.
func (c *cluster) Bundles(f catalog.BundleFilter, after string, limit int) (list []catalog.BundleInfo, next string) {
	c.leading(func(s *Service) { list, next = s.Bundles(f, after, limit) })
	return list, next
}

// RecentBundles implements BundleSource.
func (c *cluster) RecentBundles(limit int) (list []catalog.BundleInfo, more int) {
	c.leading(func(s *Service) { list, more = s.RecentBundles(limit) })
	return list, more
}

// Verified implements BundleSource.
func (c *cluster) Verified(id string) (yes bool) {
	c.leading(func(s *Service) { yes = s.Verified(id) })
	return yes
}

// Bundle implements BundleSource.
func (c *cluster) Bundle(id string) (info catalog.BundleInfo, members []catalog.BundleMember, readers []Reader, ok bool) {
	c.leading(func(s *Service) { info, members, readers, ok = s.Bundle(id) })
	return info, members, readers, ok
}

// ReclaimBundle implements BundleSource.
func (c *cluster) ReclaimBundle(id string) (info catalog.BundleInfo, err error) {
	err = catalog.ErrUnavailableStatus
	c.leading(func(s *Service) { info, err = s.ReclaimBundle(id) })
	return info, err
}

// CollectBundles implements BundleSource.
func (c *cluster) CollectBundles(dryRun bool) (list []catalog.BundleInfo, err error) {
	err = catalog.ErrUnavailableStatus
	c.leading(func(s *Service) { list, err = s.CollectBundles(dryRun) })
	return list, err
}

// Workloads implements WorkloadSource.
func (c *cluster) Workloads() (stats []catalog.WorkloadStat, from Origin) {
	c.leading(func(s *Service) { stats, from = s.Workloads() })
	return stats, from
}

// ChangeWorkloads implements WorkloadSource.
func (c *cluster) ChangeWorkloads(edit func(rules []catalog.Workload) ([]catalog.Workload, error)) (err error) {
	err = catalog.ErrUnavailableStatus
	c.leading(func(s *Service) { err = s.ChangeWorkloads(edit) })
	return err
}

// TenantStats implements TenantSource.
func (c *cluster) TenantStats() (list []catalog.TenantStat, capacity uint64, err error) {
	err = catalog.ErrUnavailableStatus
	c.leading(func(s *Service) { list, capacity, err = s.TenantStats() })
	return list, capacity, err
}

// SetTenantQuota implements TenantSource.
func (c *cluster) SetTenantQuota(ctx context.Context, name string, bytes uint64) (err error) {
	err = catalog.ErrUnavailableStatus
	c.leading(func(s *Service) { err = s.SetTenantQuota(ctx, name, bytes) })
	return err
}

// DropTenantQuota implements TenantSource.
func (c *cluster) DropTenantQuota(ctx context.Context, name string) (err error) {
	err = catalog.ErrUnavailableStatus
	c.leading(func(s *Service) { err = s.DropTenantQuota(ctx, name) })
	return err
}

// RemoveAllOf implements TenantSource.
func (c *cluster) RemoveAllOf(force bool, tenant string) (removed int64, err error) {
	err = catalog.ErrUnavailableStatus
	c.leading(func(s *Service) { removed, err = s.RemoveAllOf(force, tenant) })
	return removed, err
}

// CreateDrain implements DrainSource.
func (c *cluster) CreateDrain(segments, targets []string, concurrency int) (id wire.UUID, err error) {
	err = catalog.ErrUnavailableStatus
	c.leading(func(s *Service) { id, err = s.CreateDrain(segments, targets, concurrency) })
	return id, err
}

// Drain implements DrainSource.
func (c *cluster) Drain(id wire.UUID) (job DrainJob, ok bool) {
	c.leading(func(s *Service) { job, ok = s.Drain(id) })
	return job, ok
}

// CancelDrain implements DrainSource.
func (c *cluster) CancelDrain(id wire.UUID) (err error) {
	err = catalog.ErrUnavailableStatus
	c.leading(func(s *Service) { err = s.CancelDrain(id) })
	return err
}

// FilePath implements AdminSource.
func (c *cluster) FilePath(key string) (path string) {
	c.leading(func(s *Service) { path = s.FilePath(key) })
	return path
}

// EventStats implements AdminSource.
func (c *cluster) EventStats() (on bool, stats kvevents.Stats) {
	c.leading(func(s *Service) { on, stats = s.EventStats() })
	return on, stats
}
