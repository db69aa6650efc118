package catalog

import "mooncake/internal/limits"

// apply carries out one Change. It is total: a Change that does not fit, because it was applied already or its segment
// is gone, does as much as makes sense and nothing else. held says that the ranges of a ChangePut are taken already, as
// they are where it was decided.
func (s *state) apply(c *Change, held bool) {
	switch c.Kind {
	case ChangeMount:
		s.applyMount(c)
	case ChangeUnmount:
		s.applyUnmount(c)
	case ChangePut:
		s.applyPut(c, held)
	case ChangeEnd:
		s.applyEnd(c)
	case ChangeReopen:
		s.applyReopen(c)
	case ChangeDrop:
		s.applyDrop(c)
	case ChangeRelease:
		for i := range c.Replicas {
			s.applyRelease(&c.Replicas[i])
		}
	case ChangeWorkloads:
		s.applyWorkloads(c)
	case ChangeCount:
		for i := range c.Replicas {
			s.nextReplica = max(s.nextReplica, c.Replicas[i].ID)
		}
	case ChangeHold:
		s.applyHold(c)
	case ChangeBundle:
		s.applyBundle(c)
	case ChangeWindow:
		s.applyWindow(c)
	case ChangeDisk:
		s.applyDisk(c)
	case ChangeDiskDrop:
		s.applyDiskDrop(c)
	case ChangeSegment:
		s.applySegment(c)
	case ChangePin:
		s.applyPin(c)
	case ChangeSum:
		s.applySum(c)
	case ChangeClear:
		s.applyClear(c, held)
	}
}

func (s *state) applyMount(c *Change) {
	if c.Segment == nil || !c.Segment.possible() || s.segments.byID[c.Segment.ID] != nil {
		return
	}
	s.segments.mount(&SegmentInfo{Segment: *c.Segment, Client: c.Client})
	s.capacity += c.Segment.Size
}

func (s *state) applyUnmount(c *Change) {
	if c.Segment == nil {
		return
	}
	seg := s.segments.byID[c.Segment.ID]
	if seg == nil {
		return
	}
	s.capacity -= seg.info.Size
	s.allocated -= seg.used
	s.heldBack.forget(seg)
	s.dischargeAll(seg)
	s.segments.unmount(seg)
}

func (s *state) applyPut(c *Change, held bool) {
	if c.Key == "" || len(c.Key) > limits.KeyBytesMax || len(c.Group) > limits.KeyBytesMax || c.Size == 0 {
		return
	}
	old := s.lookup(c.Key)
	if c.Copy != CopyNone && c.Staged && (old == 0 || s.mentioned(old, c.Replicas) > 0) {
		return
	}
	if old != 0 {
		st := s.stagedOf(old)
		for _, n := range [...]name{old, st} {
			if n != 0 && len(c.Replicas) > 0 && s.record(n).id == c.Replicas[0].ID {
				return
			}
		}
		if st != 0 {
			s.removeRecord(st, departure{cause: CauseUpsert, at: c.Time})
		}
		if !c.Staged {
			s.removeRecord(old, departure{cause: CauseUpsert, at: c.Time})
			old = 0
		}
	}
	n := s.addRecord(c)
	if n == 0 {
		return
	}
	r := s.record(n)
	for i := range c.Replicas {
		rc := &c.Replicas[i]
		seg := s.segments.find(rc.Segment)
		if seg == nil || r.replicas == limits.ReplicasPerObjectMax || (!held && !seg.space.Reserve(rc.Offset, c.Size)) {
			continue
		}
		if !s.addReplica(n, rc, seg) {
			seg.free(rc.Offset, c.Size)
		}
	}
	if r.replicas == 0 {
		s.leaveBundle(n, CauseRevoke, c.Time)
		s.leave(n)
		s.dropCopy(n)
		s.owners.unref(r.client)
		s.shares.unref(r.tenant)
		s.unwant(r)
		s.arena.release(n)
		return
	}
	s.setPin(n, c.PinnedUntil)
	if c.SoftPin != SoftPinPreserve {
		s.pending[n] = pendingPin{c.SoftPin, c.SoftPinTTLMs}
	}
	s.settle(n)
	if old != 0 {
		s.stage(old, n)
		return
	}
	hash := s.hashOf(c.Key)
	sh := s.shard(hash)
	sh.mu.Lock()
	sh.table.insert(hash, n)
	sh.mu.Unlock()
	s.keys++
	s.shares.list[r.share].keys++
	s.disks.indexed(c.Key, true)
}

// meant gives the record that a Change about a key means: the object or the write that is staged for it.
func (s *state) meant(c *Change) name {
	n := s.lookup(c.Key)
	if n == 0 {
		return 0
	}
	if st := s.stagedOf(n); st != 0 && s.mentioned(st, c.Replicas) > 0 {
		return st
	}
	return n
}

// mentioned counts the replicas of an object that are in a list.
func (s *state) mentioned(n name, replicas []ReplicaChange) (hits int) {
	for rn := n; rn != 0; {
		rep := s.replica(rn)
		if mentions(replicas, rep.id) {
			hits++
		}
		rn = rep.more
	}
	return hits
}

