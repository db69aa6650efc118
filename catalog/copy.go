package catalog

import (
	"slices"

	"mooncake/internal/limits"
)

// A CopyKind says what a write beside a complete object is for, if not to replace its value.
type CopyKind uint8

// The kinds of copies.
const (
	CopyNone CopyKind = iota
	CopyAdd           // further replicas of the object
	CopyMove          // a replica that takes the place of another
)

// A trivial copy has nothing to write: every target holds the object already. Only the leader knows it.
type trivial struct {
	client UUID
	kind   CopyKind
	source uint64 // the replica that a move takes away
	began  Time
}

// CopyStart begins to copy an object from one segment to others; it returns the replica to read and appends to dst those
// to write. A target that has the object already is left out. Until CopyEnd readers see nothing of it, and the object can
// be neither removed, replaced nor evicted.
func (c *Catalog) CopyStart(now Time, id UUID, key, source string, targets []string, dst []Replica) (Replica, []Replica, error) {
	return c.startCopy(now, id, key, source, targets, CopyAdd, dst)
}

// MoveStart is CopyStart for one target; at MoveEnd the replica on the source goes.
func (c *Catalog) MoveStart(now Time, id UUID, key, source, target string, dst []Replica) (Replica, []Replica, error) {
	if source == target {
		return Replica{}, dst, ErrInvalidParams
	}
	return c.startCopy(now, id, key, source, []string{target}, CopyMove, dst)
}

func (c *Catalog) startCopy(now Time, id UUID, key, source string, targets []string, kind CopyKind, dst []Replica) (Replica, []Replica, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(targets) > limits.ReplicasPerObjectMax {
		return Replica{}, dst, ErrInvalidParams
	}
	for _, target := range targets {
		if err := c.canTake(target); err != nil {
			return Replica{}, dst, err
		}
	}
	n := c.s.lookup(key)
	if n == 0 || c.s.allLost(n) {
		return Replica{}, dst, ErrObjectNotFound
	}
	if _, busy := c.trivial[key]; busy || c.s.copyOf(n) != 0 {
		return Replica{}, dst, ErrReplicationTask
	}
	r := c.s.record(n)
	from := c.sourceOn(n, source)
	if from.Segment == nil || r.isOpen() || r.marks&markReplaced != 0 {
		return Replica{}, dst, ErrReplicaNotFound
	}
	wanted := slices.DeleteFunc(slices.Clone(targets), func(target string) bool { return c.s.liesOn(n, target) })
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	if len(wanted) == 0 {
		return from, dst, c.startTrivial(now, id, key, kind, from.ID)
	}
	if int(r.replicas)+len(wanted) > limits.ReplicasPerObjectMax {
		return Replica{}, dst, ErrInvalidParams
	}
	o := PutOptions{Group: c.s.groupOf(r), Tenant: c.s.shares.name(r.tenant)}
	w := write{now: now, client: id, key: key, size: r.size, o: &o, replicas: uint64(len(wanted)), group: o.Group, dataType: r.dataType}
	if !c.memoryFor(&w) || !c.s.arena.ready(kindReplica, replicaBytes) {
		return Replica{}, dst, ErrInternal
	}
	if !c.placeOn(&w, wanted) {
		return Replica{}, dst, ErrNoSpace
	}
	return from, c.noteCopy(&w, kind, from.ID, dst), nil
}

// noteCopy decides a copy into the places that were found.
func (c *Catalog) noteCopy(w *write, kind CopyKind, source uint64, dst []Replica) []Replica {
	c.begin()
	at, next := len(c.replicas), c.s.nextReplica
	for i := range c.placer.places {
		p := &c.placer.places[i]
		c.replicas = append(c.replicas, ReplicaChange{next, p.seg.info.ID, p.offset, w.size})
		dst = append(dst, Replica{ID: next, Segment: &p.seg.info, Offset: p.offset, Size: w.size, Status: ReplicaProcessing})
		next++
	}
	group := c.keep(w.group)
	ch := c.note(ChangePut, w.now)
	ch.Client, ch.Key, ch.Size, ch.Group, ch.Tenant = w.client, w.key, w.size, group, w.o.Tenant
	ch.DataType, ch.Staged, ch.Copy, ch.Source = w.dataType, true, kind, source
	ch.Replicas = c.replicas[at:]
	c.commit()
	return dst
}

