package catalog

import (
	"strings"
	"sync/atomic"
	"unsafe"

	"mooncake/internal/limits"
)

// Remove takes an object away. A leased one stays unless force is set, and so does one that is being written: force
// aborts the write, whose end will fail. A lost object is not there, and will not be there if its client returns.
func (c *Catalog) Remove(now Time, key string, force bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.s.lookup(key)
	if n == 0 {
		return c.removeFromDisk(now, key, force)
	}
	if force && !c.s.allLost(n) && c.s.copyOf(n) == 0 && (c.s.record(n).isOpen() || c.s.stagedOf(n) != 0) {
		c.abort(now, n)
		return nil
	}
	err := c.remove(now, n, force)
	if err == ErrObjectNotFound { // lost from memory, but there may be a copy on disk
		err = c.removeFromDisk(now, key, force)
	}
	return err
}

// abort removes an object with the write under way.
func (c *Catalog) abort(now Time, n name) {
	open, complete := n, name(0)
	if st := c.s.stagedOf(n); st != 0 {
		open, complete = st, n
		c.closeReads(n)
	}
	c.begin()
	c.noteAside(now, open, CauseAbort)
	if complete != 0 {
		until, handed := c.held(complete, now)
		c.noteDrop(now, complete, CauseRemove, until, handed)
	}
	c.stats.AbortedPuts++
	c.commit()
}

// noteAside decides that an unfinished object goes although its writer may be at work.
func (c *Catalog) noteAside(now Time, n name, cause Cause) {
	until := c.outlast(n, now, c.releaseAt(now))
	if until <= now {
		until = 0
	}
	c.noteDrop(now, n, cause, until, Never)
}

// outlast puts the end of an unfinished object's quarantine off until no reader can be at its ranges: one that is written
// over in place was handed out before.
func (c *Catalog) outlast(n name, now, until Time) Time {
	readers, _ := c.held(n, now)
	return max(until, readers)
}

// held tells until when a reader may be at the ranges of an object, and since when; zero when nobody can.
func (c *Catalog) held(n name, now Time) (until, handed Time) {
	handed = Time(atomic.LoadInt64(&c.s.record(n).handed))
	if until = handed + Time(c.cfg.LeaseMs); handed == 0 || until <= now {
		return 0, 0
	}
	return until, handed
}

// closeReads lets readers of an object wait until the decision under way is carried out, so that none of them gets an
// address after the time of the last hand-out was looked at.
func (c *Catalog) closeReads(n name) { c.setClosing(n, flagClosing) }

// openReads undoes closeReads for an object that stays.
func (c *Catalog) openReads(n name) { c.setClosing(n, 0) }

func (c *Catalog) setClosing(n name, flag uint8) {
	r := c.s.record(n)
	sh := c.s.shard(c.s.hash(r.key()))
	sh.mu.Lock()
	r.flags = r.flags&^flagClosing | flag
	sh.mu.Unlock()
}

func (c *Catalog) remove(now Time, n name, force bool) error {
	lost, err := c.hideToRemove(now, n, force)
	if err != nil {
		return err
	}
	until, handed := c.held(n, now)
	c.begin()
	if !lost {
		c.noteDrop(now, n, CauseRemove, until, handed)
		c.commit()
		return nil
	}
	key := strings.Clone(c.s.record(n).key()) // the record goes before the name is used
	c.noteLost(now, n)
	c.commit()
	// A write under way has the key now. If its memory is lost as well, the object has to go as a whole: else it would depend
	// on the order of a walk over all objects what is left of it.
	if n := c.s.lookup(key); n != 0 && c.s.allLost(n) {
		return c.remove(now, n, force)
	}
	return ErrObjectNotFound
}

// hideToRemove makes an object absent for readers that is about to be removed, or says why it has to stay.
func (c *Catalog) hideToRemove(now Time, n name, force bool) (lost bool, err error) {
	r := c.s.record(n)
	lost = c.s.allLost(n)
	sh := c.s.shard(c.s.hash(r.key()))
	sh.mu.Lock()
	defer sh.mu.Unlock()
	// Under the shard's lock, so that no reader is told of a lease that this removal then breaks.
	if !force && c.leased(r, now) && !lost {
		return lost, ErrHasLease
	}
	if len(c.trivial) > 0 && !lost {
		if _, busy := c.trivial[r.key()]; busy {
			return lost, ErrReplicationTask
		}
	}
	if !lost && (r.isOpen() || r.marks&markReplaced != 0 || !force && c.writingFile(r.key())) {
		return lost, ErrNotReady
	}
	r.flags |= flagHidden
	return lost, nil
}

