package catalog

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"mooncake/catalog/alloc"
	"mooncake/internal/limits"
)

// A removal of all objects does not take them one by one. A walk looks at them, in slices: what somebody may be reading, and
// what hangs together with others, goes by itself; the rest is left alone. Then one Change says that everything goes that is
// older than the walk, but for what it names. Those that stay are few: indexes, lists and free space are made anew from
// them, and the memory of the others goes back by the span, in slices afterwards.

// clearing is what readers tell such a walk, which may have passed the object. It is a leaf.
type clearing struct {
	on   atomic.Bool
	mu   sync.Mutex
	late []name
	over bool // there were more
}

// note tells of an object that was read, or changed its replicas. A reader calls it last, under the shard's lock.
func (l *clearing) note(n name) {
	if !l.on.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over = len(l.late) >= limits.ClearKept; !l.over {
		l.late = append(l.late, n)
	}
}

func (l *clearing) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late, l.over = nil, false
	l.on.Store(true)
}

// end gives what readers told; false when that is not all.
func (l *clearing) end() (late []name, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on.Store(false)
	late, all = l.late, !l.over
	l.late = nil
	return late, all
}

// A clearRun is a removal of all objects under way.
type clearRun struct {
	now     Time
	force   bool
	below   uint64 // replicas that were there have lower ids
	at      cursor
	kept    []name   // stay
	left    []string // to be removed by themselves afterwards
	removed int64
	broken  bool // it does not work out: the slices do the rest
}

// clearAll removes all objects that may go; false when they have to go one by one, those that are left.
func (c *Catalog) clearAll(now Time, force bool) (removed int64, done bool) {
	c.inSlices(c.s.arena.mend)
	run := clearRun{now: now, force: force}
	if !c.beginClear(&run) {
		return 0, false
	}
	c.inSlices(func() bool { return c.clearSlice(&run) })
	done = c.commitClear(&run)
	for _, key := range run.left {
		if c.removeWhole(now, key, force) == nil {
			run.removed++
		}
	}
	return run.removed, done
}

// clearable tells whether everything can go at once, as far as that can be told without a walk.
func (c *Catalog) clearable() bool {
	s := c.s
	if s.keys == 0 || s.lostKeys > 0 || s.segments.dying != nil || s.disks.count.Load() > 0 || c.cfg.Offload ||
		s.shares.moving || s.shares.expires || s.units > limits.ClearKept || s.arena.inUse(kindBundle) > limits.ClearKept ||
		s.heldBack.count > limits.ClearHeld ||
		c.told() && s.keys > limits.ClearTold {
		return false
	}
	for _, seg := range s.segments.mounted {
		if seg.counting || seg.at() == StageLost {
			return false
		}
	}
	return true
}

// told tells whether somebody hears of objects that go.
func (c *Catalog) told() bool { return c.s.tell != nil && (c.heard == nil || c.heard()) }

func (c *Catalog) beginClear(run *clearRun) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.clearable() || !c.s.arena.fence(kindRecord) {
		return false
	}
	run.below = c.s.nextReplica
	c.s.clear.begin()
	return true
}

// clearSlice goes on with the walk.
func (c *Catalog) clearSlice(run *clearRun) (more bool) {
	c.begin()
	defer c.commit()
	for range limits.ClearSlice {
		n := c.s.scanFenced(&run.at)
		if n == 0 {
			return false
		}
		if c.clearOne(run, n); run.broken || len(run.kept) > limits.ClearKept || c.s.heldBack.count > limits.ClearHeld {
			run.broken = true
			return false
		}
		if len(c.changes) >= limits.CatalogSliceItems {
			break
		}
	}
	return true
}

// clearOne looks at one object: it stays, or goes by itself, or with all others.
func (c *Catalog) clearOne(run *clearRun, n name) {
	r := c.s.record(n)
	if r.isOpen() || r.marks&(markStaged|markReplaced) != 0 {
		run.kept = append(run.kept, n)
		return
	}
	until, _ := c.held(n, run.now)
	if until == 0 && r.unit|r.bundle == 0 && r.marks&(markSoftPin|markPart) == 0 && r.replicas == 1 {
		if !run.force && c.leased(r, run.now) {
			run.kept = append(run.kept, n)
		}
		return
	}
	if c.s.segments.dying != nil || c.s.allLost(n) {
		run.broken = true
		return
	}
	if _, err := c.hideToRemove(run.now, n, run.force); err != nil {
		run.kept = append(run.kept, n)
		return
	}
	until, handed := c.held(n, run.now)
	c.noteDrop(run.now, n, CauseRemove, until, handed)
	run.removed++
}

