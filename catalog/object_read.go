package catalog

// Exist tells whether a key can be read, and grants a lease if so.
func (c *Catalog) Exist(now Time, key string) bool {
	hash := c.s.hash(key)
	sh := c.s.shard(hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	n := c.decided(sh, hash, key)
	if n == 0 || c.readable(n) != nil {
		return false
	}
	c.grant(n, now)
	return true
}

// Get appends the readable replicas of an object to dst and grants a lease: those of active clients or, when there are
// none, those of suspect ones. It takes no memory when dst has room. From now on for the time of a lease somebody may read
// these ranges, whatever becomes of the object.
func (c *Catalog) Get(now Time, key string, dst []Replica) (Object, []Replica, error) {
	hash := c.s.hash(key)
	sh := c.s.shard(hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	n := c.decided(sh, hash, key)
	o, dst, err := c.view(n, dst)
	if err == nil {
		c.grant(n, now)
		r := c.s.record(n)
		raise(&r.handed, int64(now))
		if r.bundle != 0 {
			c.noteRead(r.bundle, now)
		}
		o.LeaseMs = c.cfg.LeaseMs
	}
	return o, dst, err
}

// decided finds an object, and waits for the decision if it is just being decided whether it goes. The caller holds the
// shard's lock for readers, which is given up meanwhile.
func (c *Catalog) decided(sh *shard, hash uint64, key string) name {
	n := c.s.find(sh, hash, key)
	for n != 0 && c.s.record(n).flags&flagClosing != 0 {
		sh.mu.RUnlock()
		c.await()
		sh.mu.RLock()
		n = c.s.find(sh, hash, key)
	}
	return n
}

// await returns when the decision under way is carried out.
func (c *Catalog) await() {
	c.mu.Lock()
	defer c.mu.Unlock()
}

// Peek is Get without a lease, for people who look.
func (c *Catalog) Peek(key string, dst []Replica) (Object, []Replica, error) {
	hash := c.s.hash(key)
	sh := c.s.shard(hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return c.view(c.s.find(sh, hash, key), dst)
}

// view copies out what readers may see of an object. The caller holds the shard's lock or Catalog.mu.
func (c *Catalog) view(n name, dst []Replica) (Object, []Replica, error) {
	if n == 0 {
		return Object{}, dst, ErrObjectNotFound
	}
	r := c.s.record(n)
	if c.hidden(r) {
		return Object{}, dst, ErrObjectNotFound
	}
	// Loaded under the lock: whoever put a replica here had shared its segment before.
	segments := *c.s.segments.shared.Load()
	had := len(dst)
	best, err := c.bestStage(n, segments)
	if err != nil {
		return Object{}, dst, err
	}
	for rn := n; rn != 0; {
		rep := c.s.replica(rn)
		rn = rep.more
		seg := segments[rep.segment]
		if rep.status == ReplicaComplete && !seg.dead.Load() && seg.at() <= best {
			dst = append(dst, Replica{rep.id, &seg.info, rep.offset, r.size, rep.status})
		}
	}
	if len(dst) == had {
		return Object{}, dst, ErrNotReady // its clients became suspected in this very moment
	}
	return Object{
		Size:        r.size,
		Checksum:    r.checksum,
		HasChecksum: r.flags&flagChecksum != 0,
		HardPin:     r.flags&flagHardPin != 0,
		DataType:    r.dataType,
	}, dst, nil
}

// readable tells why an object cannot be read; nil when it can. The caller holds the shard's lock or Catalog.mu.
func (c *Catalog) readable(n name) error {
	if c.hidden(c.s.record(n)) {
		return ErrObjectNotFound
	}
	_, err := c.bestStage(n, *c.s.segments.shared.Load())
	return err
}

// hidden tells whether readers must not see an object although it is there.
func (c *Catalog) hidden(r *record) bool {
	return r.flags&flagHidden != 0 || r.flags&flagTorn != 0 && c.cfg.HideDamagedBundles
}

// bestStage gives the stage of the best readable copy: StageActive or StageSuspect. An object that is unfinished, or
// whose copies are all suspected or lost, has none.
func (c *Catalog) bestStage(n name, segments []*segment) (Stage, error) {
	best, err := StageGone, error(ErrObjectNotFound)
	for rn := n; rn != 0; {
		rep := c.s.replica(rn)
		rn = rep.more
		seg := segments[rep.segment]
		stage := seg.at()
		switch {
		case seg.dead.Load() || stage == StageLost:
		case rep.status != ReplicaComplete || stage == StageSuspected:
			err = ErrNotReady
		default:
			best = min(best, stage)
		}
	}
	if best <= StageSuspect {
		return best, nil
	}
	return best, err
}

// grant leases an object to a reader, who holds the shard's lock. The lease of a group is kept on the group: one store,
// however many members it has. A bundle without group keeps its own beside its members', for the eviction.
func (c *Catalog) grant(n name, now Time) {
	r := c.s.record(n)
	until := int64(now) + c.cfg.LeaseMs
	if r.unit != 0 {
		raise(&c.s.unit(r.unit).lease, until)
		if r.flags&flagGroup != 0 {
			return
		}
	}
	raise(&r.lease, until)
}