// noteLost decides that an object goes of which every copy is lost, with what was being written.
func (c *Catalog) noteLost(now Time, n name) {
	if c.s.record(n).isOpen() {
		c.noteAside(now, n, CauseLost)
		return
	}
	until, handed := c.held(n, now)
	c.noteDrop(now, n, CauseLost, until, handed)
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
	more := true
	if match == nil {
		var done bool
		removed, done = c.clearAll(now, force)
		more = !done
	}
	for more {
		if match == nil {
			var n int64
			n, more = c.removeSlice(now, &at, force)
			removed += n
			continue
		}
		var keys []string
		keys, more = c.keySlice(&at, false)
		for _, key := range keys {
			if match(key) && c.removeWhole(now, key, force) == nil {
				removed++
			}
		}
	}
	for _, key := range c.diskKeys(false) {
		if (match == nil || match(key)) && c.removeWhole(now, key, force) == nil {
			removed++
		}
	}
	c.flagWipes()
	return removed
}

// removeWhole removes an object, but for one that is being written.
func (c *Catalog) removeWhole(now Time, key string, force bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.s.lookup(key); n != 0 {
		return c.remove(now, n, force)
	}
	return c.removeFromDisk(now, key, force)
}

// removeSlice removes some of all objects. What nothing else hangs on goes in one decision: a million decisions would cost
// more than what they decide.
func (c *Catalog) removeSlice(now Time, at *cursor, force bool) (removed int64, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warmScan(*at)
	c.begin()
	for range limits.CatalogSliceItems {
		n := c.s.scan(at)
		if n == 0 {
			c.commit()
			return removed, false
		}
		if c.s.segments.dying != nil || c.s.allLost(n) || c.s.copyOf(n) != 0 {
			c.commit()
			if (c.s.segments.dying == nil || c.s.prune(n)) && c.s.record(n).marks&markStaged == 0 && c.remove(now, n, force) == nil {
				removed++
			}
			c.begin()
			continue
		}
		if c.s.record(n).marks&markStaged != 0 {
			continue
		}
		if _, err := c.hideToRemove(now, n, force); err == nil {
			until, handed := c.held(n, now)
			c.noteDrop(now, n, CauseRemove, until, handed)
			removed++
		}
	}
	c.commit()
	return removed, true
}

// warmScan asks for the memory that removing the next records of a walk will touch: the records come in the order of
// memory, but their places in the index and their neighbours in lists lie anywhere.
func (c *Catalog) warmScan(at cursor) {
	if c.s.arena.held.Load() < limits.CatalogWarmBytes {
		return
	}
	for range limits.CatalogSliceItems {
		n := c.s.scan(&at)
		if n == 0 {
			return
		}
		r := c.s.record(n)
		hash := c.s.hash(r.key())
		if slots := c.s.shard(hash).table.slots; len(slots) > 0 {
			prefetch(unsafe.Pointer(&slots[int(uint32(hash))&(len(slots)-1)]))
		}
		for _, other := range [...]name{r.segPrev, r.segNext, r.prev, r.next} {
			if other != 0 {
				prefetch(c.s.arena.at(other))
			}
		}
	}
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
	if c.s.owners.list[r.client].id != id || c.leased(r, now) || r.marks&markReplaced != 0 || c.s.allLost(n) {
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
	c.closeReads(n)
	whole := len(some) == int(r.replicas)
	ch := c.note(ChangeDrop, now)
	ch.Key, ch.Cause, ch.Replicas = key, CauseRemove, some
	ch.Until, ch.HandedOut = c.held(n, now)
	c.commit()
	if !whole {
		c.openReads(n)
	}
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
	for _, key := range c.diskKeys(true) {
		if !yield(key) {
			return
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
func (s *state) scan(at *cursor) name { return s.scanKind(at, kindRecord) }

// scanKind returns the next slot of a kind in the order of memory; 0 at the end.
func (s *state) scanKind(at *cursor, k kind) name {
	for ; int(at.span) < len(s.arena.spans); at.span, at.offset = at.span+1, 0 {
		sp := &s.arena.spans[at.span]
		if !sp.live || sp.kind != k {
			continue
		}
		step := slotBytes[sp.class]
		for at.offset = (at.offset + step - 1) / step * step; at.offset < sp.bump; {
			n := name(at.span*spanGranules + at.offset/granuleBytes)
			at.offset += step
			if (!sp.torn || sp.lives(n)) && s.isLive(n, k) {
				return n
			}
		}
	}
	return 0
}

// isLive tells whether a slot of a kind is in use.
func (s *state) isLive(n name, k kind) bool {
	switch k {
	case kindRecord:
		return s.record(n).keyBytes != 0
	case kindReplica:
		return s.replica(n).owner != 0
	case kindUnit:
		return s.unit(n).nameBytes != 0
	default:
		return s.bundle(n).nameBytes != 0
	}
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
		key := c.s.record(n).key()
		if c.s.record(n).marks&markStaged == 0 && (!readable || c.readable(n) == nil || !c.hidden(n) && c.readableOnDisk(key)) {
			keys = append(keys, strings.Clone(key))
		}
	}
	return keys, true
}
