package catalog

import (
	"strings"
	"sync/atomic"

	"mooncake/internal/limits"
)

// Remove takes an object away. A leased one stays unless force is set; one that is being written stays always.
func (c *Catalog) Remove(now Time, key string, force bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.s.lookup(key)
	if n == 0 {
		return ErrObjectNotFound
	}
	return c.remove(now, n, force)
}

func (c *Catalog) remove(now Time, n name, force bool) error {
	r := c.s.record(n)
	sh := c.s.shard(c.s.hash(r.key()))
	sh.mu.Lock()
	// Under the shard's lock, so that no reader is told of a lease that this removal then breaks.
	if !force && c.leased(r, now) {
		sh.mu.Unlock()
		return ErrHasLease
	}
	if r.isOpen() {
		sh.mu.Unlock()
		return ErrNotReady
	}
	r.flags |= flagHidden
	sh.mu.Unlock()
	c.begin()
	c.noteDrop(now, n, CauseRemove, 0, 0)
	c.commit()
	return nil
}

// leased tells whether a read protects an object. The lease of its group counts if the object was complete when it was
// granted.
func (c *Catalog) leased(r *record, now Time) bool {
	if atomic.LoadInt64(&r.lease) > int64(now) {
		return true
	}
	if r.flags&flagGroup == 0 || r.unit == 0 {
		return false
	}
	lease := atomic.LoadInt64(&c.s.unit(r.unit).lease)
	return lease > int64(now) && r.time <= lease-c.cfg.LeaseMs
}

// RemoveMatching removes the objects whose keys match, all of them when match is nil, and returns how many went. What
// Remove would refuse is left. Others get the lock in between, so objects that come or go meanwhile may be missed.
func (c *Catalog) RemoveMatching(now Time, match func(key string) bool, force bool) (removed int64) {
	var at cursor
	for more := true; more; {
		if match == nil {
			var n int64
			n, more = c.removeSlice(now, &at, force)
			removed += n
			continue
		}
		var keys []string
		keys, more = c.keySlice(&at, false)
		for _, key := range keys {
			if match(key) && c.Remove(now, key, force) == nil {
				removed++
			}
		}
	}
	return removed
}

func (c *Catalog) removeSlice(now Time, at *cursor, force bool) (removed int64, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range limits.CatalogSliceItems {
		n := c.s.scan(at)
		if n == 0 {
			return removed, false
		}
		if c.s.segments.dying != nil && !c.s.prune(n) {
			continue
		}
		if c.remove(now, n, force) == nil {
			removed++
		}
	}
	return removed, true
}

// ClearReplicas takes away an object's replicas on the segments of a name, or the whole object when the name is "". Only
// the client that wrote it may, and not while it is leased or being written. It reports whether anything went.
func (c *Catalog) ClearReplicas(now Time, id UUID, key, segmentName string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.s.lookup(key)
	if n == 0 {
		return false
	}
	r := c.s.record(n)
	if c.s.owners.list[r.client].id != id || c.leased(r, now) {
		return false
	}
	if segmentName == "" {
		return c.remove(now, n, false) == nil
	}
	c.begin()
	all := c.replicasOf(n, ReplicaComplete)
	some := all[:0]
	for _, rc := range all {
		if c.s.segments.byID[rc.Segment].info.Name == segmentName {
			some = append(some, rc)
		}
	}
	if len(some) == 0 {
		return false
	}
	ch := c.note(ChangeDrop, now)
	ch.Key, ch.Cause, ch.Replicas = key, CauseRemove, some
	c.commit()
	return true
}

// Keys yields the readable keys, in no particular order. It holds no lock while it yields; objects that come or go
// meanwhile may be missed.
func (c *Catalog) Keys(yield func(key string) bool) {
	var at cursor
	for more := true; more; {
		var keys []string
		keys, more = c.keySlice(&at, true)
		for _, key := range keys {
			if !yield(key) {
				return
			}
		}
	}
}

// FindMatching yields the readable objects whose keys match, each with a lease. The replicas are valid during the call.
func (c *Catalog) FindMatching(now Time, match func(key string) bool, yield func(key string, o Object, replicas []Replica) bool) {
	var replicas []Replica
	for key := range c.Keys {
		if !match(key) {
			continue
		}
		o, found, err := c.Get(now, key, replicas[:0])
		replicas = found
		if err == nil && !yield(key, o, found) {
			return
		}
	}
}

// A cursor is a place in the walk over all records. Records never move, so one that lives throughout the walk is met
// once.
type cursor struct{ span, offset uint32 }

// scan returns the next record in the order of memory; 0 at the end.
func (s *state) scan(at *cursor) name {
	for ; int(at.span) < len(s.arena.spans); at.span, at.offset = at.span+1, 0 {
		sp := &s.arena.spans[at.span]
		if !sp.live || sp.kind != kindRecord {
			continue
		}
		step := slotBytes[sp.class]
		for at.offset = (at.offset + step - 1) / step * step; at.offset < sp.bump; {
			n := name(at.span*spanGranules + at.offset/granuleBytes)
			at.offset += step
			if s.record(n).keyBytes != 0 {
				return n
			}
		}
	}
	return 0
}

// keySlice copies some of the keys, all or only the readable ones.
func (c *Catalog) keySlice(at *cursor, readable bool) (keys []string, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range limits.CatalogSliceItems {
		n := c.s.scan(at)
		if n == 0 {
			return keys, false
		}
		if !readable || c.readable(n) == nil {
			keys = append(keys, strings.Clone(c.s.record(n).key()))
		}
	}
	return keys, true
}
