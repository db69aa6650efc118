package catalog

import (
	"slices"

	"mooncake/internal/limits"
)

// A place is a range taken for one replica of a new object.
type place struct {
	seg    *segment
	offset uint64
}

// placer holds what one search for room works with; the next search uses it again.
type placer struct {
	worst   Stage // of segments that free ranges are taken from
	places  []place
	victims []name
	tied    []name // units that go together
	trial   []trialRange
	cells   []cell
	window  []int
	read    []timed[heldKey] // hand-outs looked at
	reused  []ReplicaChange  // ranges of readers that a put takes
	order   order
	needer  needer // for whom victims are evicted
	stay    stay
}

// A stay is the segment that was drawn for the last small objects, and what more it takes before the next is drawn. With
// hundreds of segments every put would else meet one whose memory is in no cache.
type stay struct {
	seg   *segment // nil: there is none
	at    int      // in the order of mounts
	puts  int
	bytes uint64
}

// on tells whether an object goes where the one before went.
func (st *stay) on(mounted []*segment, size uint64) bool {
	if st.puts == 0 || size > st.bytes || st.at >= len(mounted) || mounted[st.at] != st.seg {
		return false
	}
	st.puts--
	st.bytes -= size
	return true
}

// place takes ranges for the replicas of a write, each on another segment: what is free; what the quarantine has to give
// back; what eviction makes free, but for bundles that nobody has read yet. A put for which that makes no single place
// takes what readers may be at, longest ago first; only then unread bundles; only then what is free on suspect segments.
// It returns fewer places than wanted, or none, when that is all there is.
func (c *Catalog) place(w *write) []place {
	wanted := c.startPlaces(w)
	p := &c.placer
	if c.takeAllFree(w, wanted) && wanted > 0 {
		return p.places
	}
	a := c.askFor(w)
	active := c.anyActive()
	if active {
		c.makeAllRoom(w, &a, wanted)
	}
	if active && len(p.places) == 0 {
		if seg, offset, ok := c.reuse(&a); ok {
			c.taken(seg, offset)
			return p.places
		}
		a.unread = true
		if c.makeAllRoom(w, &a, 1); len(p.places) == 0 {
			if seg, offset, ok := c.reuseWindow(&a); ok {
				c.taken(seg, offset)
				return p.places
			}
		}
		if a.unread = false; len(p.places) > 0 && wanted > 1 && !c.takeAllFree(w, wanted) {
			c.makeAllRoom(w, &a, wanted) // what went may have had copies elsewhere
		}
	}
	if len(p.places) == 0 {
		p.worst = StageSuspect
		c.takeSome(w, 1, false)
	}
	if len(p.places) == 0 {
		c.offload.asked = true
		c.refuse(&a)
	}
	return p.places
}

// placeFree is place for a write that has another way: it takes nothing that readers may be at. Only for one whose other way
// is under readers it evicts, and takes what is free on suspect segments.
func (c *Catalog) placeFree(w *write, readers bool) []place {
	wanted := c.startPlaces(w)
	if !c.takeAllFree(w, wanted) && readers {
		a := c.askFor(w)
		c.makeAllRoom(w, &a, wanted)
		c.placer.worst = StageSuspect
		c.takeSome(w, wanted, false)
	}
	return c.placer.places
}

// startPlaces begins a search and tells how many places there can be.
func (c *Catalog) startPlaces(w *write) int {
	c.asks++
	p := &c.placer
	clear(p.places)
	p.places, p.worst = p.places[:0], StageActive
	c.limit(w)
	return int(min(w.replicas, uint64(len(c.s.segments.mounted)), limits.ReplicasPerObjectMax))
}

// anyActive tells whether any segment takes new objects as a matter of course. Where none does there is nothing to gain from
// evicting or from taking readers' ranges, and a search for it would cost every put dearly.
func (c *Catalog) anyActive() bool {
	for _, seg := range c.s.segments.mounted {
		if seg.at() == StageActive && seg.open() {
			return true
		}
	}
	return false
}

// putBack frees the places of a search that is given up.
func (c *Catalog) putBack(size uint64) {
	for _, p := range c.placer.places {
		p.seg.free(p.offset, size)
	}
}

func (c *Catalog) askFor(w *write) ask {
	a := ask{now: w.now, bounds: w.bounds, write: w, number: c.asks, self: w.old, bundle: w.bundle}
	if w.group != "" {
		a.group = c.s.findUnit(w.group, true)
	}
	return a
}

// takeAllFree takes what is free, and what the quarantine gives back by now. It reports whether that was enough.
func (c *Catalog) takeAllFree(w *write, wanted int) bool {
	for {
		c.takeSome(w, wanted, true)
		c.takeSome(w, wanted, false)
		if len(c.placer.places) == wanted || !c.s.heldBack.ends.due(w.now) {
			return len(c.placer.places) == wanted
		}
		c.endQuarantine(w.now)
	}
}

// takeSome takes free ranges, on machines that hold no copy yet or on any.
func (c *Catalog) takeSome(w *write, wanted int, apart bool) {
	w.wish, w.wishNamed = 0, 0
	for len(c.placer.places) < wanted && c.within(&w.bounds) {
		seg, offset, ok := c.takeFree(w, apart)
		if !ok {
			return
		}
		c.taken(seg, offset)
	}
}

