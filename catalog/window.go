package catalog

import "mooncake/internal/limits"

// A window is a part of a segment in which a leader may give ranges to writers before the log has them. The log says where
// windows are open, so whoever leads next keeps what is free in them closed for a while: a writer that only the former
// leader knew may be at work there. Each segment has one window where small objects go and one where large ones do.
type window struct{ offset, size uint64 }

const (
	windowLow = iota
	windowHigh
	windowsOfSegment
)

func (w window) holds(offset, size uint64) bool {
	return offset >= w.offset && offset+size <= w.offset+w.size
}

// A grant is what a leader knows of a window that it opened. The window before counts as well until the log has the new
// one: what lies in both may be given away meanwhile.
type grant struct {
	number, before uint64 // in the log; 0 = not opened by this leader
	former         window
}

// applyWindow opens and closes windows.
func (s *state) applyWindow(c *Change) {
	for i := range c.Replicas {
		rc := &c.Replicas[i]
		if seg := s.segments.byID[rc.Segment]; seg != nil && rc.ID < windowsOfSegment {
			seg.windows[rc.ID] = window{rc.Offset, rc.Size}
		}
	}
}

// parting is a range that was freed, or a key that went, by a decision that is not durable yet. Who leads next may find the
// object where it was.
type parting struct {
	number       uint64
	hash         uint64 // of the key; 0 = no key went
	segment      UUID
	offset, size uint64
}

// partings are the newest of them; those before allUpTo are not told apart.
type partings struct {
	list    []parting
	allUpTo uint64
}

func (p *partings) add(one parting) {
	if len(p.list) == limits.CatalogPartings {
		p.allUpTo, p.list = one.number, p.list[:0]
		return
	}
	p.list = append(p.list, one)
}

// settled forgets what is durable.
func (p *partings) settled(number uint64) {
	n := 0
	for n < len(p.list) && p.list[n].number <= number {
		n++
	}
	p.list = append(p.list[:0], p.list[n:]...)
}

// at gives the number of the last decision that took a key away, or freed a part of a range.
func (p *partings) at(hash uint64, segment UUID, offset, size uint64) uint64 {
	at := p.allUpTo
	for i := range p.list {
		one := &p.list[i]
		if one.hash == hash || one.segment == segment && one.offset < offset+size && offset < one.offset+one.size {
			at = max(at, one.number)
		}
	}
	return at
}

// notePartings notes what the decision under way takes away. It is called before it is applied.
func (c *Catalog) notePartings(number uint64) {
	p := &c.parting
	for i := range c.changes {
		ch := &c.changes[i]
		freed, hash := ch.Replicas, uint64(0)
		switch ch.Kind {
		case ChangeDrop:
			if hash = c.s.hash(ch.Key); ch.Until != 0 {
				freed = nil
			}
			if len(freed) == 0 {
				p.add(parting{number: number, hash: hash})
			}
		case ChangeRelease:
		case ChangeEnd:
			hash := c.s.hash(ch.Key)
			if n := c.s.find(c.s.shard(hash), hash, ch.Key); n != 0 && c.s.record(n).marks&markReplaced != 0 {
				p.allUpTo = number // what it takes the place of goes
			}
			continue
		case ChangeUnmount, ChangeClear:
			p.allUpTo = number
			continue
		default:
			continue
		}
		for j := range freed {
			rc := &freed[j]
			p.add(parting{number: number, hash: hash, segment: rc.Segment, offset: rc.Offset, size: rc.Size})
		}
	}
}

// windowBytes is the size of a segment's windows.
func windowBytes(segment uint64) uint64 {
	return min(max(limits.WindowBytes, segment/limits.WindowShare), segment/limits.WindowShareMax)
}

// noteWindow opens another window where a range is about to be given away, unless there is one; or once its larger part
// lies behind, so that the next is open in time. It reports whether the range may be given away at once, as far as
// windows go.
func (c *Catalog) noteWindow(w *write, p *place) (number uint64, inside bool) {
	slot := windowLow
	if w.size >= limits.AllocLargeBytes {
		slot = windowHigh
	}
	seg := p.seg
	g, open, done := &seg.grants[slot], seg.windows[slot], c.fresh.done
	switch {
	case g.number == 0 || !open.holds(p.offset, w.size):
	case g.number <= done:
		number, inside = g.number, true
	case g.before != 0 && g.before <= done && g.former.holds(p.offset, w.size):
		number, inside = g.before, true
	default:
		number, inside = g.number, true
	}
	bytes := windowBytes(seg.info.Size)
	next := window{p.offset, min(bytes, seg.info.Size-p.offset)}
	behind := p.offset - min(open.offset, p.offset)
	if slot == windowHigh {
		end := p.offset + w.size
		next = window{end - min(bytes, end), min(bytes, end)}
		behind = open.offset + open.size - min(end, open.offset+open.size)
	}
	switch {
	case bytes < w.size || seg.space.LargestFree() < bytes/limits.WindowWorth:
		return number, inside // it would be of little use
	case inside && (g.number > done || behind <= open.size/2):
		return number, inside
	}
	ch := c.note(ChangeWindow, w.now)
	at := len(c.replicas)
	c.replicas = append(c.replicas, ReplicaChange{ID: uint64(slot), Segment: seg.info.ID, Offset: next.offset, Size: next.size})
	ch.Replicas = c.replicas[at:len(c.replicas):len(c.replicas)]
	g.before, g.former = g.number, open
	if !inside {
		g.before = 0
	}
	g.number = 0 // set when the decision has one
	c.granted = append(c.granted, g)
	return number, inside
}

// numberGrants tells the windows opened by the decision under way its number.
func (c *Catalog) numberGrants(number uint64) {
	for _, g := range c.granted {
		g.number = number
	}
	c.granted = c.granted[:0]
}

// CloseWindows ends what a former leader may have given away: what is free in its windows stays closed for the time after
// which another put may take over an unfinished one. It must be called after SetLog and Resume, before anything is decided.
func (c *Catalog) CloseWindows(now Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, seg := range c.s.segments.mounted {
		for slot, w := range seg.windows {
			if w.size > 0 {
				c.closeWindow(now, seg, slot)
			}
		}
	}
}

func (c *Catalog) closeWindow(now Time, seg *segment, slot int) {
	w := seg.windows[slot]
	c.begin()
	for offset, size := range seg.space.Extents() {
		from, to := max(offset, w.offset), min(offset+size, w.offset+w.size)
		if from >= to {
			continue
		}
		c.changes = append(c.changes, Change{
			Kind: ChangeHold, Cause: CauseWindow, Time: now, Until: now + Time(c.cfg.PutDiscardMs), HandedOut: Never,
			Replicas: []ReplicaChange{{Segment: seg.info.ID, Offset: from, Size: to - from}},
		})
	}
	c.note(ChangeWindow, now).Replicas = []ReplicaChange{{ID: uint64(slot), Segment: seg.info.ID}}
	c.commit()
}

// EndWindows says that nothing more is given away. Once that is durable, the next leader need not keep anything closed.
func (c *Catalog) EndWindows(now Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin()
	var ends []ReplicaChange
	for _, seg := range c.s.segments.mounted {
		for slot, w := range seg.windows {
			if w.size > 0 {
				ends = append(ends, ReplicaChange{ID: uint64(slot), Segment: seg.info.ID})
				seg.grants[slot] = grant{}
			}
		}
	}
	if len(ends) > 0 {
		c.note(ChangeWindow, now).Replicas = ends
	}
	c.commit()
}
