package catalog

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
)

// touchedBundle is a bundle and when something last happened to it.
type touchedBundle struct {
	id string
	at int64
}

// latest orders bundles from the one that something happened to last.
func latest(a, b touchedBundle) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.id, b.id)) }

// RecentBundles lists up to limit bundles, from the one that something happened to last, and tells how many there are besides.
// It is at least one. Like Bundles it lets others have the lock in between.
func (c *Catalog) RecentBundles(now Time, limit int) (list []BundleInfo, more int) {
	limit = max(limit, 1)
	var kept []touchedBundle
	var last *touchedBundle // of the list, once that is full
	all := 0
	cut := func() {
		slices.SortFunc(kept, latest)
		if len(kept) >= limit {
			kept = kept[:limit]
			full := kept[limit-1]
			last = &full
		}
	}
	c.eachBundle(func(b *bundleRecord) {
		if !b.remembered(now) {
			return
		}
		all++
		t := touchedBundle{b.id(), max(b.created, b.lastWrite, b.published, b.touched, atomic.LoadInt64(&b.lastRead))}
		if last != nil && latest(*last, t) < 0 {
			return
		}
		t.id = strings.Clone(t.id)
		if kept = append(kept, t); len(kept) >= 2*limit {
			cut()
		}
	})
	cut()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range kept {
		if bn := c.s.findBundle(t.id + "/"); bn != 0 {
			list = append(list, c.bundleInfo(c.s.bundle(bn), now))
		}
	}
	return list, all - len(list)
}
