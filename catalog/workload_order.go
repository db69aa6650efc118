package catalog

import (
	"cmp"
	"slices"
)

// An order says whose objects go first for a put in need, or for the watermark, and whose not at all: first those of
// workloads that have more than their soft limit, lowest priority first, each until it is down to that; then all others by
// age. No workload is pushed below its reservation, nor the one that asks, unless nothing else can go.
//
// It follows what a search sets free on trial, as if all of it went.
type order struct {
	asker uint8
	asks  uint64 // bytes that the put adds to the asker's
	any   bool   // there are rules to follow
	own   bool   // the asker may be pushed below its reservation

	only  bool     // only the turns, not the rest
	turns []uint8  // shares that go first
	shut  shareSet // shares that have no more to give
	freed []uint64 // bytes set free, by share
	mixed []uint64
	at    []agePlace
}

// A shareSet is a set of shares.
type shareSet [4]uint64

func (s *shareSet) has(share uint8) bool { return s[share>>6]>>(share&63)&1 != 0 }
func (s *shareSet) add(share uint8)      { s[share>>6] |= 1 << (share & 63) }

// order begins a search for the asker's sake: asks are the bytes that it wants. For the watermark that is none.
func (c *Catalog) order(asker uint8, asks uint64) *order {
	o, t := &c.placer.order, &c.s.shares
	o.asker, o.asks, o.any, o.own, o.only = asker, asks, t.shaped, false, false
	o.turns, o.shut = o.turns[:0], shareSet{}
	if !o.any {
		return o
	}
	o.freed = slices.Grow(o.freed[:0], len(t.list))[:len(t.list)]
	clear(o.freed)
	for i := range t.list {
		if w := &t.list[i].rule; w.SoftBytes > 0 && o.used(c.s, uint8(i)) > w.SoftBytes {
			o.turns = append(o.turns, uint8(i))
		}
	}
	slices.SortFunc(o.turns, func(a, b uint8) int {
		return cmp.Or(cmp.Compare(t.list[a].rule.Priority, t.list[b].rule.Priority), cmp.Compare(a, b))
	})
	return o
}

// onlyOwn limits an order to the asker's own objects.
func (o *order) onlyOwn() {
	o.turns, o.only, o.own = append(o.turns[:0], o.asker), true, true
}

// walk goes through one of the ages in this order. There is one such walk at a time.
func (o *order) walk(list *ages, now Time) walker {
	o.at = o.at[:0]
	for i := range list.parts {
		if list.parts[i].count > 0 {
			o.at = append(o.at, agePlace{share: uint8(i)})
		}
	}
	return walker{list: list, last: bucketOf(int64(now)), order: o, at: o.at}
}

// used gives what a share would have with the put and without what is set free.
func (o *order) used(s *state, share uint8) uint64 {
	used := s.shares.list[share].used()
	if share == o.asker {
		used += o.asks
	}
	if o.any {
		used -= min(used, o.freed[share])
	}
	return used
}

// goesOn tells whether a share that goes first still has to.
func (o *order) goesOn(s *state, share uint8) bool {
	if o.shut.has(share) {
		return false
	}
	return o.only || o.used(s, share) > s.shares.list[share].rule.SoftBytes
}

// yields tells whether the reservations let a record or a unit go. A share of which one must stay gives no more: what is
// younger does not go before it.
func (c *Catalog) yields(o *order, n name) bool {
	if !o.any {
		return true
	}
	s := c.s
	if c.knotted(n) {
		return c.yieldsTied(o, n)
	}
	if s.isUnit(n) && s.unit(n).strangers > 0 {
		return c.yieldsMixed(o, n)
	}
	share := s.node(n).share
	floor := s.shares.list[share].rule.ReservedBytes
	if floor == 0 || o.own && share == o.asker {
		return true
	}
	bytes := uint64(0)
	for m := c.firstOf(n); m != 0; m = c.nextOf(m) {
		bytes += s.bytesOf(m)
	}
	if used := o.used(s, share); used < floor+bytes {
		o.shut.add(share)
		return false
	}
	return true
}

// yieldsMixed is yields for a unit whose members belong to several shares: all of them must let it go.
func (c *Catalog) yieldsMixed(o *order, n name) bool {
	s := c.s
	o.mixed = slices.Grow(o.mixed[:0], len(o.freed))[:len(o.freed)]
	clear(o.mixed)
	for m := c.firstOf(n); m != 0; m = c.nextOf(m) {
		share := s.record(m).share
		if s.keeps(share, s.unit(n).parts > 0) {
			return false
		}
		o.mixed[share] += s.bytesOf(m)
	}
	for m := c.firstOf(n); m != 0; m = c.nextOf(m) {
		share := s.record(m).share
		floor := s.shares.list[share].rule.ReservedBytes
		if floor > 0 && !(o.own && share == o.asker) && o.used(s, share) < floor+o.mixed[share] {
			return false
		}
	}
	return true
}

// gone notes that a record or a unit is set free.
func (c *Catalog) gone(o *order, n name) {
	if !o.any {
		return
	}
	for m := c.firstOf(n); m != 0; m = c.nextOf(m) {
		o.freed[c.s.record(m).share] += c.s.bytesOf(m)
	}
}

// bytesOf gives what an object's replicas count in its share.
func (s *state) bytesOf(n name) (bytes uint64) {
	for rn := n; rn != 0; {
		rep := s.replica(rn)
		rn = rep.more
		if seg := s.segments.list[rep.segment]; !seg.dead.Load() && !seg.lost {
			bytes += s.record(n).size
		}
	}
	return bytes
}

// keeps tells whether a share never gives up what is no bundle, or is one.
func (s *state) keeps(share uint8, bundle bool) bool {
	switch s.shares.list[share].rule.Evict {
	case EvictNever:
		return true
	case EvictBundle:
		return !bundle
	}
	return false
}

// covers is yields for something that a window would cover, alone.
func (c *Catalog) covers(o *order, n name, walled bool) bool {
	if !o.any {
		return true
	}
	share := c.s.node(n).share
	if o.only && share != o.asker || walled && c.s.shares.list[share].rule.ReservedBytes > 0 && !(o.own && share == o.asker) {
		return false
	}
	return c.yields(o, n)
}

// keepsUnread tells whether a workload keeps its bundles until they are read. One of several workloads is kept if any of
// them does.
func (s *state) keepsUnread(n name) bool {
	u := s.unit(n)
	if u.strangers == 0 {
		return s.shares.list[u.share].rule.Unread == UnreadKeep
	}
	for m := u.head; m != 0; m = s.record(m).unitNext {
		if s.shares.list[s.record(m).share].rule.Unread == UnreadKeep {
			return true
		}
	}
	return false
}

// searchOwn is search for a put that may have to stay within its own workload: at its hard limit it looks there first.
// What its workload reserved goes when nothing else can.
func (c *Catalog) searchOwn(a *ask) (*segment, uint64, bool) {
	if c.needFor(&a.bounds).own > 0 {
		a.onlyOwn = true
		seg, offset, ok := c.search(a)
		if a.onlyOwn = false; ok {
			return seg, offset, true
		}
	}
	seg, offset, ok := c.search(a)
	if !ok && c.s.shares.list[a.share].rule.ReservedBytes > 0 {
		a.last = true
		seg, offset, ok = c.search(a)
		a.last = false
	}
	return seg, offset, ok
}
