package catalog

// wantedWith is Change.Wanted for copies that an object is to have from now on; 0 when it is to have no more than before, or one.
func (c *Catalog) wantedWith(n name, made int) uint8 {
	r := c.s.record(n)
	if r.wanted < 2 {
		return 0
	}
	for rn := n; rn != 0; {
		rep := c.s.replica(rn)
		rn = rep.more
		if seg := c.s.segments.list[rep.segment]; rep.status == ReplicaComplete && !seg.dead.Load() && seg.at() < StageLost {
			made++
		}
	}
	if made <= int(r.wanted) {
		return 0
	}
	return wantedOf(uint64(made), 0)
}

// TrimCopy takes one replica of a complete object away, if at least keep others are left that readers are served from, and no
// fewer than the object is to have. Its range waits for who may read it. A hard pinned object keeps all it has
// (ErrUnavailableStatus), a leased one until the lease is over (ErrHasLease), one that is being copied or written until that
// is done (ErrReplicationTask, ErrNotReady). ErrReplicaNotFound says that the replica is not there, or that none is to spare.
func (c *Catalog) TrimCopy(now Time, key string, id uint64, keep int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.s.lookup(key)
	if n == 0 {
		return ErrObjectNotFound
	}
	r := c.s.record(n)
	if _, busy := c.trivial[key]; busy || c.s.copyOf(n) != 0 {
		return ErrReplicationTask
	}
	switch {
	case r.isOpen() || r.marks&(markStaged|markReplaced) != 0 || r.flags&flagHidden != 0:
		return ErrNotReady
	case r.flags&flagHardPin != 0:
		return ErrUnavailableStatus
	}
	spare := -max(keep, int(r.wanted), 1)
	for rn := n; rn != 0; {
		rep := c.s.replica(rn)
		rn = rep.more
		seg := c.s.segments.list[rep.segment]
		if rep.id != id && rep.status == ReplicaComplete && !seg.dead.Load() && seg.at() == StageActive && seg.open() {
			spare++
		}
	}
	if spare < 0 || !c.hasReplica(n, id) {
		return ErrReplicaNotFound
	}
	c.closeReads(n) // so that nobody gets a lease that this breaks
	defer c.openReads(n)
	if c.leased(r, now) {
		return ErrHasLease
	}
	c.begin()
	c.noteMoved(now, n, id)
	c.commit()
	return nil
}
