package catalog

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"mooncake/catalog/alloc"
	"mooncake/internal/limits"
)

// isPlain tells whether an object can go with all others: nothing of it is in any table but the index, the lists of segments, the
// ages, and the counts.
func (s *state) isPlain(r *record) bool {
	return r.unit|r.bundle == 0 && r.marks == 0 && r.replicas == 1 && !r.isOpen()
}

// applyClear takes every object away that is older than c.Below and not named. Where it was decided all is prepared for that.
func (s *state) applyClear(c *Change, held bool) {
	if held {
		s.clearTo(s.survivors, c)
		return
	}
	d := departure{cause: c.Cause, at: c.Time, until: c.Until, handed: c.HandedOut}
	s.segments.settle()
	for s.tidy(limits.CatalogSliceItems) || s.reaccount(limits.CatalogSliceItems) || s.arena.mend() {
	}
	kept, others := s.partForClear(c)
	for _, n := range others {
		if !s.isLive(n, kindRecord) {
			continue // it went with another one
		}
		drop := Change{Key: strings.Clone(s.record(n).key()), Cause: c.Cause}
		s.dropDisks(n, &drop)
		s.removeRecord(n, d)
	}
	s.arena.fence(kindRecord)
	s.clearTold = true
	s.lockShards()
	s.clearTo(kept, c)
	s.unlockShards()
	for s.arena.mend() {
	}
}

// partForClear finds what stays where a ChangeClear was not decided, in the order of names, and what has to go by itself: of that
// there is none, unless something is missing from the history.
func (s *state) partForClear(c *Change) (kept, others []name) {
	spared := make(map[uint64]struct{}, len(c.Replicas))
	for i := range c.Replicas {
		if c.Replicas[i].ID != 0 {
			spared[c.Replicas[i].ID] = struct{}{}
		}
	}
	alone := s.disks.count.Load() == 0 && !s.shares.expires
	var at cursor
	for n := s.scan(&at); n != 0; n = s.scan(&at) {
		r := s.record(n)
		if _, stays := spared[r.id]; stays || r.id >= c.Below {
			kept = append(kept, n)
		} else if !alone || !s.isPlain(r) {
			others = append(others, n)
		}
	}
	return kept, others
}

// clearTo forgets all objects but those given, in the order of their names, which must be plain. All shards are locked.
func (s *state) clearTo(kept []name, c *Change) {
	before := s.arena.inUse(kindRecord)
	if s.tell != nil && s.clearTold {
		s.tellCleared(kept)
	}
	s.arena.doom(kept)
	s.cleared = before - s.arena.inUse(kindRecord)
	for i := range s.shards {
		s.shards[i].table = table{}
	}
	s.uncount()
	for _, n := range kept {
		s.recount(n)
	}
	s.owners.collect()
	s.shares.collect()
	s.remakeSpaces(c)
	s.remakeAges(kept)
}

// lockShards keeps readers away from everything: none of them holds the name of an object that goes.
func (s *state) lockShards() {
	for i := range s.shards {
		s.shards[i].mu.Lock()
	}
}

func (s *state) unlockShards() {
	for i := range s.shards {
		s.shards[i].mu.Unlock()
	}
}

func (s *state) tellCleared(kept []name) {
	var at cursor
	for n := s.scanFenced(&at); n != 0; n = s.scanFenced(&at) {
		if _, stays := slices.BinarySearch(kept, n); !stays {
			s.went(n)
		}
	}
}

// uncount takes off everything that objects count for.
func (s *state) uncount() {
	s.keys, s.several, s.allocated = 0, 0, 0
	for i := range s.owners.list {
		s.owners.list[i].objects = 0
	}
	var at cursor
	for bn := s.scanKind(&at, kindBundle); bn != 0; bn = s.scanKind(&at, kindBundle) {
		s.owners.list[s.bundle(bn).client].objects++
	}
	for i := range s.shares.list {
		sh := &s.shares.list[i]
		sh.keys, sh.bytes, sh.lostBytes = 0, 0, 0
	}
	for i := range s.shares.tenantTable.list {
		e := &s.shares.tenantTable.list[i]
		e.objects, e.bytes, e.lostBytes = 0, 0, 0
	}
	for _, seg := range s.segments.mounted {
		seg.head, seg.objects, seg.used = 0, 0, 0
		seg.counted, seg.walked = 0, 0
		clear(seg.shares)
		seg.tenants = segmentTenants{}
	}
}

// recount counts an object that stays, and puts it back into the index and the lists of its segments.
func (s *state) recount(n name) {
	r := s.record(n)
	s.owners.list[r.client].objects++
	s.shares.tenantTable.list[r.tenant].objects++
	if r.wanted > 1 {
		s.several++
	}
	if r.marks&markStaged == 0 {
		hash := s.hash(r.key())
		s.shard(hash).table.insert(hash, n)
		s.keys++
		s.shares.list[r.share].keys++
	}
	for rn := n; rn != 0; {
		rep := s.replica(rn)
		seg := s.segments.list[rep.segment]
		s.segments.link(s, rn)
		seg.used += r.size
		s.allocated += r.size
		s.charge(seg, r.share, r.size)
		s.shares.chargeTenant(seg, r.tenant, r.size)
		rn = rep.more
	}
}

