package catalog

import "mooncake/internal/limits"

// sweeper is what one sweep remembers for the next.
type sweeper struct {
	last     Time
	started  bool
	evicting bool // above the watermark, and not yet below the target
}

// Sweep does what time asks for: it drops silent clients and their segments, unfinished objects whose time is up, soft
// pins and quarantines that end, and evicts above the watermark. It is to be called every 10 to 1,000 ms. Long work is
// done in slices between which others get the lock.
//
// A late call is a sign that the whole process stood still and heard no ping; so the clients get that time back.
func (c *Catalog) Sweep(now Time) (out Swept) {
	c.mu.Lock()
	if gap := now - c.sweeper.last; c.sweeper.started && gap > limits.SweepGapMs {
		for _, cl := range c.clients {
			cl.lastPing = min(cl.lastPing+gap, now)
		}
	}
	c.sweeper.last, c.sweeper.started = now, true
	c.expire(now, &out)
	c.mu.Unlock()
	c.tidyAll()
	c.inSlices(func() bool { return c.releaseOpen(now, &out) })
	c.inSlices(func() bool { return c.endQuarantine(now) })
	c.inSlices(func() bool { return c.endPins(now) })
	c.inSlices(func() bool { return c.evictAbove(now, &out) })
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

// releaseOpen drops unfinished objects at the end of their time. Nobody writes to their ranges any more.
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
		c.noteDrop(now, n, CauseRelease, 0, 0)
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
	c.begin()
	for range limits.CatalogSliceItems {
		if !q.ends.due(now) {
			break
		}
		end := q.ends.pop()
		if held, ok := q.ranges[end.item]; ok && held.until == end.at {
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

// evictAbove evicts the oldest when the pool is fuller than the watermark, until it is below by the ratio. Ranges in
// quarantine are no use to anybody, so they count as capacity that is not there.
func (c *Catalog) evictAbove(now Time, out *Swept) (more bool) {
	sw := &c.sweeper
	usable := float64(c.s.capacity - c.s.heldBack.bytes)
	mark := c.cfg.HighWatermark
	if !sw.evicting {
		if mark <= 0 || float64(c.s.allocated) <= mark*usable {
			return false
		}
		sw.evicting = true
		c.stats.EvictionAttempts++
	}
	target := max(0, mark-c.cfg.EvictionRatio) * usable
	if float64(c.s.allocated) <= target {
		sw.evicting = false
		return false
	}
	c.pickOldest(now, float64(c.s.allocated)-target, &c.s.ages)
	if len(c.placer.victims) == 0 && c.cfg.AllowEvictSoftPinned && float64(c.s.allocated) > mark*usable {
		c.pickOldest(now, float64(c.s.allocated)-mark*usable, &c.s.soft)
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

// pickOldest chooses victims until they add up to the bytes wanted or to one slice.
func (c *Catalog) pickOldest(now Time, bytes float64, list *ages) {
	c.startVictims()
	w := walker{list: list, last: bucketOf(int64(now))}
	for n := c.candidate(&w, now); n != 0 && bytes > 0; n = c.candidate(&w, now) {
		from := len(c.placer.victims)
		c.addVictim(n)
		for _, v := range c.placer.victims[from:] {
			bytes -= float64(c.s.record(v).size) * float64(c.s.record(v).replicas)
		}
		if len(c.placer.victims) >= limits.CatalogSliceItems {
			return
		}
	}
}
