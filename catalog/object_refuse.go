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
	whys
)

// refuse counts a put that got ErrNoSpace, by what keeps most of the memory. It looks at a sample.
func (c *Catalog) refuse(a *ask) {
	var bytes [whys]uint64
	usable := false
	each := max(1, limits.RefusalSample/max(1, len(c.s.segments.mounted)))
	for _, seg := range c.s.segments.mounted {
		if seg.at() != StageActive || seg.info.Size < a.size {
			continue
		}
		usable = true
		bytes[whyInFlight] += seg.quarantined - seg.reading
		for rn, left := seg.head, each; rn != 0 && left > 0; left-- {
			rep := c.s.replica(rn)
			bytes[c.why(rep.owner, a)] += c.s.record(rep.owner).size
			rn = rep.segNext
		}
	}
	most := 0
	for why := range bytes {
		if bytes[why] > bytes[most] {
			most = why
		}
	}
	counts := &c.stats.Refusals
	switch {
	case !usable:
		counts.NoSegment++
	case most == whyPinned:
		counts.Pinned++
	case most == whyInFlight:
		counts.InFlight++
	case most == whyOwn:
		counts.OwnBundle++
	default:
		counts.Leased++
	}
}

// why tells what keeps an object.
func (c *Catalog) why(n name, a *ask) int {
	r := c.s.record(n)
	un := r.unit
	if own := c.wholeOf(n); own != a.self && c.spared(own, a) {
		return whyOwn
	}
	pinned, soft, open, lease := r.flags&flagHardPin != 0, r.marks&markSoftPin != 0, r.isOpen(), int64(0)
	if un != 0 {
		u := c.s.unit(un)
		pinned, soft, open = u.pinned > 0, u.soft > 0, u.open > 0
		lease = atomic.LoadInt64(&u.lease)
		open = open || u.parts > 0 && u.manifests == 0 && lease <= int64(a.now)
	}
	switch {
	case open:
		return whyInFlight
	case pinned || soft && !c.cfg.AllowEvictSoftPinned:
		return whyPinned
	}
	return whyLeased
}
