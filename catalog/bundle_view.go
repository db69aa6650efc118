package catalog

import (
	"slices"
	"strings"
	"sync/atomic"

	"mooncake/bundle"
	"mooncake/internal/limits"
)

// stateOf tells how far a bundle has come.
func (c *Catalog) stateOf(b *bundleRecord, now Time) BundleState {
	ours := b.facts & (factCut | factUnlisted | factEvicted | factCollected)
	switch {
	case b.members == 0 && b.published == 0 && ours&factCollected == 0:
		return BundleAborted
	case b.members == 0 && b.lost > 0 && ours == 0:
		return BundleDamaged
	case b.members == 0:
		return BundleReclaimed
	case ours&(factCut|factCollected) != 0:
		return BundleReclaiming
	case b.published == 0 && b.deadAt == 0:
		return BundleStaging
	case b.published == 0:
		return BundleOrphan
	case c.s.adopted(b):
		return BundleAdopted
	case c.s.unlisted(b):
		return BundleOrphan
	case b.lost > 0:
		return BundleDamaged
	case c.reading(b, now):
		return BundleReading
	}
	return BundlePublished
}

// reading tells whether somebody got an address of a bundle's members less than a lease ago.
func (c *Catalog) reading(b *bundleRecord, now Time) bool {
	last := atomic.LoadInt64(&b.lastRead)
	return last != 0 && last+c.cfg.LeaseMs > int64(now)
}

// bundleInfo copies out what there is to know of a bundle.
func (c *Catalog) bundleInfo(b *bundleRecord, now Time) BundleInfo {
	info := BundleInfo{
		ID: strings.Clone(b.id()), Writer: c.s.owners.list[b.client].id, State: c.stateOf(b, now),
		Created: Time(b.created), LastWrite: Time(b.lastWrite), Published: Time(b.published),
		LastRead: Time(atomic.LoadInt64(&b.lastRead)), Reads: uint64(atomic.LoadUint32(&b.reads)),
		Payload:        b.sums[partOf(bundle.Buffer)].count(),
		Meta:           b.sums[partOf(bundle.Meta)].count(),
		Manifest:       b.sums[partOf(bundle.Manifest)].count(),
		AllocatedBytes: b.allocated, Keys: uint64(b.members), LostKeys: uint64(b.lost),
		Evicted: b.facts&factEvicted != 0, Workload: c.workloadOfBundle(b),
	}
	if b.unit != 0 && c.s.unit(b.unit).group {
		info.Group = strings.Clone(c.s.unit(b.unit).name())
	}
	if b.members == 0 {
		info.Reclaimed = Time(b.touched)
	}
	return info
}

func (p *partSum) count() PartCount {
	return PartCount{Keys: uint64(p.keys), CompleteKeys: uint64(p.done), Bytes: p.bytes, CompleteBytes: p.doneBytes}
}

func (b *bundleRecord) bytes() (sum uint64) {
	for i := range b.sums {
		sum += b.sums[i].bytes
	}
	return sum
}

// workloadOfBundle names the workload of a bundle's first member.
func (c *Catalog) workloadOfBundle(b *bundleRecord) string {
	if b.head == 0 {
		return ""
	}
	return c.s.workloadOf(b.head)
}

// remembered tells whether a bundle is there, or went not too long ago.
func (b *bundleRecord) remembered(now Time) bool {
	return b.members > 0 || b.touched+limits.BundleTombstoneMs >= int64(now)
}

func (c *Catalog) passes(b *bundleRecord, now Time, f *BundleFilter) bool {
	id := b.id()
	if !b.remembered(now) || !strings.HasPrefix(id, f.Prefix) {
		return false
	}
	if f.Partition != "" {
		dir, _, _ := cutLast(id)
		if _, partition, _ := cutLast(dir); partition != f.Partition {
			return false
		}
	}
	return (f.State == BundleNone || c.stateOf(b, now) == f.State) &&
		(f.OlderThanMs == 0 || int64(now)-b.created >= f.OlderThanMs) &&
		(f.Group == "" || b.unit != 0 && c.s.unit(b.unit).group && c.s.unit(b.unit).name() == f.Group) &&
		(f.Workload == "" || c.workloadOfBundle(b) == f.Workload)
}

