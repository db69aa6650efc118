package catalog

import (
	"sync/atomic"

	"mooncake/internal/limits"
)

// An ask is a put in need of room. Its own group and bundle are spared: a put must not take its bundle's first members
// to store its last.
type ask struct {
	now Time
	bounds
	write  *write
	number uint32
	self   name // the object that the put replaces
	group  name // the put's group, if it has members
	bundle name // the put's, if it has members
	soft   bool // soft pinned objects may go
	unread bool // bundles that nobody has read yet may go
	reuse  bool // ranges that readers may be at may go
	apart  bool // only segments of machines that hold no copy yet

	onlyOwn bool   // only the put's own workload may lose anything
	last    bool   // even what it reserved
	walled  bool   // no workload with a reservation may lose anything
	had     uint64 // bytes that the put takes from readers
	short   int    // why the limits of workloads refuse the put; 0 when they do not
}

// victimLists are what may be evicted, in the order in which it goes.
var victimLists = [...]uint8{listSpent, listAge, listSoft, listUnread}

// takes tells whether the put may have what is in a list.
func (a *ask) takes(list uint8) bool {
	switch list {
	case listSpent, listAge:
		return true
	case listSoft:
		return a.soft
	case listUnread:
		return a.unread
	}
	return false
}

// A trialRange is a range set free on trial.
type trialRange struct {
	seg    *segment
	offset uint64
	size   uint64
	record name
}

// age tells since when nothing is known of an object that is alone, or of a unit, as a bucket. It may go when its bucket
// is not after the present one. What is leased has a bucket in the future; what must stay for other reasons is in none of
// the ages.
func (c *Catalog) age(n name, now Time) uint32 {
	at := int64(0)
	if c.s.isUnit(n) {
		u := c.s.unit(n)
		at = max(u.lastTouch, atomic.LoadInt64(&u.lease))
	} else {
		r := c.s.record(n)
		at = max(r.time, atomic.LoadInt64(&r.lease))
	}
	bucket := bucketOf(at)
	if at > int64(now) && bucket == bucketOf(int64(now)) {
		bucket++ // in the present bucket, but still to come
	}
	return bucket
}

// candidate gives the next record or unit that may go. Those about which something later is known move to where they
// belong, and are met again there if that is not in the future.
func (c *Catalog) candidate(w *walker, now Time) name {
	for n := w.step(c.s); n != 0; n = w.step(c.s) {
		age := c.age(n, now)
		if age <= c.s.node(n).bucket {
			return n
		}
		w.list.cut(c.s, n)
		w.list.add(c.s, n, age)
	}
	return 0
}

// firstOf and nextOf go through the records of a unit, or give the one record that is alone.
func (c *Catalog) firstOf(n name) name {
	if c.s.isUnit(n) {
		return c.s.unit(n).head
	}
	return n
}

func (c *Catalog) nextOf(m name) name { return c.s.record(m).unitNext }

// wholeOf gives the unit of a record, or the record if it is alone: what goes together.
func (c *Catalog) wholeOf(n name) name {
	if un := c.s.record(n).unit; un != 0 {
		return un
	}
	return n
}

// freeEffort is what setting a range free on trial costs, compared with passing an object by.
const freeEffort = 16

// makeRoom evicts what a put needs on one of the segments that can serve it, and takes the range. When that is
// impossible nothing is changed.
func (c *Catalog) makeRoom(a *ask) (*segment, uint64, bool) {
	c.heedReads()
	if !c.within(&a.bounds) {
		if seg, offset, ok, tried := c.makeWay(a); tried {
			return seg, offset, ok
		}
	}
	fits := false
	for _, seg := range c.s.segments.mounted {
		fits = fits || c.eligible(seg, a)
	}
	if !fits {
		return nil, 0, false
	}
	c.stats.EvictionAttempts++
	for range limits.EvictRaces {
		seg, offset, ok := c.searchOwn(a)
		if !ok || !c.fill(a) {
			return nil, 0, false
		}
		if c.evict(a.now) {
			c.stats.EvictionSuccesses++
			return seg, offset, seg.space.Reserve(offset, a.size)
		}
	}
	return nil, 0, false
}

// search finds the victims for a put: ordinary objects, and soft pinned ones only when those are not enough.
func (c *Catalog) search(a *ask) (*segment, uint64, bool) {
	a.soft = false
	seg, offset, ok, more := c.tryOldest(a)
	if !ok && more {
		seg, offset, ok = c.searchWindows(a)
	}
	if ok || !c.cfg.AllowEvictSoftPinned || c.s.soft.count == 0 {
		return seg, offset, ok
	}
	a.soft = true
	seg, offset, ok, more = c.tryOldest(a)
	if !ok && more {
		return c.searchWindows(a)
	}
	return seg, offset, ok
}

