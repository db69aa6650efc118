package catalog

import "mooncake/internal/limits"

// A place is a range taken for one replica of a new object.
type place struct {
	seg    *segment
	offset uint64
}

// placer holds what one search for room works with; the next search uses it again.
type placer struct {
	places  []place
	victims []name
	trial   []trialRange
	cells   []cell
	window  []int
}

// place takes ranges for the replicas of a write, each on another segment: first what is free, then what the quarantine
// may give up, then what eviction makes free. It returns fewer places than wanted, or none, when that is all there is.
func (c *Catalog) place(w *write) []place {
	c.asks++
	p := &c.placer
	clear(p.places)
	p.places = p.places[:0]
	wanted := int(min(w.o.Replicas, uint64(len(c.s.segments.mounted)), limits.ReplicasPerObjectMax))
	for len(p.places) < wanted {
		seg, offset, ok := c.takeFree(w)
		if !ok {
			break
		}
		c.taken(seg, offset)
	}
	if len(p.places) == wanted {
		return p.places
	}
	a := ask{now: w.now, size: w.size, number: c.asks, self: w.old, prefix: w.prefix}
	if w.group != "" {
		a.group = c.s.findUnit(w.group, true)
	}
	for len(p.places) < wanted {
		seg, offset, ok := c.takeHeld(w)
		if !ok {
			seg, offset, ok = c.makeRoom(&a)
		}
		if !ok {
			break
		}
		c.taken(seg, offset)
	}
	return p.places
}

// taken notes a range; its segment serves no other replica of this put.
func (c *Catalog) taken(seg *segment, offset uint64) {
	seg.asked = c.asks
	c.placer.places = append(c.placer.places, place{seg, offset})
}

// takeFree takes a free range: on the preferred segments in their order, on those of the writer's host if it asked for
// that, on one drawn by the weight of its size, on any.
func (c *Catalog) takeFree(w *write) (*segment, uint64, bool) {
	if seg, offset, ok := c.takePreferred(w); ok {
		return seg, offset, true
	}
	mounted := c.s.segments.mounted
	if w.o.SameHost && w.o.Replicas == 1 {
		if host := c.hostOf(w); host != "" {
			for _, seg := range mounted {
				if seg.info.HostID != host {
					continue
				}
				if offset, ok := c.takeOn(seg, w.size); ok {
					return seg, offset, true
				}
			}
		}
	}
	first := c.draw()
	for i := range mounted {
		at := first + i
		if at >= len(mounted) {
			at -= len(mounted)
		}
		if offset, ok := c.takeOn(mounted[at], w.size); ok {
			return mounted[at], offset, true
		}
	}
	return nil, 0, false
}

// takePreferred goes on where the search for the copy before ended: what could not take that one cannot take this one.
func (c *Catalog) takePreferred(w *write) (*segment, uint64, bool) {
	names := w.o.Preferred[:min(len(w.o.Preferred), limits.PreferredSegmentsMax)]
	for ; w.wish < len(names); w.wish++ {
		named := c.s.segments.byName[names[w.wish]]
		for ; w.wishNamed < len(named); w.wishNamed++ {
			if offset, ok := c.takeOn(named[w.wishNamed], w.size); ok {
				return named[w.wishNamed], offset, true
			}
		}
		w.wishNamed = 0
	}
	return nil, 0, false
}

func (c *Catalog) takeOn(seg *segment, size uint64) (uint64, bool) {
	if seg.asked == c.asks {
		return 0, false
	}
	return seg.space.Alloc(size)
}

func (c *Catalog) hostOf(w *write) string {
	if w.o.HostID != "" {
		return w.o.HostID
	}
	if cl := c.clients[w.client]; cl != nil {
		return cl.host
	}
	return ""
}

// draw picks a segment by chance, each as often as its size weighs. Placing at random and trying all before giving up
// keeps more large holes than equal filling does.
func (c *Catalog) draw() int {
	mounted := c.s.segments.mounted
	if len(mounted) < 2 || c.s.capacity == 0 {
		return 0
	}
	at := c.dice.Uint64N(c.s.capacity)
	for i, seg := range mounted {
		if at < seg.info.Size {
			return i
		}
		at -= seg.info.Size
	}
	return 0
}

// takeHeld ends the quarantine of ranges that no reader can still be at, some at a time, until that makes room.
func (c *Catalog) takeHeld(w *write) (*segment, uint64, bool) {
	q := &c.s.heldBack
	for q.earlies.due(w.now) {
		c.begin()
		for range limits.CatalogSliceItems {
			if !q.earlies.due(w.now) {
				break
			}
			end := q.earlies.pop()
			if held, ok := q.ranges[end.item]; ok && held.early == end.at {
				c.replicas = append(c.replicas, ReplicaChange{Segment: end.item.segment, Offset: end.item.offset, Size: held.size})
			}
		}
		if len(c.replicas) == 0 {
			continue
		}
		c.note(ChangeRelease, w.now).Replicas = c.replicas
		c.stats.QuarantineEarlyReleases += uint64(len(c.replicas))
		c.commit()
		if seg, offset, ok := c.takeFree(w); ok {
			return seg, offset, true
		}
	}
	return nil, 0, false
}

// eligible tells whether room on a segment would serve the put.
func (c *Catalog) eligible(seg *segment, a *ask) bool {
	return seg != nil && seg.asked != a.number && seg.info.Size >= a.size
}
