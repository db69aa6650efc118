package catalog

// Exist tells whether a key can be read, and grants a lease if so.
func (c *Catalog) Exist(now Time, key string) bool {
	hash := c.s.hash(key)
	sh := c.s.shard(hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	n := c.s.find(sh, hash, key)
	if n == 0 || c.readable(n) != nil {
		return false
	}
	c.grant(n, now)
	return true
}

// Get appends the readable replicas of an object to dst and grants a lease. It takes no memory when dst has room.
func (c *Catalog) Get(now Time, key string, dst []Replica) (Object, []Replica, error) {
	hash := c.s.hash(key)
	sh := c.s.shard(hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	n := c.s.find(sh, hash, key)
	o, dst, err := c.view(n, dst)
	if err == nil {
		c.grant(n, now)
		o.LeaseMs = c.cfg.LeaseMs
	}
	return o, dst, err
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
	if r.flags&flagHidden != 0 {
		return Object{}, dst, ErrObjectNotFound
	}
	// Loaded under the lock: whoever put a replica here had shared its segment before.
	segments := *c.s.segments.shared.Load()
	err := error(ErrObjectNotFound)
	for rn := n; rn != 0; {
		rep := c.s.replica(rn)
		rn = rep.more
		seg := segments[rep.segment]
		if seg.dead.Load() {
			continue
		}
		if rep.status != ReplicaComplete {
			if err != nil {
				err = ErrNotReady
			}
			continue
		}
		err = nil
		dst = append(dst, Replica{rep.id, &seg.info, rep.offset, r.size, rep.status})
	}
	if err != nil {
		return Object{}, dst, err
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
	if c.s.record(n).flags&flagHidden != 0 {
		return ErrObjectNotFound
	}
	segments := *c.s.segments.shared.Load()
	err := error(ErrObjectNotFound)
	for rn := n; rn != 0; {
		rep := c.s.replica(rn)
		if !segments[rep.segment].dead.Load() {
			if rep.status == ReplicaComplete {
				return nil
			}
			err = ErrNotReady
		}
		rn = rep.more
	}
	return err
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