// canTake tells whether a segment of a name takes new ranges.
func (c *Catalog) canTake(name string) error {
	named := c.s.segments.byName[name]
	if len(named) == 0 {
		return ErrSegmentNotFound
	}
	for _, seg := range named {
		if seg.open() && seg.at() <= StageSuspect {
			return nil
		}
	}
	return ErrUnavailableStatus
}

// placeOn takes a free range on a segment of each name; none is taken when one has no room.
func (c *Catalog) placeOn(w *write, names []string) bool {
	c.startPlaces(w)
	p := &c.placer
	p.worst = StageSuspect
	for _, name := range names {
		had := len(p.places)
		for range 2 {
			for _, seg := range c.s.segments.byName[name] {
				if len(p.places) > had || !c.within(&w.bounds) {
					break
				}
				if offset, ok := c.takeOn(seg, w.size, false); ok {
					c.taken(seg, offset)
				}
			}
			if len(p.places) > had || !c.s.heldBack.ends.due(w.now) {
				break
			}
			for c.endQuarantine(w.now) {
			}
		}
		if len(p.places) == had {
			c.putBack(w.size)
			return false
		}
	}
	return true
}

// sourceOn gives the complete replica of an object on a segment of a name; its Segment is nil when there is none.
func (c *Catalog) sourceOn(n name, text string) (from Replica) {
	size := c.s.record(n).size
	for rn := n; rn != 0; {
		rep := c.s.replica(rn)
		rn = rep.more
		seg := c.s.segments.list[rep.segment]
		if !seg.dead.Load() && seg.at() <= StageSuspected && seg.info.Name == text && rep.status == ReplicaComplete {
			return Replica{ID: rep.id, Segment: &seg.info, Offset: rep.offset, Size: size, Status: rep.status}
		}
	}
	return Replica{}
}

// startTrivial remembers a copy that has nothing to write.
func (c *Catalog) startTrivial(now Time, id UUID, key string, kind CopyKind, source uint64) error {
	if len(c.trivial) >= limits.CatalogTrivialCopies {
		return ErrUnavailableStatus
	}
	if c.trivial == nil {
		c.trivial = map[string]trivial{}
	}
	c.trivial[key] = trivial{id, kind, source, now}
	return nil
}

// endTrivials forgets copies without anything to write that nobody ended.
func (c *Catalog) endTrivials(now Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, t := range c.trivial {
		if c.releaseAt(t.began) <= now {
			delete(c.trivial, key)
		}
	}
}

// CopyEnd makes the copies part of the object. ErrReplicaGone says that one or all of them are lost, or the source is.
func (c *Catalog) CopyEnd(now Time, id UUID, key string) error {
	return c.endCopy(now, id, key, CopyAdd, true, false)
}

// CopyEndMore is CopyEnd for copies that somebody asked for beyond those of the put: an object that is to have several is to
// have them as well from then on. They are no surplus.
func (c *Catalog) CopyEndMore(now Time, id UUID, key string) error {
	return c.endCopy(now, id, key, CopyAdd, true, true)
}

// MoveEnd makes the copy part of the object and takes the replica on the source away. Its range waits for who reads it.
func (c *Catalog) MoveEnd(now Time, id UUID, key string) error {
	return c.endCopy(now, id, key, CopyMove, true, false)
}

// CopyRevoke takes back a copy that did not succeed. Its ranges are free at once.
func (c *Catalog) CopyRevoke(now Time, id UUID, key string) error {
	return c.endCopy(now, id, key, CopyAdd, false, false)
}

// MoveRevoke is CopyRevoke for a move.
func (c *Catalog) MoveRevoke(now Time, id UUID, key string) error {
	return c.endCopy(now, id, key, CopyMove, false, false)
}

// AbortCopies ends the copies that a client has under way, and returns how many there were: whoever made them is gone and
// nobody else ends them. Their ranges wait as long as those of a writer that was cut off.
func (c *Catalog) AbortCopies(now Time, id UUID) (aborted int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, t := range c.trivial {
		if t.client == id {
			delete(c.trivial, key)
			aborted++
		}
	}
	var own []name
	for st := range c.s.copies {
		if c.s.owners.list[c.s.record(st).client].id == id {
			own = append(own, st)
		}
	}
	slices.Sort(own)
	for _, st := range own {
		c.begin()
		c.noteAside(now, st, CauseAbort)
		c.commit()
	}
	return aborted + len(own)
}

