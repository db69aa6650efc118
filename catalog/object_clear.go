package catalog

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"mooncake/internal/limits"
)

// A removal of all objects does not take them one by one. A walk looks at them, in slices: what hangs together with others goes
// by itself, and so does what somebody may be reading, as long as that is little; the rest is left alone. Then one Change says
// that everything goes that is older than the walk, but for what it names. Where much was read, it says as well which pieces of
// segments are held back, those with a byte of it, until the last of all its leases is over. Those that stay are few: indexes, lists and
// free space are made anew from them, and the memory of the others goes back by the span, in slices afterwards.

// clearing is what others tell such a walk, which may have passed the object. It is a leaf.
type clearing struct {
	on     atomic.Bool
	mu     sync.Mutex
	force  bool // leases count for nothing
	late   []name
	handed Time // when one that is not among them was handed out last; 0 is never
	over   bool // there were more of them
}

// read tells of an object that was leased and, unless at is 0, handed out. A reader calls it last, under the shard's lock.
func (l *clearing) read(n name, at Time) {
	if !l.on.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.force && at == 0:
	case len(l.late) < limits.ClearKept:
		l.late = append(l.late, n)
	case l.force:
		l.handed = max(l.handed, at)
	default:
		l.over = true
	}
}

// changed tells of an object with other replicas than before.
func (l *clearing) changed(n name) {
	if !l.on.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.late) >= 2*limits.ClearKept {
		l.over = true
		return
	}
	l.late = append(l.late, n)
}

func (l *clearing) begin(force bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late, l.handed, l.over, l.force = nil, 0, false, force
	l.on.Store(true)
}

// end gives what was told; false when that is not all.
func (l *clearing) end() (late []name, handed Time, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on.Store(false)
	late, handed, all = l.late, l.handed, !l.over
	l.late = nil
	return late, handed, all
}

// A clearRun is a removal of all objects under way.
type clearRun struct {
	now     Time
	force   bool
	below   uint64 // replicas that were there have lower ids
	at      cursor
	kept    []name   // stay
	left    []string // to be removed by themselves afterwards
	handed  Time     // when the last was handed out of what goes with all others; 0 when nobody can be at any of it
	piece   uint64   // size of the pieces that are held back for that
	read    map[pieceOf]struct{}
	unknown bool // any piece may be one of them
	removed int64
	broken  bool // it does not work out: the slices do the rest
}

// A pieceOf is a piece of a segment, by the segment's number.
type pieceOf struct {
	segment uint32
	index   uint64
}

// readAt notes that somebody may be reading a plain object that goes with all others.
func (run *clearRun) readAt(rep *replica, size uint64, handed Time) {
	run.handed = max(run.handed, handed)
	for i := rep.offset / run.piece; i <= (rep.offset+max(size, 1)-1)/run.piece; i++ {
		run.read[pieceOf{rep.segment, i}] = struct{}{}
	}
}

// pieces appends the pieces that were read, as ranges, those beside each other as one.
func (c *Catalog) pieces(run *clearRun, dst []ReplicaChange) []ReplicaChange {
	all := slices.DeleteFunc(slices.Collect(maps.Keys(run.read)), func(p pieceOf) bool {
		return c.s.segments.list[p.segment] == nil // it went since the walk passed
	})
	slices.SortFunc(all, func(a, b pieceOf) int {
		return cmp.Or(cmp.Compare(a.segment, b.segment), cmp.Compare(a.index, b.index))
	})
	for i, p := range all {
		if i > 0 && p.segment == all[i-1].segment && p.index == all[i-1].index+1 {
			dst[len(dst)-1].Size += run.piece
			continue
		}
		dst = append(dst, ReplicaChange{Segment: c.s.segments.list[p.segment].info.ID, Offset: p.index * run.piece, Size: run.piece})
	}
	return dst
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
	run.piece, run.read = clearPiece(c.s.capacity), map[pieceOf]struct{}{}
	c.s.clear.begin(run.force)
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
	until, handed := c.held(n, run.now)
	if c.s.isPlain(r) && (until == 0 || c.s.heldBack.count+len(c.changes) >= c.clearReads) {
		if !run.force && c.leased(r, run.now) {
			run.kept = append(run.kept, n)
		} else if until != 0 {
			run.readAt(c.s.replica(n), r.size, handed)
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
	until, handed = c.held(n, run.now)
	c.noteDrop(run.now, n, CauseRemove, until, handed)
	run.removed++
}

// commitClear decides that everything goes that the walk found nothing special about.
func (c *Catalog) commitClear(run *clearRun) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.lockShards()
	defer c.s.unlockShards()
	late, handed, all := c.s.clear.end()
	run.handed, run.unknown = max(run.handed, handed), handed != 0
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
	ch.Cause, ch.Below = CauseRemove, run.below
	kept := len(c.replicas)
	if !run.unknown {
		c.replicas = c.pieces(run, c.replicas)
	}
	if run.unknown || len(c.replicas) > kept {
		ch.Until, ch.HandedOut, ch.Size = run.handed+Time(c.cfg.LeaseMs), run.handed, run.piece
	}
	ch.Replicas = c.replicas[at:]
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
	return len(run.kept) <= 3*limits.ClearKept // the Change names them, and has to fit into a record of the log
}

// isFenced tells whether a name is that of an object from before the walk under way.
func (s *state) isFenced(n name) bool {
	return n != 0 && s.arena.isFenced(n) && s.record(n).keyBytes != 0
}
