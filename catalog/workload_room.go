package catalog

import "mooncake/internal/limits"

// What limits of workloads ask of a put: bytes that have to be evicted before it may take a range, however much is free.
type need struct {
	own  uint64 // of its own workload, to stay below the hard limit
	room uint64 // of anybody, so that what others reserved stays free
}

// bounds is what the limits of a put are measured by.
type bounds struct {
	share  uint8
	size   uint64 // of one replica
	free   uint64 // when the put began
	credit uint64 // of the same share, and goes with the decision
}

// needFor tells what a put with limits has to make free for one more replica. A workload that is above its hard limit, or
// a pool in which reservations are not free, because the rules changed, does not get worse; Sweep mends it bit by bit.
func (c *Catalog) needFor(b *bounds) (n need) {
	t := &c.s.shares
	if !t.bounded {
		return n
	}
	sh := &t.list[b.share]
	if hard, after := sh.rule.HardBytes+b.credit, sh.used()+c.placer.bytes(b); sh.rule.HardBytes > 0 && after > hard {
		n.own = after - hard
		if b.size <= sh.rule.HardBytes {
			n.own = min(n.own, b.size)
		}
	}
	if closed := c.closedTo(b.share); closed > 0 {
		if left, free := min(closed, b.free)+b.size, c.room(); left > free {
			n.room = min(left-free, b.size)
		}
	}
	return n
}

// bytes gives what a put has so far, and wants for one more replica.
func (p *placer) bytes(b *bounds) uint64 { return uint64(len(p.places)+1) * b.size }

// closedTo gives the bytes that others than a share have reserved and do not use.
func (c *Catalog) closedTo(share uint8) (bytes uint64) {
	for i := range c.s.shares.list {
		if uint8(i) != share {
			bytes += c.s.shares.list[i].closed()
		}
	}
	return bytes
}

// room gives the free bytes of the segments that are in sight.
func (c *Catalog) room() (bytes uint64) {
	for _, seg := range c.s.segments.mounted {
		if seg.at() < StageSuspected {
			bytes += seg.space.FreeBytes()
		}
	}
	return bytes
}

// limit begins a put.
func (c *Catalog) limit(w *write) {
	b := &w.bounds
	*b = bounds{share: c.s.shares.match(w.key, w.o.Tenant), size: w.size}
	c.placer.needer = needer(b.share)
	if !c.s.shares.bounded {
		return
	}
	b.free = c.room()
	if w.old != 0 && !w.staged && c.s.record(w.old).share == b.share {
		b.credit = c.s.bytesOf(w.old)
	}
}

// within tells whether a put may take free ranges for one more replica as they are.
func (c *Catalog) within(b *bounds) bool { return !c.s.shares.bounded || c.needFor(b) == need{} }

// makeWay takes a free range and evicts what the limits of the put ask for; false when there is no such range, or tried
// is set and nothing can be evicted.
func (c *Catalog) makeWay(a *ask) (seg *segment, offset uint64, ok, tried bool) {
	a.write.wish, a.write.wishNamed = 0, 0
	if seg, offset, ok = c.takeFree(a.write, a.apart); !ok {
		return nil, 0, false, false
	}
	seg.free(offset, a.size) // it counts as free until the rest is
	c.stats.EvictionAttempts++
	for range limits.EvictRaces {
		c.startVictims()
		if !c.fill(a) {
			break
		}
		if c.evict(a.now) {
			c.stats.EvictionSuccesses++
			return seg, offset, seg.space.Reserve(offset, a.size), true
		}
	}
	return nil, 0, false, true
}

// fill adds victims until they make free what the limits of the put ask for. When that is impossible there is none, and the
// ask knows why.
func (c *Catalog) fill(a *ask) bool {
	n := c.needFor(&a.bounds)
	n.room -= min(n.room, a.had)
	for _, v := range c.placer.victims {
		c.subtract(a, &n, v)
	}
	if n == (need{}) {
		return true
	}
	for _, own := range [...]bool{true, false} {
		if n.own > c.s.shares.list[a.share].used() {
			break // all of it would not do
		}
		if own && n.own == 0 || !own && n.room == 0 {
			continue
		}
		o := c.orderFor(a)
		if own {
			o.onlyOwn()
		}
		for _, v := range c.placer.victims {
			c.gone(o, v)
		}
		c.fillFrom(a, &n, o, len(c.placer.victims)+limits.VictimsMax)
	}
	if n == (need{}) {
		return true
	}
	a.short = whyReserved
	if n.own > 0 {
		a.short = whyQuota
	}
	c.spareVictims()
	return false
}

