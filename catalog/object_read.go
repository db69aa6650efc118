package catalog

// Exist tells whether a key can be read, and grants a lease if so.
func (c *Catalog) Exist(now Time, key string) bool {
	hash := c.s.hash(key)
	sh := c.s.shard(hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	n := c.settled(sh, hash, key)
	switch {
	case n != 0 && c.readable(n) == nil:
		c.grant(n, now)
		c.s.clear.read(n, 0)
	case c.hidden(n) || !c.readableOnDisk(key):
		return false
	default:
		c.s.disks.grant(key, now+Time(c.cfg.LeaseMs))
	}
	return true
}

// settled finds the record of a key for a reader, who holds the shard's lock: it waits, without the lock, while a decision
// about the object's ranges is under way, or one that is not durable yet completed it.
func (c *Catalog) settled(sh *shard, hash uint64, key string) name {
	n := c.s.find(sh, hash, key)
	for n != 0 && c.s.record(n).flags&(flagClosing|flagFresh) != 0 {
		closing := c.s.record(n).flags&flagClosing != 0
		sh.mu.RUnlock()
		lasting := true
		if closing {
			c.await()
		} else {
			lasting = c.awaitDurable()
		}
		sh.mu.RLock()
		if n = c.s.find(sh, hash, key); !lasting {
			return n
		}
	}
	return n
}

// Get appends the readable replicas of an object to dst and grants a lease: those of active clients or, when there are
// none, those of suspect ones. It takes no memory when dst has room. From now on for the time of a lease somebody may read
// these ranges, whatever becomes of the object.
func (c *Catalog) Get(now Time, key string, dst []Replica) (Object, []Replica, error) {
	hash := c.s.hash(key)
	sh := c.s.shard(hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	n := c.settled(sh, hash, key)
	o, dst, err := c.view(n, key, dst)
	if err == nil && o.OnDisk {
		c.s.disks.grant(key, now+Time(c.cfg.LeaseMs))
		c.hit(key)
		o.LeaseMs = c.cfg.LeaseMs
	} else if err == nil {
		c.grant(n, now)
		r := c.s.record(n)
		raise(&r.handed, int64(now))
		c.s.clear.read(n, now)
		if r.bundle != 0 {
			c.noteRead(r.bundle, now)
		}
		o.LeaseMs = c.cfg.LeaseMs
	}
	return o, dst, err
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
	return c.view(c.s.find(sh, hash, key), key, dst)
}

// view copies out what readers may see of an object: what is in memory, then what is on disk. The caller holds the shard's
// lock or Catalog.mu.
func (c *Catalog) view(n name, key string, dst []Replica) (Object, []Replica, error) {
	o, dst, err := c.viewMemory(n, dst)
	if c.s.disks.count.Load() == 0 || c.hidden(n) {
		return o, dst, err
	}
	disk, dst, ok := c.s.disks.view(key, dst)
	if err != nil && ok {
		disk.OnDisk = true
		return disk, dst, nil
	}
	return o, dst, err
}

// hidden tells whether an object is kept from readers whatever there is of it: a bundle's that lost members.
func (c *Catalog) hidden(n name) bool {
	return n != 0 && c.cfg.HideDamagedBundles && c.s.record(n).flags&flagTorn != 0
}

func (c *Catalog) viewMemory(n name, dst []Replica) (Object, []Replica, error) {
	if n == 0 {
		return Object{}, dst, ErrObjectNotFound
	}
	r := c.s.record(n)
	if err := c.hiddenBy(r.flags); err != nil {
		return Object{}, dst, err
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
			dst = append(dst, Replica{ID: rep.id, Segment: &seg.info, Offset: rep.offset, Size: r.size, Status: rep.status})
		}
	}
	if len(dst) == had {
		return Object{}, dst, ErrNotReady // its clients became suspected in this very moment
	}
	sum, summed := r.sum()
	return Object{
		Size:        r.size,
		Checksum:    r.checksum,
		HasChecksum: r.flags&flagChecksum != 0,
		HardPin:     r.flags&flagHardPin != 0,
		DataType:    r.dataType,
		Sum:         sum,
		HasSum:      summed,
	}, dst, nil
}

// readable tells why an object cannot be read; nil when it can. The caller holds the shard's lock or Catalog.mu.
func (c *Catalog) readable(n name) error {
	if err := c.hiddenBy(c.s.record(n).flags); err != nil {
		return err
	}
	_, err := c.bestStage(n, *c.s.segments.shared.Load())
	return err
}

// hiddenBy tells what keeps readers away from an object, whatever its replicas are.
func (c *Catalog) hiddenBy(flags uint8) error {
	switch {
	case flags&flagHidden != 0, flags&flagTorn != 0 && c.cfg.HideDamagedBundles:
		return ErrObjectNotFound
	case flags&flagFresh != 0:
		return ErrNotReady
	}
	return nil
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