// commitClear decides that everything goes that the walk found nothing special about.
func (c *Catalog) commitClear(run *clearRun) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.s.shards {
		c.s.shards[i].mu.Lock() // no reader holds the name of an object that goes
	}
	defer func() {
		for i := range c.s.shards {
			c.s.shards[i].mu.Unlock()
		}
	}()
	late, all := c.s.clear.end()
	if run.broken || !all || !c.clearable() || !c.survivors(run, late) {
		run.left = nil
		c.s.arena.unfence()
		return false
	}
	c.begin()
	at := len(c.replicas)
	for _, n := range run.kept {
		if r := c.s.record(n); c.s.arena.isFenced(n) && r.id < run.below {
			c.replicas = append(c.replicas, ReplicaChange{ID: r.id})
		}
	}
	ch := c.note(ChangeClear, run.now)
	ch.Cause, ch.Below, ch.Replicas = CauseRemove, run.below, c.replicas[at:]
	c.s.survivors, c.s.cleared, c.s.clearTold = run.kept, 0, c.told()
	c.commit()
	run.removed += int64(c.s.cleared)
	c.s.survivors = nil
	return true
}

// survivors completes the list of what stays: what is being written or copied, what is newer than the walk, and what something
// happened to since the walk passed, which goes by itself afterwards if it may. False when they are too many.
func (c *Catalog) survivors(run *clearRun, late []name) bool {
	s := c.s
	kept := slices.DeleteFunc(run.kept, func(n name) bool { return !s.isFenced(n) })
	stays := func(n name) {
		if s.isFenced(n) {
			kept = append(kept, n)
		}
	}
	goes := func(n name) {
		if s.isFenced(n) {
			kept = append(kept, n)
			run.left = append(run.left, strings.Clone(s.record(n).key()))
		}
	}
	if s.open.count+len(s.staged)+len(s.pins) > limits.ClearKept || s.arena.inUse(kindReplica) > limits.ClearKept {
		return false
	}
	for n := s.open.head; n != 0; n = s.record(n).node.next {
		stays(n)
	}
	for old, n := range s.staged {
		stays(old)
		stays(n)
	}
	for key := range c.trivial {
		hash := s.hash(key)
		stays(s.find(s.shard(hash), hash, key))
	}
	for n := range s.pins {
		goes(n)
	}
	var at cursor
	for n := s.scanKind(&at, kindReplica); n != 0; n = s.scanKind(&at, kindReplica) {
		goes(s.replica(n).owner)
	}
	for _, n := range late {
		goes(n)
	}
	at = cursor{}
	for n := s.scan(&at); n != 0; n = s.scan(&at) {
		if s.arena.isFenced(n) {
			at = cursor{span: at.span + 1} // the walk has seen to these
			continue
		}
		if kept = append(kept, n); len(kept) > 3*limits.ClearKept {
			return false
		}
	}
	slices.Sort(kept)
	run.kept = slices.Compact(kept)
	return true
}

// isFenced tells whether a name is that of an object from before the walk under way.
func (s *state) isFenced(n name) bool {
	return n != 0 && s.arena.isFenced(n) && s.record(n).keyBytes != 0
}

// applyClear takes every object away that is older than c.Below and not named. Where it was decided all is prepared for that,
// and nothing is held of one that goes; elsewhere they go one by one.
func (s *state) applyClear(c *Change, held bool) {
	if held {
		s.clearTo(s.survivors)
		return
	}
	for s.tidy(limits.CatalogSliceItems) {
	}
	spared := make(map[uint64]struct{}, len(c.Replicas))
	for i := range c.Replicas {
		spared[c.Replicas[i].ID] = struct{}{}
	}
	var at cursor
	for n := s.scan(&at); n != 0; n = s.scan(&at) {
		r := s.record(n)
		if _, stays := spared[r.id]; stays || r.id >= c.Below {
			continue
		}
		drop := Change{Key: strings.Clone(r.key()), Cause: c.Cause}
		s.dropDisks(n, &drop)
		s.removeRecord(n, departure{cause: c.Cause, at: c.Time})
	}
}

// clearTo forgets all objects but those given, in the order of their names. All shards are locked, and nothing of an object
// that goes is in any table but the index, the lists of segments, the ages, and the counts.
func (s *state) clearTo(kept []name) {
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
	for _, seg := range s.segments.mounted {
		s.remakeSpace(seg)
	}
	s.remakeAges(kept)
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

// remakeSpace makes free what is neither a replica's nor held back.
func (s *state) remakeSpace(seg *segment) {
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
	seg.space.Reset(taken)
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
