package catalog

import (
	"sync/atomic"

	"mooncake/internal/limits"
)

// Why an object that a put could have had the room of stays.
const (
	whyLeased = iota
	whyPinned
	whyInFlight
	whyOwn
	whyQuota
	whyReserved
	whyUnread
	whyNoSegment
	whys
)

// refuse counts a put that got ErrNoSpace, by what keeps most of the memory. It looks at a sample.
func (c *Catalog) refuse(a *ask) {
	if a.short != 0 {
		c.countRefusal(a, a.short)
		return
	}
	var bytes [whys]uint64
	bytes[whyReserved] = c.closedTo(a.share)
	usable := false
	order := c.orderFor(a)
	each := max(1, limits.RefusalSample/max(1, len(c.s.segments.mounted)))
	for _, seg := range c.s.segments.mounted {
		if seg.at() != StageActive || !seg.open() || seg.info.Size < a.size {
			continue
		}
		usable = true
		bytes[whyInFlight] += seg.quarantined - seg.reading
		for rn, left := seg.head, each; rn != 0 && left > 0; left-- {
			rep := c.s.replica(rn)
			bytes[c.why(rep.owner, a, order)] += c.s.record(rep.owner).size
			rn = rep.segNext
		}
	}
	most := 0
	for why := range bytes {
		if bytes[why] > bytes[most] {
			most = why
		}
	}
	if !usable {
		most = whyNoSegment
	}
	c.countRefusal(a, most)
}

// countRefusal counts a refused put, for the pool and for its workload.
func (c *Catalog) countRefusal(a *ask, why int) {
	c.stats.Refusals.count(why)
	c.s.shares.list[a.share].counts.refusals.count(why)
}

func (f *Refusals) count(why int) {
	switch why {
	case whyPinned:
		f.Pinned++
	case whyInFlight:
		f.InFlight++
	case whyOwn:
		f.OwnBundle++
	case whyQuota:
		f.Quota++
	case whyReserved:
		f.Reserved++
	case whyUnread:
		f.UnreadKept++
	case whyNoSegment:
		f.NoSegment++
	default:
		f.Leased++
	}
}

// why tells what keeps an object.
func (c *Catalog) why(n name, a *ask, o *order) int {
	r := c.s.record(n)
	un := r.unit
	if own := c.wholeOf(n); own != a.self && c.spared(own, a) {
		return whyOwn
	}
	pinned, soft, open, lease := r.flags&flagHardPin != 0, r.marks&markSoftPin != 0, r.isOpen(), atomic.LoadInt64(&r.lease)
	parts := false
	if un != 0 {
		u := c.s.unit(un)
		pinned, soft, open = u.pinned > 0, u.soft > 0, u.open > 0 || u.staging > 0
		parts, lease = u.parts > 0, atomic.LoadInt64(&u.lease)
	}
	switch {
	case open, c.offload.boxes != nil && c.waitsForDisk(c.wholeOf(n)):
		return whyInFlight
	case pinned || soft && !c.cfg.AllowEvictSoftPinned || c.s.keeps(r.share, parts):
		return whyPinned
	case lease > int64(a.now):
		return whyLeased
	case un != 0 && c.unread(un) && c.s.keepsUnread(un):
		return whyUnread
	case !c.yields(o, c.wholeOf(n)):
		return whyReserved
	}
	return whyLeased
}
