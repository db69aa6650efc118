package catalog

import (
	"cmp"
	"slices"

	"mooncake/internal/limits"
)

// Snapshot writes the state down as Changes that build it again from nothing, and passes them on in pieces that are valid
// until yield returns. It ends early, with yield's error. Nothing else may be called meanwhile but what only reads.
func (c *Catalog) Snapshot(yield func([]Change) error) error {
	for c.inSlice(func() bool { return c.s.tidy(limits.CatalogSliceItems) || c.s.reaccount(limits.CatalogSliceItems) }) {
	}
	w := snapshot{c: c, yield: yield}
	s := c.s
	for _, seg := range s.segments.mounted {
		info := seg.info
		w.add(Change{Kind: ChangeMount, Client: info.Client, Segment: &info.Segment})
		if seg.state != SegmentOK || seg.note != "" {
			w.add(Change{Kind: ChangeSegment, Segment: &Segment{ID: info.ID}, State: seg.state, Until: seg.until, Key: seg.note})
		}
	}
	w.add(Change{Kind: ChangeCount, Replicas: []ReplicaChange{{ID: s.nextReplica}}})
	if rules := c.Workloads(); len(rules) > 0 {
		w.add(Change{Kind: ChangeWorkloads, Workloads: rules})
	}
	for _, n := range s.byTime() {
		w.object(n)
	}
	// Those being written come in the order of their start, and after the objects that they replace.
	for n := s.open.head; n != 0 && w.err == nil; n = s.record(n).node.next {
		w.object(n)
	}
	for _, seg := range s.segments.mounted {
		for offset, h := range seg.held {
			hold := Change{
				Kind: ChangeHold, Until: h.until, HandedOut: h.handed, Client: h.writer, Time: h.began,
				Replicas: []ReplicaChange{{Segment: seg.info.ID, Offset: offset, Size: h.size}},
			}
			switch {
			case h.closed:
				hold.Cause = CauseWindow
			case h.corrupt:
				was := s.heldBack.corrupt[rangeStart{seg.info.ID, offset}]
				hold.Cause, hold.Key, hold.Time = CauseCorrupt, was.Key, was.Since
			}
			w.add(hold)
		}
	}
	for _, seg := range s.segments.mounted {
		for slot, open := range seg.windows {
			if open.size > 0 {
				w.add(Change{Kind: ChangeWindow, Replicas: []ReplicaChange{{ID: uint64(slot), Segment: seg.info.ID, Offset: open.offset, Size: open.size}}})
			}
		}
	}
	w.disks()
	w.bundles()
	w.flush()
	return w.err
}

// byTime lists the complete objects, oldest first: lists that are kept in the order of time grow at their end then.
func (s *state) byTime() (list []name) {
	var at cursor
	for n := s.scan(&at); n != 0; n = s.scan(&at) {
		if r := s.record(n); !r.isOpen() && r.marks&markStaged == 0 {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b name) int {
		return cmp.Or(cmp.Compare(s.record(a).time, s.record(b).time), cmp.Compare(s.record(a).id, s.record(b).id))
	})
	return list
}

// bundles writes down the bundles that have members, and then the memories of those that have none, in the order in which
// they are kept.
func (w *snapshot) bundles() {
	s := w.c.s
	var at cursor
	for bn := s.scanKind(&at, kindBundle); bn != 0; bn = s.scanKind(&at, kindBundle) {
		if b := s.bundle(bn); b.members > 0 {
			w.add(s.bundleChange(b))
		}
	}
	for bn := s.ended.head; bn != 0; bn = s.bundle(bn).next {
		w.add(s.bundleChange(s.bundle(bn)))
	}
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
		Kind: ChangePut, Time: Time(r.time), Client: s.owners.list[r.client].id, Key: key, Group: s.groupOf(r), Tenant: s.shares.name(r.tenant), Size: r.size,
		DataType: r.dataType, HardPin: r.flags&flagHardPin != 0, Staged: r.marks&markStaged != 0, PinnedUntil: s.pins[n],
	}
	if task, ok := s.copies[n]; ok {
		put.Copy, put.Source = task.kind, task.source
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
	if put.Copy == CopyNone {
		put.Wanted = wantedOf(uint64(r.wanted), len(put.Replicas))
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
	end.Sum, end.HasSum = r.sum()
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
