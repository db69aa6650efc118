package catalog

// A write that replaces an object is staged: its record has the object's key but is not in the index, so that readers
// see the old value until the new one is complete. When the old one goes first, the write takes its place as an
// unfinished object.

// stage puts an unfinished record beside the object that it will replace.
func (s *state) stage(old, n name) {
	s.staged[old] = n
	s.record(old).marks |= markReplaced
	s.record(n).marks |= markStaged
	s.settle(old)
}

// unstage parts the two, either of which is about to go.
func (s *state) unstage(old, n name) {
	delete(s.staged, old)
	s.record(old).marks &^= markReplaced
	s.record(n).marks &^= markStaged
}

// unindex makes a record unreachable, before it goes.
func (s *state) unindex(n name) {
	r := s.record(n)
	s.unmarkLost(r)
	hash := s.hash(r.key())
	sh := s.shard(hash)
	if r.marks&markStaged != 0 {
		old := s.find(sh, hash, r.key())
		s.unstage(old, n)
		if o := s.record(old); o.client == r.client && !s.isCopy(n) {
			// The writer failed, so it must not be told by a late end that it succeeded: the old value is nobody's now.
			o.client = s.owners.ref(UUID{})
			s.owners.unref(r.client)
		}
		s.settle(old)
		return
	}
	st := s.stagedOf(n)
	if st != 0 {
		s.unstage(n, st)
	}
	sh.mu.Lock()
	indexed := sh.table.remove(hash, n)
	if st != 0 {
		sh.table.insert(hash, st)
	}
	sh.mu.Unlock()
	if indexed {
		s.shares.list[r.share].keys--
		if st == 0 {
			s.keys--
			s.disks.indexed(r.key(), false)
		}
	}
	if st != 0 {
		s.shares.list[s.record(st).share].keys++
		s.countLost(st)
	}
}

// takeOver puts a staged record in the place of the old one, which goes. The statuses of the new one's replicas change
// in the same moment for readers.
func (s *state) takeOver(old, n name, c *Change) {
	pin := s.pins[old]
	hash := s.hash(c.Key)
	sh := s.shard(hash)
	s.unmarkLost(s.record(old))
	s.unstage(old, n)
	sh.mu.Lock()
	s.complete(n, c)
	sh.table.remove(hash, old)
	sh.table.insert(hash, n)
	sh.mu.Unlock()
	s.shares.list[s.record(old).share].keys--
	s.shares.list[s.record(n).share].keys++
	s.removeRecord(old, departure{CauseUpsert, c.Time, c.Until, c.HandedOut})
	if pin != 0 {
		s.setPin(n, pin)
	}
	s.countLost(n)
}

// countLost brings the count of lost objects up to date with one object.
func (s *state) countLost(n name) {
	r := s.record(n)
	if r.marks&markStaged != 0 {
		return
	}
	if !s.allLost(n) {
		s.unmarkLost(r)
	} else if r.marks&markLost == 0 {
		r.marks |= markLost
		s.lostKeys++
		s.shares.list[r.share].lostKeys++
	}
}

func (s *state) unmarkLost(r *record) {
	if r.marks&markLost != 0 {
		r.marks &^= markLost
		s.lostKeys--
		s.shares.list[r.share].lostKeys--
	}
}

// allLost tells whether every replica of an object is on a lost segment.
func (s *state) allLost(n name) bool {
	for rn := n; rn != 0; {
		rep := s.replica(rn)
		if seg := s.segments.list[rep.segment]; !seg.dead.Load() && seg.at() < StageLost {
			return false
		}
		rn = rep.more
	}
	return true
}

// inSight tells whether a replica of an object is on a segment that readers may see.
func (s *state) inSight(n name) bool {
	for rn := n; rn != 0; {
		rep := s.replica(rn)
		if seg := s.segments.list[rep.segment]; !seg.dead.Load() && seg.at() < StageSuspected {
			return true
		}
		rn = rep.more
	}
	return false
}
