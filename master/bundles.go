package master

import (
	"sync"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/metrics"
)

// Bundles implements BundleSource.
func (s *Service) Bundles(f catalog.BundleFilter, after string, limit int) (list []catalog.BundleInfo, next string) {
	return s.cat.Bundles(s.clock.Now(), f, after, limit)
}

// RecentBundles implements BundleSource.
func (s *Service) RecentBundles(limit int) (list []catalog.BundleInfo, more int) {
	return s.cat.RecentBundles(s.clock.Now(), limit)
}

// Bundle implements BundleSource.
func (s *Service) Bundle(id string) (catalog.BundleInfo, []catalog.BundleMember, []Reader, bool) {
	now := s.clock.Now()
	info, members, ok := s.cat.Bundle(now, id)
	if !ok {
		return info, nil, nil, false
	}
	return info, members, s.families.readersOf(id, now-catalog.Time(s.cfg.LeaseTTL.Milliseconds())), true
}

// ReclaimBundle implements BundleSource.
func (s *Service) ReclaimBundle(id string) (catalog.BundleInfo, error) {
	info, err := s.cat.ReclaimBundle(s.clock.Now(), id)
	if err == nil {
		err = s.history.wait()
	}
	if err == nil {
		s.log.Info("bundle reclaimed by the admin port", bundleFields("bundle_reclaimed", &info)...)
	}
	return info, err
}

// CollectBundles implements BundleSource.
func (s *Service) CollectBundles(dryRun bool) ([]catalog.BundleInfo, error) {
	list := s.cat.CollectBundles(s.clock.Now(), dryRun)
	if err := s.history.wait(); err != nil {
		return nil, err
	}
	if !dryRun {
		s.log.Info("bundles collected by the admin port", zap.String("action", "bundles_collected"), zap.Int("bundles", len(list)))
	}
	return list, nil
}

func bundleFields(action string, b *catalog.BundleInfo) []zap.Field {
	return []zap.Field{
		zap.String("action", action), zap.String("bundle", printable(shortened(b.ID))), zap.String("state", b.State.String()),
		zap.String("workload", b.Workload), zap.String("writer", b.Writer.String()),
		zap.Uint64("keys", b.Keys), zap.Uint64("allocated_bytes", b.AllocatedBytes),
	}
}

// bundleTimes are the histograms of how long bundles take, by workload. Its lock is a leaf.
type bundleTimes struct {
	mu   sync.Mutex
	list map[string]*metrics.BundleTimes
}

// note counts what a sweep found out.
func (t *bundleTimes) note(news *catalog.BundleNews) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range news.Published {
		t.of(b.Workload).Publish.Observe(uint64(max(b.Ms, 0)))
	}
	for _, b := range news.HandedOff {
		t.of(b.Workload).Handoff.Observe(uint64(max(b.Ms, 0)))
	}
}

func (t *bundleTimes) of(workload string) *metrics.BundleTimes {
	if t.list == nil {
		t.list = map[string]*metrics.BundleTimes{}
	}
	if t.list[workload] == nil {
		t.list[workload] = &metrics.BundleTimes{Workload: workload}
	}
	return t.list[workload]
}

// read copies the histograms of the given workloads, and forgets those of workloads that are no more.
func (t *bundleTimes) read(workloads []string) []metrics.BundleTimes {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := make(map[string]*metrics.BundleTimes, len(workloads))
	out := make([]metrics.BundleTimes, 0, len(workloads))
	for _, w := range workloads {
		kept[w] = t.of(w)
		out = append(out, *kept[w])
	}
	t.list = kept
	return out
}

// bundleLog tells which bundles went without a reader's doing: one line each, but not more than a number in a while; what
// is beyond is told in sums. It belongs to the goroutine that sweeps.
type bundleLog struct {
	logger *zap.Logger
	until  catalog.Time // of the present while
	lines  int
	beyond [len(bundleEvents)]struct{ bundles, bytes uint64 }
}

// bundleEvents are the kinds of news that have lines.
var bundleEvents = [...]struct {
	action, text string
	list         func(*catalog.BundleNews) []catalog.BundleInfo
}{
	{
		"evicted_unread", "bundle evicted before anybody read it",
		func(n *catalog.BundleNews) []catalog.BundleInfo { return n.EvictedUnread },
	},
	{
		"bundle_collected", "bundle given up: its writer is gone, or nothing happened to it for too long",
		func(n *catalog.BundleNews) []catalog.BundleInfo { return n.Collected },
	},
	{
		"bundle_retired", "bundle reclaimed by a rule of retention",
		func(n *catalog.BundleNews) []catalog.BundleInfo { return n.Retired },
	},
}

// tell writes the lines of a sweep, and what was held back once its while is over.
func (l *bundleLog) tell(now catalog.Time, news *catalog.BundleNews) {
	if now >= l.until {
		l.flush()
		l.until, l.lines = now+limits.BundleLogMs, 0
	}
	for e, event := range bundleEvents {
		list := event.list(news)
		for i := range list {
			if l.lines < limits.BundleLogLines {
				l.lines++
				l.logger.Warn(event.text, bundleFields(event.action, &list[i])...)
				continue
			}
			l.beyond[e].bundles++
			l.beyond[e].bytes += list[i].AllocatedBytes
		}
	}
}

func (l *bundleLog) flush() {
	for e, event := range bundleEvents {
		if sum := &l.beyond[e]; sum.bundles > 0 {
			l.logger.Warn(event.text+": more of the kind", zap.String("action", event.action),
				zap.Uint64("bundles", sum.bundles), zap.Uint64("allocated_bytes", sum.bytes))
			sum.bundles, sum.bytes = 0, 0
		}
	}
}

// Verified implements BundleSource.
func (s *Service) Verified(id string) bool { return s.verifier.knows(id) }

// BundleFigures implements metrics.Source.
func (s *Service) BundleFigures() metrics.Bundles {
	counts := s.cat.Stats().Bundles
	out := metrics.Bundles{
		Orphans: counts.Collected, CollectedBytes: counts.CollectedBytes, EvictedUnread: counts.EvictedUnread,
		Published: counts.Published, Retired: counts.Retired, LateWrites: counts.LateWrites,
		Verified: s.verifier.verified.Load(), Missed: s.verifier.damaged.Load(), Unseen: s.verifier.passed.Load(),
	}
	at := map[string]int{}
	for i, name := range bundleStates() {
		at[name] = i
		out.States = append(out.States, metrics.BundleState{State: name})
	}
	for _, t := range s.cat.BundleTotals(s.clock.Now()) {
		sum := &out.States[at[t.State.String()]]
		sum.Bundles += t.Bundles
		sum.Bytes += t.Allocated
		out.ByWorkload = append(out.ByWorkload, metrics.BundleState{Workload: t.Workload, State: t.State.String(), Bundles: t.Bundles, Bytes: t.Allocated})
	}
	names := []string{""}
	for _, w := range s.cat.Workloads() {
		names = append(names, w.Name)
	}
	out.Times = s.bundleTimes.read(names)
	return out
}
