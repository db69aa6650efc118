package catalog

import (
	"cmp"
	"slices"
)

// A cell is a range of a segment that is not free, and how willingly it goes: its age, or wall for what must stay.
type cell struct {
	offset uint64
	end    uint64
	record name
	age    uint32
}

const wall = ^uint32(0)

// rankAges is how many ages a window tells apart in each of victimLists: the last four years.
const rankAges = 1 << 30

// searchWindows looks at whole segments for the place where the put fits with the oldest victims: the window whose
// youngest range is older than that of any other. It is for pools in which setting the oldest objects free one by one
// does not lead to one hole, as when a large object meets thousands of small ones.
func (c *Catalog) searchWindows(a *ask) (*segment, uint64, bool) {
	first := c.draw(a.size)
	mounted := c.s.segments.mounted
	var found *segment
	best := wall
	for i := range mounted {
		seg := mounted[(first+i)%len(mounted)]
		if !c.eligible(seg, a) {
			continue
		}
		c.collectCells(seg, a)
		if _, age, ok := c.bestWindow(seg.info.Size, a.size); ok && (found == nil || age < best) {
			found, best = seg, age
			if !a.reuse {
				break // any will do, as long as readers are left alone
			}
		}
	}
	if found == nil {
		return nil, 0, false
	}
	if a.reuse {
		c.collectCells(found, a)
	}
	offset, _, _ := c.bestWindow(found.info.Size, a.size)
	order := c.orderFor(a)
	c.startVictims()
	for _, cl := range c.placer.cells {
		if cl.record != 0 && cl.offset < offset+a.size && offset < cl.end {
			c.addVictims(c.wholeOf(cl.record))
		}
	}
	if !c.victimsYield(order) {
		c.spareVictims()
		if a.walled {
			return nil, 0, false
		}
		a.walled = true
		defer func() { a.walled = false }()
		return c.searchWindows(a)
	}
	return found, offset, true
}

// collectCells lists what lies on a segment in the order of addresses.
func (c *Catalog) collectCells(seg *segment, a *ask) {
	order := c.orderFor(a)
	cells := c.placer.cells[:0]
	for rn := seg.head; rn != 0; {
		rep := c.s.replica(rn)
		cells = append(cells, cell{
			offset: rep.offset,
			end:    rep.offset + c.s.record(rep.owner).size,
			record: rep.owner,
			age:    c.willing(rep.owner, a, order),
		})
		rn = rep.segNext
	}
	for offset, held := range seg.held {
		age := wall
		if a.reuse && held.handed != Never {
			// Later than any victim, and the later the shorter ago it was handed out.
			age = uint32(min(max(held.until-a.now, 1), Time(wall-1)))
		}
		cells = append(cells, cell{offset: offset, end: offset + held.size, age: age})
	}
	slices.SortFunc(cells, func(x, y cell) int { return cmp.Compare(x.offset, y.offset) })
	c.placer.cells = cells
}

// willing gives the age of what an object goes with if that may go for the put, and wall if it must stay.
func (c *Catalog) willing(record name, a *ask, o *order) uint32 {
	n := c.wholeOf(record)
	list := c.s.node(n).list
	if !a.takes(list) {
		return wall
	}
	age := c.age(n, a.now)
	if age > bucketOf(int64(a.now)) || c.stays(n, a) || !c.covers(o, n, a.walled) {
		return wall
	}
	if a.reuse {
		return 0
	}
	return c.rank(o, n, list, age, bucketOf(int64(a.now)))
}

// bestWindow returns where a range of the given size covers no wall and the oldest cells, and the age of the youngest. Sliding a window to the right
// until it meets the next cell only loses cells, so it is enough to look at windows that end where a cell begins, or at
// the end.
func (c *Catalog) bestWindow(segmentSize, size uint64) (uint64, uint32, bool) {
	cells := c.placer.cells
	queue, head := c.placer.window[:0], 0 // queue[head:]: cells of the window with falling ages
	best, found, bestAge := uint64(0), false, wall
	open, low := uint64(0), 0 // end of the last wall, first cell behind the window's start
	for i := 0; i <= len(cells); i++ {
		stop := segmentSize
		if i < len(cells) {
			stop = cells[i].offset
		}
		if stop >= size && stop-size >= open {
			start := stop - size
			for low < i && cells[low].end <= start {
				low++
			}
			for head < len(queue) && queue[head] < low {
				head++
			}
			age := uint32(0)
			if head < len(queue) {
				age = cells[queue[head]].age
			}
			if !found || age < bestAge {
				best, found, bestAge = start, true, age
			}
		}
		if i == len(cells) {
			break
		}
		if cells[i].age == wall {
			open, low, queue, head = cells[i].end, i+1, queue[:0], 0
			continue
		}
		for len(queue) > head && cells[queue[len(queue)-1]].age <= cells[i].age {
			queue = queue[:len(queue)-1]
		}
		queue = append(queue, i)
	}
	c.placer.window = queue
	return best, bestAge, found
}

// stays tells whether an object or a unit may not go for this put at this point of its search.
func (c *Catalog) stays(n name, a *ask) bool {
	if c.offload.boxes != nil && c.waitsForDisk(n) || c.spared(n, a) || c.unread(n) && (!a.unread || c.s.keepsUnread(n)) {
		return true
	}
	return c.knotted(n) && !c.allGo(n, a)
}

// unread tells whether a unit holds a bundle that nobody has read. Evicting it loses data for certain, where taking a
// range that was handed out a moment ago only may spoil the reading of an object that was removed.
func (c *Catalog) unread(n name) bool { return c.s.isUnit(n) && c.s.unit(n).unread > 0 }

// spared tells whether an object or a unit is the asking put's own, or holds a part of the put's bundle.
func (c *Catalog) spared(n name, a *ask) bool {
	if !c.s.isUnit(n) {
		return n == a.self
	}
	if n == a.group || a.self != 0 && n == c.s.record(a.self).unit {
		return true
	}
	if a.bundle == 0 || c.s.bundle(a.bundle).members == 0 {
		return false
	}
	b := c.s.bundle(a.bundle)
	if b.facts&factKnotted == 0 {
		return b.unit == n
	}
	for m := b.head; m != 0; m = c.s.record(m).bundleNext {
		if c.s.record(m).unit == n {
			return true
		}
	}
	return false
}