func (s *state) applyEnd(c *Change) {
	n := s.meant(c)
	if n == 0 {
		return
	}
	if s.isCopy(n) {
		if obj := s.lookup(c.Key); obj != n {
			s.joinCopies(obj, n, c)
		}
		return
	}
	r := s.record(n)
	wasOpen, first := r.isOpen(), !s.hasComplete(n)
	if r.marks&markStaged != 0 {
		s.takeOver(s.lookup(c.Key), n, c)
	} else {
		sh := s.shard(s.hashOf(c.Key))
		sh.mu.Lock()
		s.complete(n, c)
		sh.mu.Unlock()
	}
	if first && s.hasComplete(n) {
		s.came(n)
	}
	if !wasOpen || s.unfinished(n) && !first {
		return
	}
	if first {
		s.commitPin(n, c.Time)
		s.overtaken(n, c)
	}
	if s.unfinished(n) {
		return
	}
	r.time = int64(c.Time)
	if r.unit != 0 {
		u := s.unit(r.unit)
		u.lastTouch = max(u.lastTouch, r.time)
		if r.marks&(markManifest|markPublished) == markManifest {
			r.marks |= markPublished
			u.manifests++
		}
	}
	if r.bundle != 0 {
		s.writeBundle(r.bundle, c.Time)
	}
	s.settle(n)
}

// complete makes replicas readable. The caller holds the shard's lock.
func (s *state) complete(n name, c *Change) {
	r := s.record(n)
	s.setStatus(n, c.Replicas, ReplicaProcessing, ReplicaComplete)
	if s.marksFresh {
		r.flags |= flagFresh
		s.completed = append(s.completed, n)
	}
	if c.KeepChecksum {
		return
	}
	r.checksum = c.Checksum
	r.flags &^= flagChecksum | flagSummed
	if c.HasChecksum {
		r.flags |= flagChecksum
	}
	if c.HasSum {
		r.setSum(c.Sum)
	}
}

// commitPin lets the soft pin that a write asked for take effect.
func (s *state) commitPin(n name, now Time) {
	p, ok := s.pending[n]
	if !ok {
		return
	}
	delete(s.pending, n)
	until := Time(0)
	if p.action == SoftPinEnable && p.ttlMs > 0 {
		until = now + Time(p.ttlMs)
	}
	s.setPin(n, until)
}

func (s *state) applyReopen(c *Change) {
	n := s.lookup(c.Key)
	if n == 0 {
		return
	}
	if st := s.stagedOf(n); st != 0 {
		s.removeRecord(st, departure{cause: CauseUpsert, at: c.Time})
	}
	r := s.record(n)
	s.went(n)
	s.delist(n) // while it still counts for the old writer; it goes to the end of the unfinished
	sh := s.shard(s.hash(c.Key))
	sh.mu.Lock()
	s.setStatus(n, c.Replicas, ReplicaComplete, ReplicaProcessing)
	if s.unfinished(n) {
		r.flags &^= flagSummed | flagTorn // its end marks it again, as that of any other manifest
	}
	sh.mu.Unlock()
	s.voidTickets(c.Replicas)
	if r.marks&markPublished != 0 && s.unfinished(n) { // a Change that names none of its replicas opens nothing
		r.marks &^= markPublished
		u := s.unit(r.unit)
		if u.manifests--; u.manifests == 0 && u.group {
			s.unlistUnit(u)
		}
	}
	s.dropDisk(c.Key, func(*diskCopy) bool { return true }) // they are of the old value
	old := r.client
	r.client = s.owners.ref(c.Client)
	s.owners.unref(old)
	r.time = int64(c.Time)
	if r.unit != 0 {
		u := s.unit(r.unit)
		u.lastTouch = max(u.lastTouch, r.time)
	}
	if r.bundle != 0 {
		s.writtenBy(s.bundle(r.bundle), r.client)
		s.writeBundle(r.bundle, c.Time)
	}
	s.dropPending(n)
	if c.SoftPin != SoftPinPreserve {
		s.pending[n] = pendingPin{c.SoftPin, c.SoftPinTTLMs}
	}
	s.settle(n)
	if s.shares.expires && !r.isOpen() {
		s.schedule(n) // nothing was opened, and yet it is younger now
	}
}

// setStatus moves the named replicas from one status to another. The caller holds the shard's lock.
func (s *state) setStatus(n name, replicas []ReplicaChange, from, to uint8) {
	for rn := n; rn != 0; {
		rep := s.replica(rn)
		if rep.status == from && mentions(replicas, rep.id) {
			rep.status = to
		}
		rn = rep.more
	}
}

func mentions(replicas []ReplicaChange, id uint64) bool {
	for i := range replicas {
		if replicas[i].ID == id {
			return true
		}
	}
	return false
}

func (s *state) hasComplete(n name) bool {
	for rn := n; rn != 0; {
		rep := s.replica(rn)
		if rep.status == ReplicaComplete {
			return true
		}
		rn = rep.more
	}
	return false
}

func (s *state) applyDrop(c *Change) {
	n := s.meant(c)
	if n == 0 {
		return
	}
	if s.mentioned(n, c.Replicas) == int(s.record(n).replicas) {
		s.dropDisks(n, c)
		s.removeRecord(n, departure{c.Cause, c.Time, c.Until, c.HandedOut})
		return
	}
	for rn := n; rn != 0; {
		if rep := s.replica(rn); mentions(c.Replicas, rep.id) {
			rn = s.dropReplica(n, rn, departure{c.Cause, c.Time, c.Until, c.HandedOut})
		} else {
			rn = rep.more
		}
	}
	s.settle(n)
}

func (s *state) applyRelease(rc *ReplicaChange) {
	seg := s.segments.byID[rc.Segment]
	if seg != nil && s.heldBack.end(seg, rc.Offset, rc.Size) {
		seg.free(rc.Offset, rc.Size)
	}
}
