package catalog

import (
	"cmp"
	"slices"
	"strings"

	"mooncake/bundle"
	"mooncake/internal/limits"
)

// bundleWatch is what a leader keeps of bundles beside their records.
type bundleWatch struct {
	dead    []deadBundle // of writers known to be dead, in the order in which they were
	news    BundleNews
	retired Time // when the rules of retention were last looked at
	since   Time // from when on this process heard of every write, without standing still
}

// A deadBundle is a bundle whose writer was known to be dead at a time, and may have come to life since.
type deadBundle struct {
	prefix string
	at     Time
}

// buryBundles marks the bundles that a client was writing to, alone, when it died. They may be evicted at once; what is left of
// them after WriterQuarantineMs goes.
func (c *Catalog) buryBundles(now Time, number uint32, at Time) {
	next := name(0)
	for bn := c.s.idle.head; bn != 0; bn = next {
		b := c.s.bundle(bn)
		next = b.next
		if b.client == number && Time(b.lastWrite) <= at && b.published == 0 && b.deadAt == 0 && b.facts&factWriters == 0 {
			b.deadAt = int64(now)
			c.watch.dead = append(c.watch.dead, deadBundle{strings.Clone(b.prefix()), now})
			c.s.settleBundle(bn)
		}
	}
}

// collectDead takes away a slice of the bundles whose writers died WriterQuarantineMs ago.
func (c *Catalog) collectDead(now Time) (more bool) {
	list := &c.watch.dead
	if len(*list) == 0 || (*list)[0].at+Time(c.cfg.WriterQuarantineMs) > now {
		return false
	}
	first := (*list)[0]
	if bn := c.s.findBundle(first.prefix); bn != 0 && c.s.bundle(bn).members > 0 && c.s.bundle(bn).deadAt == int64(first.at) {
		if c.collect(now, bn) {
			return true
		}
	}
	if *list = (*list)[1:]; len(*list) == 0 {
		*list = nil
	}
	return true
}

// collectIdle takes away a slice of the bundles to which nothing happened for too long.
func (c *Catalog) collectIdle(now Time) (more bool) {
	bn := c.s.idle.head
	if bn == 0 || !c.idle(c.s.bundle(bn), now) {
		return false
	}
	if c.s.adopted(c.s.bundle(bn)) { // a manifest came that may name it
		c.s.delistBundle(bn)
		return true
	}
	c.collect(now, bn)
	return true
}

func (c *Catalog) idle(b *bundleRecord, now Time) bool {
	return c.cfg.BundleStagingIdleMs > 0 && max(b.touched, int64(c.watch.since))+c.cfg.BundleStagingIdleMs <= int64(now)
}

// collect takes away a slice of a bundle that is of no use, and tells whether there is more of it.
func (c *Catalog) collect(now Time, bn name) (more bool) {
	b := c.s.bundle(bn)
	if b.facts&factCollected == 0 {
		c.stats.Bundles.Collected++
		c.tell(&c.watch.news.Collected, b, now)
	}
	more, bytes := c.takeAway(now, bn)
	c.stats.Bundles.CollectedBytes += bytes
	return more
}

// tell adds a bundle to a list of the news.
func (c *Catalog) tell(list *[]BundleInfo, b *bundleRecord, now Time) {
	if len(*list) < limits.BundleNews {
		info := c.bundleInfo(b, now)
		info.ID, info.Group = b.text(), info.Group[:min(len(info.Group), limits.BundleTextBytes)]
		*list = append(*list, info)
	}
}

// takeAway removes a slice of a bundle's members: payload first, the manifest last. Leases do not count; where somebody
// may be reading or writing, the ranges go into quarantine. When there is no more, the bundle may be forgotten.
func (c *Catalog) takeAway(now Time, bn name) (more bool, bytes uint64) {
	if c.s.segments.dying != nil && !c.s.pruneBundle(bn) {
		return false, 0
	}
	b := c.s.bundle(bn)
	c.begin()
	for _, part := range [...]bundle.Part{bundle.Buffer, bundle.Meta, bundle.Manifest} {
		for m := b.head; m != 0; m = c.s.record(m).bundleNext {
			if c.s.record(m).part != part {
				continue
			}
			if len(c.changes) >= limits.CatalogSliceItems {
				more = true
				break
			}
			c.noteTaken(now, m, b.deadAt != 0)
		}
	}
	for i := range c.changes {
		for _, rc := range c.changes[i].Replicas {
			bytes += rc.Size
		}
	}
	c.commit()
	return more, bytes
}

// noteTaken decides that a member of a bundle goes with it.
func (c *Catalog) noteTaken(now Time, m name, dead bool) {
	r := c.s.record(m)
	switch {
	case !r.isOpen():
		c.closeReads(m)
		until, handed := c.held(m, now)
		c.noteDrop(now, m, CauseReclaim, until, handed)
	case dead:
		c.stats.AbortedPuts++
		c.noteDrop(now, m, CauseReclaim, now+Time(c.cfg.WriterQuarantineMs), Never)
	default:
		c.stats.AbortedPuts++
		c.noteAside(now, m, CauseReclaim)
	}
}