// cutLast cuts a text at its last slash.
func cutLast(text string) (before, after string, found bool) {
	at := strings.LastIndexByte(text, '/')
	if at < 0 {
		return "", text, false
	}
	return text[:at], text[at+1:], true
}

// Bundles lists bundles in the order of their ids, those that follow after and at most limit of them. Next is where the
// list goes on; "" at its end. Others get the lock in between, so bundles that come or go meanwhile may be missed.
func (c *Catalog) Bundles(now Time, filter BundleFilter, after string, limit int) (list []BundleInfo, next string) {
	var ids []string
	full, limit := false, max(limit, 0)
	c.eachBundle(func(b *bundleRecord) {
		id := b.id()
		if id <= after || full && id >= ids[len(ids)-1] || !c.passes(b, now, &filter) {
			return
		}
		at, _ := slices.BinarySearch(ids, id)
		if ids = slices.Insert(ids, at, strings.Clone(id)); len(ids) > limit+1 {
			ids = ids[:limit+1]
		}
		full = len(ids) == limit+1
	})
	if full {
		ids = ids[:limit]
		if limit > 0 {
			next = ids[limit-1]
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if bn := c.s.findBundle(id + "/"); bn != 0 {
			list = append(list, c.bundleInfo(c.s.bundle(bn), now))
		}
	}
	return list, next
}

// BundleTotals adds up the bundles by state and workload.
func (c *Catalog) BundleTotals(now Time) (totals []BundleTotal) {
	c.eachBundle(func(b *bundleRecord) {
		if !b.remembered(now) {
			return
		}
		state, workload := c.stateOf(b, now), c.workloadOfBundle(b)
		at := slices.IndexFunc(totals, func(t BundleTotal) bool { return t.State == state && t.Workload == workload })
		if at < 0 {
			at, totals = len(totals), append(totals, BundleTotal{State: state, Workload: strings.Clone(workload)})
		}
		t := &totals[at]
		t.Bundles++
		t.Keys += uint64(b.members)
		t.Bytes += b.bytes()
		t.Allocated += b.allocated
	})
	return totals
}

// Bundle returns a bundle and its members in the order of their keys; false when nothing is known of it. The replicas'
// segments are valid whatever becomes of the bundle.
func (c *Catalog) Bundle(now Time, id string) (BundleInfo, []BundleMember, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bn := c.s.findBundle(id + "/")
	if bn == 0 || !c.s.bundle(bn).remembered(now) {
		return BundleInfo{}, nil, false
	}
	b := c.s.bundle(bn)
	var members []BundleMember
	for m := b.head; m != 0; m = c.s.record(m).bundleNext {
		r := c.s.record(m)
		bm := BundleMember{
			Key: strings.Clone(r.key()), Part: r.part, Size: r.size, Complete: r.done, LastRead: Time(atomic.LoadInt64(&r.handed)),
		}
		for rn := m; rn != 0; {
			rep := c.s.replica(rn)
			rn = rep.more
			if seg := c.s.segments.list[rep.segment]; !seg.dead.Load() {
				bm.Replicas = append(bm.Replicas, Replica{ID: rep.id, Segment: &seg.info, Offset: rep.offset, Size: r.size, Status: rep.status})
			}
		}
		members = append(members, bm)
	}
	slices.SortFunc(members, func(a, b BundleMember) int { return strings.Compare(a.Key, b.Key) })
	return c.bundleInfo(b, now), members, true
}

// eachBundle visits all bundles, with and without members, in the order of memory. It lets others have the lock in
// between.
func (c *Catalog) eachBundle(visit func(b *bundleRecord)) {
	var at cursor
	c.inSlices(func() bool {
		for range limits.CatalogSliceItems {
			bn := c.s.scanKind(&at, kindBundle)
			if bn == 0 {
				return false
			}
			visit(c.s.bundle(bn))
		}
		return true
	})
}
