package catalog

import (
	"strings"
	"sync/atomic"

	"mooncake/internal/limits"
)

// A Range is a part of a segment.
type Range struct {
	Segment      UUID
	Offset, Size uint64
}

// Recover is Apply for Changes of a history in which something may be missing. Where a write needs a range that belongs to an
// object which only the missing part can have removed, that object goes. It returns the keys of such objects.
func (c *Catalog) Recover(changes []Change) (dropped []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range changes {
		ch := &changes[i]
		if ch.Kind == ChangePut && !c.s.holds(ch) {
			for _, rc := range ch.Replicas {
				if seg := c.s.segments.byID[rc.Segment]; seg == nil || seg.isFree(rc.Offset, ch.Size) {
					continue
				}
				dropped = append(dropped, c.vacate(Range{rc.Segment, rc.Offset, ch.Size}, ch.Key)...)
			}
		}
		c.s.apply(ch, false)
	}
	c.s.segments.settle()
	c.s.tidy(limits.CatalogSliceItems)
	c.s.reaccount(limits.CatalogSliceItems)
	return dropped
}

// Vacate drops every object that has a byte in one of the ranges: somebody may have written over it, and the record of
// that is lost. It returns their keys.
func (c *Catalog) Vacate(ranges []Range) (dropped []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range ranges {
		dropped = append(dropped, c.vacate(r, "")...)
	}
	return dropped
}

// holds tells whether a ChangePut was applied already.
func (s *state) holds(ch *Change) bool {
	n := s.lookup(ch.Key)
	if n == 0 {
		return false
	}
	return s.mentioned(n, ch.Replicas) > 0 || s.stagedOf(n) != 0 && s.mentioned(s.stagedOf(n), ch.Replicas) > 0
}

// vacate drops the objects that overlap a range, but for that of a key that is about to be replaced anyway, and ends the
// quarantine of its parts.
func (c *Catalog) vacate(r Range, except string) (dropped []string) {
	seg := c.s.segments.byID[r.Segment]
	if seg == nil || r.Size == 0 {
		return nil
	}
	for rn := seg.head; rn != 0; {
		rep := c.s.replica(rn)
		rn = rep.segNext
		owner := c.s.record(rep.owner)
		if rep.offset >= r.Offset+r.Size || r.Offset >= rep.offset+owner.size {
			continue
		}
		key := strings.Clone(owner.key())
		c.begin()
		c.noteDrop(0, rep.owner, CauseDamage, 0, 0)
		for i := range c.changes {
			c.s.apply(&c.changes[i], true)
		}
		if key != except {
			dropped = append(dropped, key)
		}
		rn = seg.head // the list changed
	}
	for offset, held := range seg.held {
		if offset < r.Offset+r.Size && r.Offset < offset+held.size {
			c.s.applyRelease(&ReplicaChange{Segment: r.Segment, Offset: offset, Size: held.size})
		}
	}
	return dropped
}

// Resume makes a catalog that was built from a history the leader's, at a time not before any in that history. Nothing is
// known of the owners of segments: each is suspect until it is heard, and has its full time for it. Every object counts as
// read just now, since its address may have been handed out at the last moment; and every write as started just now.
func (c *Catalog) Resume(now Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.s.tidy(limits.CatalogSliceItems) {
	}
	for id, segments := range c.s.segments.byOwner {
		cl := &client{lastPing: now + Time(max(0, c.cfg.ResumeGraceMs-c.cfg.ClientActiveTTLMs)), reported: true}
		c.clients[id] = cl
		c.setStage(id, cl, StageSuspect)
		for _, seg := range segments {
			if seg.info.HostID != "" {
				cl.host = seg.info.HostID
			}
		}
	}
	for id, o := range c.s.disks.owners {
		if c.clients[id] == nil {
			c.clients[id] = &client{lastPing: now + Time(max(0, c.cfg.ResumeGraceMs-c.cfg.ClientActiveTTLMs)), reported: true}
		}
		c.clients[id].stage = StageSuspect
		o.stage.Store(uint32(StageSuspect))
	}
	until := int64(now) + c.cfg.LeaseMs
	for _, obj := range c.s.disks.byKey {
		obj.lease.Store(until)
		for i := range obj.copies {
			if obj.copies[i].open {
				obj.copies[i].since = now
			}
		}
	}
	var at cursor
	for n := c.s.scan(&at); n != 0; n = c.s.scan(&at) {
		r := c.s.record(n)
		atomic.StoreInt64(&r.lease, until)
		atomic.StoreInt64(&r.handed, int64(now))
		if r.isOpen() {
			r.time = int64(now)
		}
		if r.unit != 0 {
			raise(&c.s.unit(r.unit).lease, until)
		}
	}
}