// fillFrom adds victims in an order until nothing is missing, or there are most.
func (c *Catalog) fillFrom(a *ask, n *need, o *order, most int) {
	soft := a.soft
	defer func() { a.soft = soft }()
	a.soft = c.cfg.AllowEvictSoftPinned
	for _, list := range victimLists {
		if !a.takes(list) {
			continue
		}
		w := o.walk(c.s.agesOf(list), a.now)
		for {
			if o.only && n.own == 0 || !o.only && n.room == 0 || len(c.placer.victims) >= most {
				return
			}
			v := c.candidate(&w, a.now)
			if v == 0 {
				break
			}
			if c.s.record(c.firstOf(v)).marks&markVictim != 0 || c.stays(v, a) || !o.only && !c.inSight(v) || !c.yields(o, v) {
				continue
			}
			from := len(c.placer.victims)
			c.addVictims(v)
			c.gone(o, v)
			for _, m := range c.placer.victims[from:] {
				c.subtract(a, n, m)
			}
		}
	}
}

// subtract takes a victim off what is needed.
func (c *Catalog) subtract(a *ask, n *need, victim name) {
	if c.s.record(victim).share == a.share {
		n.own -= min(n.own, c.s.bytesOf(victim))
	}
	n.room -= min(n.room, c.s.roomOf(victim))
}

// roomOf gives the bytes that become free for others when an object goes.
func (s *state) roomOf(n name) (bytes uint64) {
	for rn := n; rn != 0; {
		rep := s.replica(rn)
		rn = rep.more
		if seg := s.segments.list[rep.segment]; !seg.dead.Load() && seg.at() < StageSuspected {
			bytes += s.record(n).size
		}
	}
	return bytes
}

// spareVictims gives up the victims that were chosen.
func (c *Catalog) spareVictims() {
	for _, v := range c.placer.victims {
		c.s.record(v).marks &^= markVictim
	}
	c.startVictims()
}

// keepShares brings workloads down to their hard limits and makes room for reservations, after the rules changed or memory
// went. It evicts a slice.
func (c *Catalog) keepShares(now Time, out *Swept) (more bool) {
	if !c.s.shares.bounded {
		return false
	}
	a := ask{now: now, unread: true}
	c.startVictims()
	for i := range c.s.shares.list {
		sh := &c.s.shares.list[i]
		if used := sh.used(); sh.rule.HardBytes > 0 && used > sh.rule.HardBytes {
			a.share, c.placer.needer = uint8(i), needer(i)
			o := c.order(uint8(i), 0)
			o.onlyOwn()
			c.fillFrom(&a, &need{own: used - sh.rule.HardBytes}, o, limits.CatalogSliceItems)
			if c.evictSlice(now, out) {
				return true
			}
		}
	}
	closed, free := c.closedTo(0), c.room()
	if closed <= free {
		return false
	}
	a.share, c.placer.needer = 0, forWatermark
	c.fillFrom(&a, &need{room: closed - free}, c.order(0, 0), limits.CatalogSliceItems)
	return c.evictSlice(now, out)
}

// evictSlice evicts the victims, if there are any.
func (c *Catalog) evictSlice(now Time, out *Swept) bool {
	if len(c.placer.victims) == 0 {
		return false
	}
	keys, bytes := c.stats.EvictedKeys, c.stats.EvictedBytes
	if !c.evict(now) {
		return false // one was read in the meantime: the next sweep chooses anew
	}
	out.EvictedKeys += c.stats.EvictedKeys - keys
	out.EvictedBytes += c.stats.EvictedBytes - bytes
	return true
}

// rank tells how willingly something goes that a window covers: by its list, then what goes first by the order, then the
// older.
func (c *Catalog) rank(o *order, n name, list uint8, age, now uint32) uint32 {
	first := uint32(list-listSpent) * rankAges
	for i, share := range o.turns {
		if share == c.s.node(n).share {
			return first + uint32(i)
		}
	}
	const most = rankAges - limits.SharesMax - 2
	return first + uint32(len(o.turns)) + most - min(now-age, most)
}

// victimsYield tells whether all victims may go together, where each was looked at alone.
func (c *Catalog) victimsYield(o *order) bool {
	if !o.any {
		return true
	}
	for _, v := range c.placer.victims {
		o.freed[c.s.record(v).share] += c.s.bytesOf(v)
	}
	for i := range o.freed {
		share := uint8(i)
		floor := c.s.shares.list[share].rule.ReservedBytes
		if o.freed[share] > 0 && floor > 0 && !(o.own && share == o.asker) && o.used(c.s, share) < floor {
			return false
		}
	}
	return true
}

// orderFor gives the order of victims for a put at this point of its search.
func (c *Catalog) orderFor(a *ask) *order {
	o := c.order(a.share, c.placer.bytes(&a.bounds))
	o.own = a.last
	if a.onlyOwn {
		o.onlyOwn()
	}
	return o
}

// reuseWithin is fill for a put that takes ranges from readers: these were not free, so they are room too.
func (c *Catalog) reuseWithin(a *ask) bool {
	if c.within(&a.bounds) {
		return true
	}
	had := uint64(0)
	for i := range c.placer.reused {
		had += c.placer.reused[i].Size
	}
	c.startVictims()
	a.had = had
	ok := c.fill(a)
	a.had = 0
	return ok && (len(c.placer.victims) == 0 || c.evict(a.now))
}
