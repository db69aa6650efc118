package catalog

import (
	"hash/maphash"
	"sync/atomic"

	"mooncake/internal/limits"
)

// What only snapshots say.

func (s *state) applyHold(c *Change) {
	for i := range c.Replicas {
		rc := &c.Replicas[i]
		seg := s.segments.byID[rc.Segment]
		if seg == nil || rc.Size == 0 || !seg.space.Reserve(rc.Offset, rc.Size) {
			continue
		}
		held := heldRange{size: rc.Size, until: c.Until, handed: c.HandedOut, writer: c.Client, began: c.Time, closed: c.Cause == CauseWindow, corrupt: c.Cause == CauseCorrupt}
		if held.corrupt {
			held.began = 0
			s.heldBack.noteCorrupt(seg, c.Key, rc.Offset, rc.Size, c.Time)
		}
		s.heldBack.add(seg, rc.Offset, held)
	}
}

// applyBundle sets what the members of a bundle do not tell of it, and makes the memory of one that has none any more.
func (s *state) applyBundle(c *Change) {
	if c.Bundle == nil || c.Key == "" || len(c.Key) > limits.KeyBytesMax {
		return
	}
	bn := s.findBundle(c.Key)
	if bn == 0 {
		if bn = s.arena.alloc(kindBundle, bundleBytes+len(c.Key)); bn == 0 {
			return
		}
		b := s.bundle(bn)
		b.nameBytes = uint32(len(c.Key))
		setBytes(s.arena.at(bn), bundleBytes, c.Key)
		hash := maphash.String(s.seed, c.Key)
		s.bundleTable(hash).insert(hash, bn)
		b.client = s.owners.ref(c.Client)
	}
	b := s.bundle(bn)
	s.delistBundle(bn)
	old := b.client
	b.client = s.owners.ref(c.Client)
	s.owners.unref(old)
	b.created, b.lastWrite, b.touched = int64(c.Bundle.Created), int64(c.Bundle.LastWrite), int64(c.Bundle.Touched)
	atomic.StoreInt64(&b.published, int64(c.Bundle.Published))
	atomic.StoreUint32(&b.reads, c.Bundle.Reads)
	b.lost, b.copies = c.Bundle.Lost, c.Bundle.Copies
	if c.Bundle.Facts&factKnotted != 0 && b.facts&factKnotted == 0 {
		for m := b.head; m != 0; m = s.record(m).bundleNext {
			if mu := s.record(m).unit; mu != 0 {
				s.unit(mu).knots++
			}
		}
	}
	b.facts |= c.Bundle.Facts
	s.settleBundle(bn)
}

// bundleChange writes a bundle down. What readers and the eviction know of it is left out: after a start every bundle counts
// as read as often as it was, and as met by nobody yet.
func (s *state) bundleChange(b *bundleRecord) Change {
	return Change{
		Kind: ChangeBundle, Key: b.prefix(), Client: s.owners.list[b.client].id,
		Bundle: &BundleChange{
			Created: Time(b.created), LastWrite: Time(b.lastWrite), Published: Time(atomic.LoadInt64(&b.published)), Touched: Time(b.touched),
			Reads: atomic.LoadUint32(&b.reads), Lost: b.lost, Facts: b.facts &^ (factRead | factTorn), Copies: b.copies,
		},
	}
}
