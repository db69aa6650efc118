package catalog

// A reader that got the address of an object may be at its ranges for the time of a lease. When the object goes in the
// meantime, they wait in quarantine. A put that would be refused otherwise may have them before their time.

// reuse takes a range that readers may be at, from what was handed out longest ago, without evicting anything.
func (c *Catalog) reuse(a *ask) (fits *segment, offset uint64, ok bool) {
	q, p := &c.s.heldBack, &c.placer
	p.read, p.trial = p.read[:0], p.trial[:0]
	for len(p.read) < c.tries && len(q.handOuts) > 0 && fits == nil {
		top := q.handOuts.pop()
		seg, held, ok := q.find(&c.s.segments, top.item)
		if !ok {
			continue // freed in the meantime
		}
		p.read = append(p.read, top)
		if !c.eligible(seg, a) {
			continue
		}
		seg.free(top.item.offset, held.size)
		p.trial = append(p.trial, trialRange{seg: seg, offset: top.item.offset, size: held.size})
		if seg.space.LargestFree() >= a.size {
			fits = seg
		}
	}
	if fits != nil {
		offset, ok = fits.space.Alloc(a.size)
		fits.free(offset, a.size)
	}
	p.reused = p.reused[:0]
	for i := range p.trial {
		t := &p.trial[i]
		t.seg.space.Reserve(t.offset, t.size)
		if ok && t.seg == fits && t.offset < offset+a.size && offset < t.offset+t.size {
			p.reused = append(p.reused, ReplicaChange{Segment: fits.info.ID, Offset: t.offset, Size: t.size})
		}
	}
	for _, top := range p.read {
		q.handOuts.push(top.at, top.item)
	}
	if !ok || !c.reuseWithin(a) {
		return nil, 0, false
	}
	c.release(a.now)
	return fits, offset, fits.space.Reserve(offset, a.size)
}

// reuseWindow looks at whole segments for a place made of anything that may go at all: what readers may be at, and
// victims of eviction.
func (c *Catalog) reuseWindow(a *ask) (*segment, uint64, bool) {
	if c.s.heldBack.reading == 0 {
		return nil, 0, false
	}
	a.reuse = true
	defer func() { a.reuse = false }()
	for _, soft := range [...]bool{false, true} {
		a.soft = soft
		if soft && !c.cfg.AllowEvictSoftPinned {
			break
		}
		seg, offset, ok := c.searchWindows(a)
		if !ok || !c.fill(a) || !c.evict(a.now) {
			continue
		}
		c.placer.reused = c.placer.reused[:0]
		for _, cl := range c.placer.cells {
			if cl.record == 0 && cl.offset < offset+a.size && offset < cl.end {
				c.placer.reused = append(c.placer.reused, ReplicaChange{Segment: seg.info.ID, Offset: cl.offset, Size: cl.end - cl.offset})
			}
		}
		c.release(a.now)
		return seg, offset, seg.space.Reserve(offset, a.size)
	}
	return nil, 0, false
}

// release ends the quarantine of the ranges that a put takes from readers.
func (c *Catalog) release(now Time) {
	if len(c.placer.reused) == 0 {
		return
	}
	c.stats.HandOutReuses += uint64(len(c.placer.reused))
	c.begin()
	c.note(ChangeRelease, now).Replicas = c.placer.reused
	c.commit()
}
