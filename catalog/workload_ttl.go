package catalog

import "mooncake/internal/limits"

// Deadlines of one share: when each of its objects, or units, was completed. One entry stands for an object that is alone
// as long as its time is the entry's, and for a unit as long as the unit has the entry's stamp; others are outdated. There is
// one for every object or unit of the share that is complete and, up to a bound, outdated ones.
type deadlines struct {
	heap, former timeHeap[name] // entries move from former to heap when outdated ones are cleared
	epoch        uint32         // how often the share got other deadlines
	catching     bool           // it did, and not all objects that were there have an entry
}

// Stamps: the epoch of the share above the low bits of the entry's time.
const (
	stampBits  = 24
	stampMask  = 1<<stampBits - 1
	epochMask  = 1<<(32-stampBits) - 1
	recheckMs  = 1000 // a unit that cannot go is looked at again that much later
	clearShare = 2    // outdated entries are cleared when there are that many entries per object
)

func (d *deadlines) begin() {
	d.drop()
	d.epoch++
	d.catching = true
}

func (d *deadlines) drop() { d.heap, d.former, d.catching = nil, nil, false }

func (d *deadlines) stamp(at int64) uint32 {
	return (d.epoch&epochMask)<<stampBits | uint32(at)&stampMask | 1
}

func (d *deadlines) has(stamp uint32) bool {
	return stamp != 0 && stamp>>stampBits == d.epoch&epochMask
}

// schedule notes when a complete object, or its unit, begins to age.
func (s *state) schedule(n name) {
	r := s.record(n)
	if r.unit == 0 {
		if sh := &s.shares.list[r.share]; sh.rule.TTLMs > 0 {
			sh.deadlines.heap.push(Time(r.time), n)
		}
		return
	}
	u := s.unit(r.unit)
	if sh := &s.shares.list[u.share]; sh.rule.TTLMs > 0 && !sh.deadlines.has(u.stamp) {
		s.stampUnit(sh, r.unit, u.lastTouch)
	}
}

func (s *state) stampUnit(sh *share, un name, at int64) {
	s.unit(un).stamp = sh.deadlines.stamp(at)
	sh.deadlines.heap.push(Time(at), un)
}

// stands tells whether an entry of a share stands for a record or a unit.
func (s *state) stands(number uint8, e timed[name]) bool {
	if !s.arena.holds(e.item) {
		return false
	}
	d := &s.shares.list[number].deadlines
	switch s.arena.spans[e.item/spanGranules].kind {
	case kindRecord:
		r := s.record(e.item)
		return r.keyBytes != 0 && r.share == number && r.unit == 0 && !r.isOpen() && r.time == int64(e.at)
	case kindUnit:
		u := s.unit(e.item)
		return u.nameBytes != 0 && u.share == number && u.stamp == d.stamp(int64(e.at))
	}
	return false
}

// holds tells whether a name is that of a slot, in use or not.
func (a *arena) holds(n name) bool {
	id := n / spanGranules
	if int(id) >= len(a.spans) || !a.spans[id].live {
		return false
	}
	offset := uint32(n%spanGranules) * granuleBytes
	return offset%slotBytes[a.spans[id].class] == 0 && offset < a.spans[id].bump
}

// expire removes what has outlived the time that its workload gives it, whoever reads it: like a forced removal, so that the
// ranges wait in quarantine for those readers. A bundle or group goes whole, and not while a part of it is being written.
func (c *Catalog) expire(now Time, out *Swept) (more bool) {
	t := &c.s.shares
	if !t.expires {
		return false
	}
	left := limits.CatalogSliceItems
	for i := range t.list {
		sh := &t.list[i]
		if sh.rule.TTLMs == 0 {
			continue
		}
		d := &sh.deadlines
		c.s.clearOutdated(uint8(i), left)
		for _, h := range [...]*timeHeap[name]{&d.heap, &d.former} {
			for h.due(now - Time(sh.rule.TTLMs)) {
				if left <= 0 {
					return true
				}
				left--
				if e := h.pop(); c.s.stands(uint8(i), e) {
					left -= c.expireOne(now, sh, e.item, out)
				}
			}
		}
		more = more || len(d.former) > 0
	}
	return more
}

// expireOne removes an object or a unit if its time has come, and returns how many records went.
func (c *Catalog) expireOne(now Time, sh *share, n name, out *Swept) (went int) {
	c.startVictims()
	if !c.s.isUnit(n) {
		c.placer.victims = append(c.placer.victims, n)
	} else if at, ok := c.lastOf(n); at+sh.rule.TTLMs > int64(now) {
		c.s.stampUnit(sh, n, at)
		return 0
	} else if !ok {
		c.s.stampUnit(sh, n, int64(now)-sh.rule.TTLMs+recheckMs)
		return 0
	} else {
		c.addVictims(n)
	}
	for _, m := range c.placer.victims {
		c.conceal(m)
	}
	c.begin()
	for _, m := range c.placer.victims {
		r := c.s.record(m)
		sh := &c.s.shares.list[r.share]
		sh.counts.expiredKeys++
		sh.counts.expiredBytes += r.size * uint64(r.replicas)
		out.ExpiredKeys++
		out.ExpiredBytes += r.size * uint64(r.replicas)
		until, handed := c.held(m, now)
		c.noteDrop(now, m, CauseExpire, until, handed)
	}
	went = len(c.placer.victims)
	c.commit()
	return went
}

// lastOf gives the last write to a unit, and to those that go together with it; false when one is under way.
func (c *Catalog) lastOf(un name) (at int64, ok bool) {
	tied := append(c.placer.tied[:0], un)
	if c.knotted(un) {
		if tied, ok = c.tied(un); !ok {
			return 0, false
		}
	}
	ok = true
	for _, n := range tied {
		u := c.s.unit(n)
		at, ok = max(at, u.lastTouch), ok && u.open == 0 && u.staging == 0
	}
	return at, ok
}

// conceal makes an object absent for readers, leased or not.
func (c *Catalog) conceal(n name) {
	r := c.s.record(n)
	sh := c.s.shard(c.s.hash(r.key()))
	sh.mu.Lock()
	r.flags |= flagHidden
	sh.mu.Unlock()
}

// clearOutdated looks at some of the entries of a share that has too many of them.
func (s *state) clearOutdated(number uint8, limit int) {
	d := &s.shares.list[number].deadlines
	if len(d.former) == 0 {
		if uint64(len(d.heap)) <= clearShare*s.shares.list[number].keys+limits.DeadlineSpare {
			return
		}
		d.former, d.heap = d.heap, nil
	}
	for ; limit > 0 && len(d.former) > 0; limit-- {
		last := len(d.former) - 1 // taking off the last keeps the rest in order
		e := d.former[last]
		if d.former = d.former[:last]; s.stands(number, e) {
			d.heap.push(e.at, e.item)
		}
	}
	if len(d.former) == 0 {
		d.former = nil
	}
}
