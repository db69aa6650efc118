package catalog

import "mooncake/internal/limits"

// roomy tells whether a fifth of the pool is free, by a few segments from one that was drawn.
func (c *Catalog) roomy(first int) bool {
	mounted := c.s.segments.mounted
	var free, size uint64
	for i := range min(len(mounted), limits.RoomySegments) {
		seg := mounted[(first+i)%len(mounted)]
		size += seg.info.Size
		if seg.space != nil {
			free += seg.space.FreeBytes()
		}
	}
	return free >= size/limits.RoomyShare
}

// takeRound takes a large range where there is much room: on the first segment that has a hole, below the last one taken
// there. What was written one after another mostly goes one after another as well, so that going round each segment finds
// holes that have grown together, where the highest hole would be taken again as soon as one object has left it. Where
// there is little room it is the other way round: there first fit leaves more large holes.
func (c *Catalog) takeRound(size uint64, first int, apart bool) (*segment, uint64, bool) {
	mounted := c.s.segments.mounted
	for i := range mounted {
		seg := mounted[(first+i)%len(mounted)]
		if !c.takes(seg, apart) {
			continue
		}
		if offset, ok := seg.space.AllocBelow(size, seg.below); ok {
			seg.below = offset
			return seg, offset, true
		}
	}
	return nil, 0, false
}

// takes tells whether a segment may take another range of this put.
func (c *Catalog) takes(seg *segment, apart bool) bool {
	return seg.asked != c.asks && c.placer.uses(seg) && !(apart && c.sharesHost(seg))
}