// makeAllRoom takes what eviction makes free, on machines that hold no copy yet or on any.
func (c *Catalog) makeAllRoom(w *write, a *ask, wanted int) {
	evicted := false
	for _, apart := range [...]bool{true, false} {
		if a.apart = apart; apart && len(c.placer.places) == 0 && wanted == 1 {
			continue // all are
		}
		for {
			if evicted {
				c.takeSome(w, wanted, apart) // the victims may have had copies elsewhere
			}
			if len(c.placer.places) >= wanted {
				return
			}
			seg, offset, ok := c.makeRoom(a)
			if !ok {
				break
			}
			c.taken(seg, offset)
			evicted = true
		}
	}
}

// taken notes a range; its segment serves no other replica of this put.
func (c *Catalog) taken(seg *segment, offset uint64) {
	seg.asked = c.asks
	c.placer.places = append(c.placer.places, place{seg, offset})
}

// takeFree takes a free range: on the preferred segments in their order, on those of the writer's host if it asked for
// that, on one drawn by chance, on any.
func (c *Catalog) takeFree(w *write, apart bool) (*segment, uint64, bool) {
	if seg, offset, ok := c.takePreferred(w); ok {
		return seg, offset, true
	}
	mounted := c.s.segments.mounted
	if w.o.SameHost && w.replicas == 1 {
		if host := c.hostOf(w); host != "" {
			for _, seg := range mounted {
				if seg.info.HostID != host {
					continue
				}
				if offset, ok := c.takeOn(seg, w.size, false); ok {
					return seg, offset, true
				}
			}
		}
	}
	first := c.draw(w.size)
	if w.size >= limits.AllocLargeBytes && c.roomy(first) {
		return c.takeRound(w.size, first, apart)
	}
	for i := range mounted {
		at := first + i
		if at >= len(mounted) {
			at -= len(mounted)
		}
		if offset, ok := c.takeOn(mounted[at], w.size, apart); ok {
			if i > 0 {
				c.placer.stay = stay{} // it is full
			}
			return mounted[at], offset, true
		}
	}
	return nil, 0, false
}

// takePreferred goes on where the search for the copy before ended in this pass: what could not take that one cannot take
// this one.
func (c *Catalog) takePreferred(w *write) (*segment, uint64, bool) {
	names := w.o.Preferred[:min(len(w.o.Preferred), limits.PreferredSegmentsMax)]
	for ; w.wish < len(names); w.wish++ {
		named := c.s.segments.byName[names[w.wish]]
		for ; w.wishNamed < len(named); w.wishNamed++ {
			if offset, ok := c.takeOn(named[w.wishNamed], w.size, false); ok {
				return named[w.wishNamed], offset, true
			}
		}
		w.wishNamed = 0
	}
	return nil, 0, false
}

// uses tells whether free ranges of a segment are taken at this point of a search.
func (p *placer) uses(seg *segment) bool { return seg.at() <= p.worst && seg.open() }

func (c *Catalog) takeOn(seg *segment, size uint64, apart bool) (uint64, bool) {
	if !c.takes(seg, apart) {
		return 0, false
	}
	return seg.space.Alloc(size)
}

// sharesHost tells whether the machine of a segment got a copy already.
func (c *Catalog) sharesHost(seg *segment) bool {
	for i := range c.placer.places {
		if c.placer.places[i].seg.host == seg.host {
			return true
		}
	}
	return false
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

// draw picks a segment by chance, each as often as its size weighs. Large objects take it as it comes: placing them at
// random and trying all before giving up keeps more large holes than equal filling does. Small ones take the emptier of
// two, which evens the load out and yet gives a fresh segment at most twice its share. Where there are many segments, the
// smallest go in runs: a run is a few puts, and less bytes than one object may have.
func (c *Catalog) draw(size uint64) int {
	mounted := c.s.segments.mounted
	if len(mounted) < 2 {
		return 0
	}
	stays := len(mounted) >= limits.StaySegments && size <= limits.StayBytes/2 && len(c.placer.places) == 0
	if stays && c.placer.stay.on(mounted, size) {
		return c.placer.stay.at
	}
	at := c.drawOne()
	if size >= limits.AllocLargeBytes {
		return at
	}
	if second := c.drawOne(); freeShare(mounted[second]) > freeShare(mounted[at]) {
		at = second
	}
	if stays {
		c.placer.stay = stay{mounted[at], at, limits.StayPuts - 1, limits.StayBytes - size}
	}
	return at
}

// drawOne draws from all segments until it meets one that is used, which is the same as drawing from those alone and does
// not look at every segment for every put. Where hardly any is used it goes through them.
func (c *Catalog) drawOne() int {
	upTo := c.s.segments.weigh()
	for range limits.SegmentDraws {
		at := c.dice.Uint64N(upTo[len(upTo)-1])
		i, _ := slices.BinarySearch(upTo, at+1)
		if c.placer.uses(c.s.segments.mounted[i]) {
			return i
		}
	}
	return c.drawUsed()
}

// drawUsed draws from the segments that are used.
func (c *Catalog) drawUsed() int {
	var total uint64
	for _, seg := range c.s.segments.mounted {
		if c.placer.uses(seg) {
			total += seg.info.Size
		}
	}
	if total == 0 {
		return 0
	}
	at := c.dice.Uint64N(total)
	for i, seg := range c.s.segments.mounted {
		if !c.placer.uses(seg) {
			continue
		}
		if at < seg.info.Size {
			return i
		}
		at -= seg.info.Size
	}
	return 0
}

func freeShare(seg *segment) float64 { return float64(seg.space.FreeBytes()) / float64(seg.info.Size) }

// eligible tells whether room on a segment would serve the put.
func (c *Catalog) eligible(seg *segment, a *ask) bool {
	return seg != nil && seg.asked != a.number && seg.info.Size >= a.size && seg.at() == StageActive && seg.open() && !(a.apart && c.sharesHost(seg))
}
