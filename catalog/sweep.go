package catalog

import "mooncake/internal/limits"

// sweeper is what one sweep remembers for the next.
type sweeper struct {
	last     Time
	started  bool
	evicting bool // above the watermark, and not yet below the target
}

// Sweep does what time asks for: it moves silent clients from stage to stage, drops unfinished objects whose time is up,
// soft pins and quarantines that end, and evicts above the watermark. It is to be called every 10 to 1,000 ms. Long work
// is done in slices between which others get the lock.
//
// A late call is a sign that the whole process stood still and heard no ping; so the clients get that time back, and
// bundles count as idle from then on.
func (c *Catalog) Sweep(now Time) (out Swept) {
	c.mu.Lock()
	if !c.sweeper.started {
		c.watch.since = now
	}
	if gap := now - c.sweeper.last; c.sweeper.started && gap > limits.SweepGapMs {
		c.watch.since = now
		for _, cl := range c.clients {
			cl.lastPing = max(cl.lastPing, min(cl.lastPing+gap, now))
		}
	}
	c.sweeper.last, c.sweeper.started = now, true
	gone := c.judge(now, &out)
	c.mu.Unlock()
	c.tidyAll()
	c.inSlices(c.countLost)
	for _, n := range c.WritersGone(now, gone) {
		out.AbortedPuts += uint64(n)
	}
	c.inSlices(func() bool { return c.releaseOpen(now, &out) })
	c.endTrivials(now)
	c.endLeaving(now, &out)
	c.inSlices(func() bool { return c.collectDead(now) })
	c.inSlices(func() bool { return c.collectIdle(now) })
	c.retire(now)
	c.inSlices(func() bool { return c.endQuarantine(now) })
	c.inSlices(func() bool { return c.endPins(now) })
	c.inSlices(func() bool { return c.s.reaccount(limits.CatalogSliceItems) })
	c.inSlices(func() bool { return c.expire(now, &out) })
	c.inSlices(func() bool { return c.keepShares(now, &out) })
	c.inSlices(func() bool { return c.keepQuotas(now, &out) })
	c.inSlices(c.s.arena.mend)
	c.attendDisks(now)
	c.inSlices(func() bool { return c.evictAbove(now, &out) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heedReads()
	out.Bundles, c.watch.news = c.watch.news, BundleNews{}
	return out
}

// inSlices repeats a step under the lock, letting others in between.
func (c *Catalog) inSlices(step func() (more bool)) {
	for more := true; more; {
		c.mu.Lock()
		more = step()
		c.mu.Unlock()
	}
}

// tidyAll removes what unmounted segments left.
func (c *Catalog) tidyAll() {
	c.inSlices(func() bool { return c.s.tidy(limits.CatalogSliceItems) })
}

// releaseOpen drops unfinished objects at the end of their time. Nobody writes to their ranges any more, but somebody may
// still read what was there before, if his lease is that long.
func (c *Catalog) releaseOpen(now Time, out *Swept) (more bool) {
	c.begin()
	for n := c.s.open.head; n != 0; n = c.s.record(n).node.next {
		if c.releaseAt(Time(c.s.record(n).time)) > now {
			break
		}
		if len(c.changes) == limits.CatalogSliceItems {
			more = true
			break
		}
		until, handed := c.held(n, now)
		c.noteDrop(now, n, CauseRelease, until, handed)
		c.stats.ReleasedPuts++
		out.ReleasedPuts++
	}
	c.commit()
	return more
}

// endQuarantine frees the ranges whose quarantine is over.
func (c *Catalog) endQuarantine(now Time) (more bool) {
	q := &c.s.heldBack
	if !q.ends.due(now) {
		return false
	}
	defer q.tidyHandOuts(&c.s.segments)
	c.begin()
	for range limits.CatalogSliceItems {
		if !q.ends.due(now) {
			break
		}
		end := q.ends.pop()
		if _, held, ok := q.find(&c.s.segments, end.item); ok {
			c.replicas = append(c.replicas, ReplicaChange{Segment: end.item.segment, Offset: end.item.offset, Size: held.size})
		}
	}
	if len(c.replicas) > 0 {
		c.note(ChangeRelease, now).Replicas = c.replicas
	}
	c.commit()
	return q.ends.due(now)
}

// endPins forgets soft pins whose time is over. They are compared with the time wherever they count, so this is not a
// Change.
func (c *Catalog) endPins(now Time) (more bool) {
	for range limits.CatalogSliceItems {
		if !c.s.pinEnds.due(now) {
			return false
		}
		end := c.s.pinEnds.pop()
		if c.s.pins[end.item] == end.at {
			c.s.setPin(end.item, 0)
			c.s.settle(end.item)
		}
	}
	return true
}

// filled gives the bytes that segments in sight can hold and those that they do. Ranges that writers may be at are no
// use to anybody, so they count as capacity that is not there; those that wait for readers a put in need may have. What is
// closed after a change of leaders is free again soon: nothing is evicted for it.
func (c *Catalog) filled() (usable, allocated float64) {
	for _, seg := range c.s.segments.mounted {
		if seg.at() < StageSuspected {
			usable += float64(seg.info.Size - (seg.quarantined - seg.reading - seg.closed))
			allocated += float64(seg.used)
		}
	}
	return usable, allocated
}

// evictAbove evicts the oldest when the pool is fuller than the watermark, until it is below by the ratio.
func (c *Catalog) evictAbove(now Time, out *Swept) (more bool) {
	sw := &c.sweeper
	mark := c.cfg.HighWatermark
	usable, allocated := c.filled()
	if !sw.evicting {
		if mark <= 0 || allocated <= mark*usable {
			return false
		}
		sw.evicting = true
		c.stats.EvictionAttempts++
	}
	target := max(0, mark-c.cfg.EvictionRatio) * usable
	if allocated <= target {
		sw.evicting = false
		return false
	}
	c.heedReads()
	c.pickOldest(now, allocated-target, &c.s.spent)
	if len(c.placer.victims) == 0 {
		c.pickOldest(now, allocated-target, &c.s.ages)
	}
	if len(c.placer.victims) == 0 && c.cfg.AllowEvictSoftPinned && allocated > mark*usable {
		c.pickOldest(now, allocated-mark*usable, &c.s.soft)
	}
	if len(c.placer.victims) == 0 {
		sw.evicting = false
		return false
	}
	keys, bytes := c.stats.EvictedKeys, c.stats.EvictedBytes
	if !c.evict(now) {
		return true // one was read in the meantime: its lease keeps it out of the next choice
	}
	c.stats.EvictionSuccesses++
	out.EvictedKeys += c.stats.EvictedKeys - keys
	out.EvictedBytes += c.stats.EvictedBytes - bytes
	return true
}

// inSight tells whether readers may see a copy of an object or of a member of a unit.
func (c *Catalog) inSight(n name) bool {
	for m := c.firstOf(n); m != 0; m = c.nextOf(m) {
		if c.s.inSight(m) {
			return true
		}
	}
	return false
}

// pickOldest chooses victims until they add up to the bytes wanted or to one slice.
func (c *Catalog) pickOldest(now Time, bytes float64, list *ages) {
	c.startVictims()
	c.placer.needer = forWatermark
	a := ask{now: now, soft: list == &c.s.soft}
	order := c.order(0, 0)
	w := order.walk(list, now)
	for n := c.candidate(&w, now); n != 0 && bytes > 0; n = c.candidate(&w, now) {
		if !c.inSight(n) {
			// It gives no room that counts. Its client may come back, so it is looked at again a little later.
			c.aside = max(c.aside, now+limits.AsideMs)
			list.cut(c.s, n)
			list.add(c.s, n, max(bucketOf(int64(now)+limits.AsideMs), w.last+1)) // in any case where this walk does not come
			continue
		}
		if c.stays(n, &a) || !c.yields(order, n) {
			continue
		}
		from := len(c.placer.victims)
		c.addVictims(n)
		c.gone(order, n)
		for _, v := range c.placer.victims[from:] {
			bytes -= float64(c.s.record(v).size) * float64(c.s.record(v).replicas)
		}
		if len(c.placer.victims) >= limits.CatalogSliceItems {
			return
		}
	}
}