// ReclaimBundle takes a bundle away: the payload first, the manifest last. What it alone adopted goes with it. It does not
// matter whether anything of it is left, as long as the bundle is remembered. What it was writing fails from now on.
func (c *Catalog) ReclaimBundle(now Time, id string) (BundleInfo, error) {
	prefix := id + "/"
	info, err := BundleInfo{}, error(ErrObjectNotFound)
	c.inSlices(func() (more bool) {
		bn := c.s.findBundle(prefix)
		if bn == 0 || !c.s.bundle(bn).remembered(now) {
			return false
		}
		err = nil
		if b := c.s.bundle(bn); b.members > 0 {
			info = c.bundleInfo(b, now)
			if other := c.adoptedBy(b); other != 0 {
				c.takeAway(now, other)
				return true
			}
			more, _ = c.takeAway(now, bn)
			info.State, info.Reclaimed, info.Keys, info.AllocatedBytes = BundleReclaimed, now, 0, 0
		}
		if bn = c.s.findBundle(prefix); bn != 0 {
			info = c.bundleInfo(c.s.bundle(bn), now)
		}
		return more
	})
	return info, err
}

// adoptedBy gives a bundle whose payload nothing but the manifest of this one can name; 0 when there is none.
func (c *Catalog) adoptedBy(b *bundleRecord) name {
	if b.unit == 0 || b.manifests() == 0 {
		return 0
	}
	u := c.s.unit(b.unit)
	if !u.group || u.bundles == 1 || u.manifests > b.manifests() {
		return 0
	}
	for m := u.head; m != 0; m = c.s.record(m).unitNext {
		if bn := c.s.record(m).bundle; bn != 0 && c.s.adopted(c.s.bundle(bn)) {
			return bn
		}
	}
	return 0
}

// CollectBundles takes away what no reader can have any use for: bundles of dead writers, payload that no manifest names,
// and what has been idle for too long, with dryRun none of it. It lists them as they were.
func (c *Catalog) CollectBundles(now Time, dryRun bool) (list []BundleInfo) {
	var due []string
	c.mu.Lock()
	for bn := c.s.idle.head; bn != 0; bn = c.s.bundle(bn).next {
		b := c.s.bundle(bn)
		if !c.s.adopted(b) && (b.deadAt != 0 || c.s.unlisted(b) || c.idle(b, now)) {
			due = append(due, strings.Clone(b.prefix()))
			list = append(list, c.bundleInfo(b, now))
		}
	}
	c.mu.Unlock()
	if dryRun {
		return list
	}
	for _, prefix := range due {
		c.inSlices(func() bool {
			bn := c.s.findBundle(prefix)
			return bn != 0 && c.s.bundle(bn).list == bundleListIdle && c.collect(now, bn)
		})
	}
	return list
}

// retire takes away published bundles by the rules of retention.
func (c *Catalog) retire(now Time) {
	if len(c.cfg.Retention) == 0 || now-c.watch.retired < limits.BundleRetireMs {
		return
	}
	c.watch.retired = now
	type kept struct {
		prefix    string
		published int64
	}
	due, counted := []string{}, map[string][]kept{}
	c.eachBundle(func(b *bundleRecord) {
		if s := c.stateOf(b, now); s != BundlePublished && s != BundleDamaged {
			return
		}
		rule := c.retentionOf(b.id())
		switch {
		case rule == nil:
		case rule.MaxAgeMs > 0 && int64(now)-b.published >= rule.MaxAgeMs:
			due = append(due, strings.Clone(b.prefix()))
		case rule.MaxCount > 0:
			dir, _, _ := cutLast(b.id())
			dir = strings.Clone(dir)
			counted[dir] = append(counted[dir], kept{strings.Clone(b.prefix()), b.published})
		}
	})
	for dir, list := range counted {
		spare := len(list) - c.retentionOf(dir+"/").MaxCount
		if spare <= 0 {
			continue
		}
		slices.SortFunc(list, func(a, b kept) int {
			return cmp.Or(cmp.Compare(a.published, b.published), strings.Compare(a.prefix, b.prefix))
		})
		for _, k := range list[:spare] {
			due = append(due, k.prefix)
		}
	}
	for _, prefix := range due {
		c.inSlices(func() bool { return c.retireOne(now, prefix) })
	}
}

func (c *Catalog) retireOne(now Time, prefix string) (more bool) {
	bn := c.s.findBundle(prefix)
	if bn == 0 || c.s.bundle(bn).members == 0 {
		return false
	}
	b := c.s.bundle(bn)
	if b.facts&factCollected == 0 {
		if c.reading(b, now) {
			return false
		}
		c.stats.Bundles.Retired++
		c.tell(&c.watch.news.Retired, b, now)
	}
	more, bytes := c.takeAway(now, bn)
	c.stats.Bundles.RetiredBytes += bytes
	return more
}

// retentionOf gives the rule with the longest prefix that fits an id; nil when none does.
func (c *Catalog) retentionOf(id string) (rule *RetentionRule) {
	for i := range c.cfg.Retention {
		r := &c.cfg.Retention[i]
		if strings.HasPrefix(id, r.Prefix) && (rule == nil || len(r.Prefix) > len(rule.Prefix)) {
			rule = r
		}
	}
	return rule
}

// givenUp tells whether the bundle that a put belongs to was taken away while the same client was writing it. Its writer
// has to hear of that, or it would publish what is there no more.
func (c *Catalog) givenUp(w *write) bool {
	if w.bundle == 0 {
		return false
	}
	b := c.s.bundle(w.bundle)
	if b.facts&factCollected == 0 || !b.remembered(w.now) {
		return false
	}
	if b.members == 0 && (b.published != 0 || c.s.owners.list[b.client].id != w.client) {
		return false
	}
	c.stats.Bundles.LateWrites++
	return true
}