func (c *Catalog) endCopy(now Time, id UUID, key string, kind CopyKind, done, more bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.s.lookup(key)
	if n == 0 {
		delete(c.trivial, key)
		return ErrObjectNotFound
	}
	if t, ok := c.trivial[key]; ok {
		switch {
		case t.client != id:
			return ErrIllegalClient
		case t.kind != kind:
			return ErrInvalidParams
		}
		delete(c.trivial, key)
		if done && kind == CopyMove {
			c.begin()
			c.noteMoved(now, n, t.source)
			c.commit()
			c.openReads(n)
		}
		return nil
	}
	st := c.s.copyOf(n)
	if st == 0 {
		return ErrNoReplicationTask
	}
	switch task := c.s.copies[st]; {
	case c.s.owners.list[c.s.record(st).client].id != id:
		return ErrIllegalClient
	case task.kind != kind:
		return ErrInvalidParams
	case !done || st == n || !c.hasReplica(n, task.source):
		c.begin()
		c.noteDrop(now, st, CauseRevoke, 0, 0)
		c.commit()
		if done {
			return ErrReplicaGone
		}
		return nil
	default:
		if c.finishCopy(now, n, st, task, more) < int(task.targets) {
			return ErrReplicaGone
		}
		return nil
	}
}

// finishCopy decides the end of a copy whose source is still there, and returns how many replicas it made.
func (c *Catalog) finishCopy(now Time, n, st name, task copying, more bool) (made int) {
	c.begin()
	replicas := c.replicasOf(st, ReplicaProcessing)
	key := c.keep(c.s.record(st).key())
	ch := c.note(ChangeEnd, now)
	ch.Client, ch.Key, ch.Replicas, ch.KeepChecksum = c.s.owners.list[c.s.record(st).client].id, key, replicas, true
	if more {
		ch.Wanted = c.wantedWith(n, len(replicas))
	}
	if task.kind == CopyMove {
		c.noteMoved(now, n, task.source)
	}
	c.commit()
	if task.kind == CopyMove {
		c.openReads(n)
	}
	return len(replicas)
}

// noteMoved decides that a replica goes whose copy lies elsewhere. Readers may be at it for as long as their lease lasts.
func (c *Catalog) noteMoved(now Time, n name, source uint64) {
	c.closeReads(n)
	at := len(c.replicas)
	for _, rc := range c.replicasOf(n, ReplicaComplete) {
		if rc.ID == source {
			c.replicas = append(c.replicas[:at], rc)
			break
		}
	}
	ours := c.replicas[at:]
	if len(ours) != 1 || ours[0].ID != source || c.s.record(n).replicas == 1 && c.s.copyOf(n) == 0 {
		return // it is not there any more, or the only one
	}
	key := c.keep(c.s.record(n).key())
	ch := c.note(ChangeDrop, now)
	ch.Key, ch.Cause, ch.Replicas = key, CauseRemove, ours[:1:1]
	ch.Until, ch.HandedOut = c.held(n, now)
}

// hasReplica tells whether a complete replica of an object is on a mounted segment.
func (c *Catalog) hasReplica(n name, id uint64) bool {
	for rn := n; rn != 0; {
		rep := c.s.replica(rn)
		rn = rep.more
		if rep.id == id && rep.status == ReplicaComplete && !c.s.segments.list[rep.segment].dead.Load() {
			return true
		}
	}
	return false
}

// CopyUnderWay tells that an object is being copied or moved; else it is ErrNoReplicationTask or ErrObjectNotFound.
func (c *Catalog) CopyUnderWay(key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.s.lookup(key)
	if n == 0 {
		return ErrObjectNotFound
	}
	if _, ok := c.trivial[key]; !ok && c.s.copyOf(n) == 0 {
		return ErrNoReplicationTask
	}
	return nil
}

// ValueTime gives the time of an object's value: when it was completed, or begun if it is being written. 0 is no object.
func (c *Catalog) ValueTime(key string) Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.s.lookup(key); n != 0 {
		return Time(c.s.record(n).time)
	}
	return 0
}