// collect forgets the owners of nothing.
func (t *ownerTable) collect() {
	for id, n := range t.byID {
		if t.list[n].objects == 0 {
			delete(t.byID, id)
			t.numbers = append(t.numbers, n)
		}
	}
}

// collect forgets the tenants without an object.
func (t *tenantTable) collect() {
	for name, n := range t.byName {
		if t.list[n].objects == 0 {
			delete(t.byName, name)
			t.list[n] = tenantEntry{}
			t.numbers = append(t.numbers, n)
		}
	}
}

// remakeSpaces makes free what is neither a replica's nor held back; what was another replica's is held back now where c says so.
func (s *state) remakeSpaces(c *Change) {
	h := holding{heldRange: heldRange{until: c.Until, handed: c.HandedOut}, piece: c.Size}
	if h.piece < limits.ClearPieceBytes || h.piece > math.MaxInt64 {
		h.piece = clearPiece(s.capacity) // of a record that does not say
	}
	for i := range c.Replicas {
		if rc := &c.Replicas[i]; rc.ID == 0 {
			if h.only == nil {
				h.only = map[UUID][]alloc.Range{}
			}
			h.only[rc.Segment] = append(h.only[rc.Segment], alloc.Range{Offset: rc.Offset, Size: rc.Size})
		}
	}
	holes := 0
	for _, seg := range s.segments.mounted {
		holes += seg.space.FreeExtents()
	}
	if holes > limits.ClearHoles {
		h.holes = h.piece
	}
	for _, seg := range s.segments.mounted {
		taken := make([]alloc.Range, 0, seg.objects+uint64(len(seg.held)))
		for rn := seg.head; rn != 0; {
			rep := s.replica(rn)
			taken = append(taken, alloc.Range{Offset: rep.offset, Size: s.record(rep.owner).size})
			rn = rep.segNext
		}
		for offset := range seg.held {
			taken = append(taken, alloc.Range{Offset: offset, Size: seg.held[offset].size})
		}
		slices.SortFunc(taken, func(a, b alloc.Range) int { return cmp.Compare(a.Offset, b.Offset) })
		if h.until != 0 {
			taken = s.holdGone(seg, taken, &h)
		}
		seg.space.Reset(taken)
	}
}

// clearPiece is the size of the pieces in which memory of so many bytes is held back.
func clearPiece(capacity uint64) uint64 {
	return max(limits.ClearPieceBytes, capacity/limits.ClearPieces)
}

// A holding is how the ranges of many objects that go are held back: not one by one but in pieces, each of which a put in need may
// have.
type holding struct {
	heldRange
	piece uint64
	holes uint64                 // what was free is held back as well where it is smaller
	only  map[UUID][]alloc.Range // nil is everywhere; in the order of addresses
}

// holdGone holds back what is neither free nor among the ranges given, which are in the order of addresses, and returns these and
// the new ones in that order.
func (s *state) holdGone(seg *segment, taken []alloc.Range, h *holding) (all []alloc.Range) {
	at, next := uint64(0), 0
	only := h.only[seg.info.ID]
	wanted := func() bool { // whether what is at is held back: ranges of only are whole pieces
		for len(only) > 0 && at >= only[0].Offset && at-only[0].Offset >= only[0].Size {
			only = only[1:]
		}
		return h.only == nil || len(only) > 0 && at >= only[0].Offset
	}
	hold := func(end uint64) { // from at
		for at < end {
			size := min(end-at, h.piece-at%h.piece)
			if wanted() {
				held := h.heldRange
				held.size = size
				s.heldBack.add(seg, at, held)
				all = append(all, alloc.Range{Offset: at, Size: size})
			}
			at += size
		}
	}
	keep := func(end uint64) { // what of taken begins before
		for ; next < len(taken) && taken[next].Offset < end; next++ {
			hold(taken[next].Offset)
			all = append(all, taken[next])
			at = taken[next].Offset + taken[next].Size
		}
	}
	for offset, size := range seg.space.Extents() {
		if size >= h.holes {
			keep(offset)
			hold(offset)
			at = offset + size
		}
	}
	keep(seg.info.Size)
	hold(seg.info.Size)
	return all
}

// remakeAges puts what stays of the objects that are alone, and the units, into ages of their own.
func (s *state) remakeAges(kept []name) {
	for _, list := range victimLists {
		*s.agesOf(list) = ages{list: list}
	}
	again := func(n name) {
		x := s.node(n)
		if l := s.agesOf(x.list); l != nil {
			x.prev, x.next = 0, 0
			l.add(s, n, x.bucket)
		}
	}
	for _, n := range kept {
		again(n)
	}
	var at cursor
	for n := s.scanKind(&at, kindUnit); n != 0; n = s.scanKind(&at, kindUnit) {
		again(n)
	}
}
