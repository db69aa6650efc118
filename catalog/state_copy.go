package catalog

import "mooncake/internal/limits"

// A copy under way is a staged write (see state_staged.go) whose ranges join the object in the end, instead of replacing
// it. Its record belongs to the object's group, so that the group is not evicted meanwhile, and to no bundle: the bundle
// is as complete as before. When the object's segments go first, the copy is left under the key as an unfinished write,
// and only its writer, the time or that writer's death can end it.

// copying is what a record of a copy says beside its ranges.
type copying struct {
	kind    CopyKind
	source  uint64 // the replica that is copied
	targets uint8  // ranges at the start
}

// isCopy tells whether a record is a copy under way.
func (s *state) isCopy(n name) bool {
	if len(s.copies) == 0 {
		return false
	}
	_, ok := s.copies[n]
	return ok
}

// copyOf gives the copy of an object that is under way, or the record itself if that is one without object; 0 is none.
func (s *state) copyOf(n name) name {
	if st := s.stagedOf(n); st != 0 {
		n = st
	}
	if s.isCopy(n) {
		return n
	}
	return 0
}

// liesOn tells whether an object has a replica on a segment of a name.
func (s *state) liesOn(n name, text string) bool {
	for rn := n; rn != 0; {
		rep := s.replica(rn)
		rn = rep.more
		if seg := s.segments.list[rep.segment]; !seg.dead.Load() && seg.info.Name == text {
			return true
		}
	}
	return false
}

// dropCopy forgets what is known of a copy whose record goes.
func (s *state) dropCopy(n name) {
	if !s.isCopy(n) {
		return
	}
	if delete(s.copies, n); len(s.copies) == 0 {
		s.copies = map[name]copying{} // a map never shrinks
	}
}

// joinCopies ends a copy: its ranges become replicas of the object, complete in the same moment for readers.
func (s *state) joinCopies(n, st name, c *Change) {
	var joined []ReplicaChange
	r := s.record(st)
	for rn := st; rn != 0; {
		rep := s.replica(rn)
		rn = rep.more
		if seg := s.segments.list[rep.segment]; !seg.dead.Load() && mentions(c.Replicas, rep.id) {
			joined = append(joined, ReplicaChange{rep.id, seg.info.ID, rep.offset, r.size})
		}
	}
	s.removeRecord(st, departure{cause: CauseRevoke, at: c.Time})
	sh := s.shard(s.hash(c.Key))
	sh.mu.Lock()
	for i := range joined {
		rc := &joined[i]
		seg := s.segments.byID[rc.Segment]
		if s.liesAt(n, rc.ID) || int(s.record(n).replicas) >= limits.ReplicasPerObjectMax || !seg.space.Reserve(rc.Offset, rc.Size) {
			continue
		}
		if !s.addReplica(n, rc, seg) {
			seg.free(rc.Offset, rc.Size)
		}
	}
	s.setStatus(n, joined, ReplicaProcessing, ReplicaComplete)
	sh.mu.Unlock()
	if r := s.record(n); r.wanted > 1 {
		r.wanted = max(r.wanted, min(c.Wanted, limits.ReplicasPerObjectMax))
	}
	s.countLost(n)
	s.settle(n)
	s.clear.changed(n)
}

// liesAt tells whether an object has the replica of an id.
func (s *state) liesAt(n name, id uint64) bool {
	for rn := n; rn != 0; {
		rep := s.replica(rn)
		if rep.id == id {
			return true
		}
		rn = rep.more
	}
	return false
}
