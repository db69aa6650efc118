package catalog

import (
	"strings"
	"sync"
	"sync/atomic"

	"mooncake/bundle"
	"mooncake/internal/limits"
)

// firstReads holds the bundles that were read for the first time since a writer last looked. Its lock is a leaf.
type firstReads struct {
	any  atomic.Bool
	mu   sync.Mutex
	list []firstRead
	cut  bool // there were more
}

type firstRead struct {
	prefix        string
	published, at int64
}

// noteRead notes that somebody got the address of a bundle's member. The caller holds the shard's lock.
func (c *Catalog) noteRead(bn name, now Time) {
	b := c.s.bundle(bn)
	published := atomic.LoadInt64(&b.published)
	if published == 0 {
		return
	}
	old := atomic.LoadInt64(&b.lastRead)
	for {
		if old >= int64(now) {
			return
		}
		if atomic.CompareAndSwapInt64(&b.lastRead, old, int64(now)) {
			break
		}
		old = atomic.LoadInt64(&b.lastRead)
	}
	if old != 0 && old+c.cfg.LeaseMs > int64(now) {
		return
	}
	atomic.AddUint32(&b.reads, 1)
	if old != 0 {
		return
	}
	f := &c.firsts
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) >= limits.BundleNews || b.nameBytes > limits.BundleTextBytes {
		f.cut = true
	} else {
		f.list = append(f.list, firstRead{strings.Clone(b.prefix()), published, int64(now)})
	}
	f.any.Store(true)
}

// heedReads lets the eviction know of the bundles that were read since it was last called.
func (c *Catalog) heedReads() {
	f := &c.firsts
	if !f.any.Load() {
		return
	}
	f.mu.Lock()
	list, cut := f.list, f.cut
	f.list, f.cut = nil, false
	f.any.Store(false)
	f.mu.Unlock()
	for i := range list {
		bn := c.s.findBundle(list[i].prefix)
		if bn == 0 || c.s.bundle(bn).published != list[i].published {
			continue
		}
		c.heedRead(bn)
		if news := &c.watch.news.HandedOff; len(*news) < limits.BundleNews {
			b := c.s.bundle(bn)
			*news = append(*news, BundleTime{b.text(), c.workloadOfBundle(b), list[i].at - list[i].published})
		}
	}
	if !cut {
		return
	}
	var at cursor
	for bn := c.s.scanKind(&at, kindBundle); bn != 0; bn = c.s.scanKind(&at, kindBundle) {
		if atomic.LoadInt64(&c.s.bundle(bn).lastRead) != 0 {
			c.heedRead(bn)
		}
	}
}

func (c *Catalog) heedRead(bn name) {
	if b := c.s.bundle(bn); b.members > 0 && b.facts&factRead == 0 {
		b.facts |= factRead
		c.s.settleBundle(bn)
	}
}

// text copies the id out of the record, or as much of it as a line or a label should have.
func (b *bundleRecord) text() string {
	id := b.id()
	return strings.Clone(id[:min(len(id), limits.BundleTextBytes)])
}

// notePublished adds to the news that a bundle was published by the end of a write, if it was.
func (c *Catalog) notePublished(n name) {
	r := c.s.record(n)
	if r.part != bundle.Manifest || r.bundle == 0 || !r.done {
		return
	}
	b := c.s.bundle(r.bundle)
	if b.published != r.time {
		return
	}
	c.stats.Bundles.Published++
	if news := &c.watch.news.Published; len(*news) < limits.BundleNews {
		*news = append(*news, BundleTime{b.text(), c.workloadOfBundle(b), b.published - b.created})
	}
}

// noteUnread counts the bundles among the victims of an eviction that nobody has read.
func (c *Catalog) noteUnread(now Time, victims []name) {
	st := &c.stats.Bundles
	for _, n := range victims {
		bn := c.s.record(n).bundle
		if bn == 0 || c.s.bundle(bn).head != n || c.s.bundle(bn).shows&showUnread == 0 {
			continue // each is counted with the first of its members
		}
		b := c.s.bundle(bn)
		st.EvictedUnread++
		st.EvictedUnreadBytes += b.allocated
		c.tell(&c.watch.news.EvictedUnread, b, now)
	}
}
