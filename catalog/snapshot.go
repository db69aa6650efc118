package catalog

import "mooncake/internal/limits"

// Snapshot writes the state down as Changes that build it again from nothing, and passes them on in pieces that are valid
// until yield returns. It ends early, with yield's error. Nothing else may be called meanwhile but what only reads.
func (c *Catalog) Snapshot(yield func([]Change) error) error {
	for c.inSlice(func() bool { return c.s.tidy(limits.CatalogSliceItems) }) {
	}
	w := snapshot{c: c, yield: yield}
	for _, seg := range c.s.segments.mounted {
		info := seg.info
		w.add(Change{Kind: ChangeMount, Client: info.Client, Segment: &info.Segment})
	}
	w.add(Change{Kind: ChangeCount, Replicas: []ReplicaChange{{ID: c.s.nextReplica}}})
	var at cursor
	for n := c.s.scan(&at); n != 0 && w.err == nil; n = c.s.scan(&at) {
		if r := c.s.record(n); !r.isOpen() && r.marks&markStaged == 0 {
			w.object(n)
		}
	}
	// Those being written come in the order of their start, and after the objects that they replace.
	for n := c.s.open.head; n != 0 && w.err == nil; n = c.s.record(n).node.next {
		w.object(n)
	}
	for _, seg := range c.s.segments.mounted {
		for offset, h := range seg.held {
			w.add(Change{
				Kind: ChangeHold, Until: h.until, HandedOut: h.handed,
				Replicas: []ReplicaChange{{Segment: seg.info.ID, Offset: offset, Size: h.size}},
			})
		}
	}
	w.flush()
	return w.err
}

func (c *Catalog) inSlice(step func() bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return step()
}

// snapshot collects Changes until there are enough for a piece.
type snapshot struct {
	c       *Catalog
	yield   func([]Change) error
	changes []Change
	err     error
}

func (w *snapshot) add(c Change) {
	w.changes = append(w.changes, c)
	if len(w.changes) >= limits.CatalogSliceItems {
		w.flush()
	}
}

func (w *snapshot) flush() {
	if w.err == nil && len(w.changes) > 0 {
		w.err = w.yield(w.changes)
	}
	clear(w.changes)
	w.changes = w.changes[:0]
}

// object writes one object down: its start, the completion of what is complete and, if it is being written over, that.
func (w *snapshot) object(n name) {
	s := w.c.s
	r := s.record(n)
	key := r.key()
	put := Change{
		Kind: ChangePut, Time: Time(r.time), Client: s.owners.list[r.client].id, Key: key, Group: s.groupOf(r), Size: r.size,
		DataType: r.dataType, HardPin: r.flags&flagHardPin != 0, Staged: r.marks&markStaged != 0, PinnedUntil: s.pins[n],
	}
	var complete []ReplicaChange
	for rn := n; rn != 0; {
		rep := s.replica(rn)
		rc := ReplicaChange{rep.id, s.segments.list[rep.segment].info.ID, rep.offset, r.size}
		put.Replicas = append(put.Replicas, rc)
		if rep.status == ReplicaComplete {
			complete = append(complete, rc)
		}
		rn = rep.more
	}
	checked := r.flags&flagChecksum != 0 || r.checksum != 0
	reopened := complete == nil && checked
	pending, waits := s.pending[n]
	if waits && complete == nil && !reopened {
		put.SoftPin, put.SoftPinTTLMs = pending.action, pending.ttlMs
	}
	w.add(put)
	if complete == nil && !reopened {
		return
	}
	end := Change{
		Kind: ChangeEnd, Time: Time(r.time), Key: key, Replicas: complete,
		HasChecksum: r.flags&flagChecksum != 0, Checksum: r.checksum,
	}
	if reopened {
		end.Replicas = put.Replicas
	}
	w.add(end)
	if reopened {
		w.add(Change{
			Kind: ChangeReopen, Time: Time(r.time), Client: put.Client, Key: key, Replicas: put.Replicas,
			SoftPin: pending.action, SoftPinTTLMs: pending.ttlMs,
		})
	}
}