// tryOldest sets the ranges of the oldest objects free, one unit after the other, until the put fits somewhere; then it
// takes everything back and keeps as victims those whose ranges the put will cover. More says that it gave up before it
// had tried all.
func (c *Catalog) tryOldest(a *ask) (seg *segment, offset uint64, ok, more bool) {
	p := &c.placer
	p.trial = p.trial[:0]
	order := c.orderFor(a)
	effort := c.tries * freeEffort
	for _, list := range victimLists {
		if !a.takes(list) {
			continue
		}
		w := order.walk(c.s.agesOf(list), a.now)
		for n := c.candidate(&w, a.now); n != 0 && seg == nil; n = c.candidate(&w, a.now) {
			if effort < 0 {
				more = true
				break
			}
			effort--
			if c.stays(n, a) || !c.yields(order, n) {
				continue
			}
			before := len(p.trial)
			seg = c.freeOnTrial(n, a)
			c.gone(order, n)
			effort -= (len(p.trial) - before) * freeEffort
		}
	}
	if seg != nil {
		offset, ok = seg.space.Alloc(a.size)
		seg.free(offset, a.size)
	}
	for i := range p.trial {
		t := &p.trial[i]
		t.seg.space.Reserve(t.offset, t.size)
	}
	c.startVictims()
	if ok {
		for i := range p.trial {
			if t := &p.trial[i]; t.seg == seg && t.offset < offset+a.size && offset < t.offset+t.size {
				c.addVictims(c.wholeOf(t.record))
			}
		}
	}
	return seg, offset, ok, !ok && (more || c.aside >= a.now || order.shut != shareSet{})
}

// freeOnTrial sets the ranges of an object or a unit free where that can help, and returns a segment on which the put
// then fits.
func (c *Catalog) freeOnTrial(n name, a *ask) (fits *segment) {
	for m := c.firstOf(n); m != 0; m = c.nextOf(m) {
		size := c.s.record(m).size
		for rn := m; rn != 0; {
			rep := c.s.replica(rn)
			rn = rep.more
			seg := c.s.segments.list[rep.segment]
			if seg.dead.Load() || !c.eligible(seg, a) {
				continue
			}
			seg.free(rep.offset, size)
			c.placer.trial = append(c.placer.trial, trialRange{seg, rep.offset, size, m})
			if fits == nil && seg.space.LargestFree() >= a.size {
				fits = seg
			}
		}
	}
	return fits
}

// startVictims empties the list of victims.
func (c *Catalog) startVictims() { c.placer.victims = c.placer.victims[:0] }

// addVictims puts an object or a unit on the list of victims, with all that goes with it.
func (c *Catalog) addVictims(n name) {
	if !c.knotted(n) {
		c.addVictim(n)
		return
	}
	tied, _ := c.tied(n)
	for _, un := range tied {
		c.addVictim(un)
	}
}

// addVictim puts an object, or all members of a unit, on the list of victims, once.
func (c *Catalog) addVictim(n name) {
	if first := c.firstOf(n); c.s.record(first).marks&markVictim != 0 {
		return
	}
	for m := c.firstOf(n); m != 0; m = c.nextOf(m) {
		c.s.record(m).marks |= markVictim
		c.placer.victims = append(c.placer.victims, m)
	}
}

// evict hides the victims from readers and removes them. If one was read since it was chosen, all stay: false.
func (c *Catalog) evict(now Time) bool {
	victims := c.placer.victims
	hidden := 0
	for hidden < len(victims) && c.hide(victims[hidden], now) {
		hidden++
	}
	spared := hidden < len(victims)
	for _, n := range victims {
		r := c.s.record(n)
		r.marks &^= markVictim
		// Members of a group are leased by its lease, which a reader of one not hidden yet may have raised.
		spared = spared || r.unit != 0 && atomic.LoadInt64(&c.s.unit(r.unit).lease) > int64(now)
	}
	if spared {
		for _, n := range victims[:hidden] {
			c.show(n)
		}
		return false
	}
	c.noteUnread(now, victims)
	c.begin()
	c.expectDrops(victims)
	for _, n := range victims {
		c.stats.EvictedKeys++
		c.stats.EvictedBytes += c.s.record(n).size * uint64(c.s.record(n).replicas)
		c.countEvicted(n)
		c.noteDrop(now, n, CauseEvict, 0, 0)
	}
	c.commit()
	return true
}

// hide makes an object absent for readers unless it, or its group, is leased. Until the eviction is decided they wait: it
// may have to be shown again.
func (c *Catalog) hide(n name, now Time) bool {
	r := c.s.record(n)
	sh := c.s.shard(c.s.hash(r.key()))
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if atomic.LoadInt64(&r.lease) > int64(now) || r.unit != 0 && atomic.LoadInt64(&c.s.unit(r.unit).lease) > int64(now) {
		return false
	}
	r.flags |= flagHidden | flagClosing
	return true
}

// show undoes hide.
func (c *Catalog) show(n name) {
	r := c.s.record(n)
	sh := c.s.shard(c.s.hash(r.key()))
	sh.mu.Lock()
	r.flags &^= flagHidden | flagClosing
	sh.mu.Unlock()
}
