package catalog

import "strings"

// UpsertStart begins the writing of an object that may exist. The new value gets ranges of its own and takes the old
// one's place at UpsertEnd; until then readers see the old value, and a failed upsert leaves it. Only a value of the same
// size for which there is no room goes over the old one in place, unless a copy of that is out of reach. A write under way, whoever's, is pushed aside. The
// object keeps its group; asking for another is ErrInvalidParams.
func (c *Catalog) UpsertStart(now Time, id UUID, key string, size uint64, o *PutOptions, dst []Replica) ([]Replica, error) {
	t := c.Turn()
	defer t.End()
	return t.UpsertStart(now, id, key, size, o, dst)
}

// UpsertStart is Catalog.UpsertStart.
func (t Turn) UpsertStart(now Time, id UUID, key string, size uint64, o *PutOptions, dst []Replica) ([]Replica, error) {
	c := t.c
	if err := c.check(key, size, o); err != nil {
		return dst, err
	}
	w := c.newWrite(now, id, key, size, o)
	if !c.mayWrite(o.Tenant) {
		return dst, ErrTenantNotRegistered
	}
	if c.givenUp(&w) {
		return dst, ErrUnavailableStatus
	}
	n := c.s.lookup(key)
	if n == 0 {
		return c.create(&w, dst)
	}
	w.old, w.aside = n, c.s.stagedOf(n)
	if c.s.allLost(n) {
		w.cause = CauseLost
		return c.create(&w, dst)
	}
	if c.s.copyOf(n) != 0 {
		return dst, ErrReplicationTask
	}
	r := c.s.record(n)
	old := c.s.groupOf(r)
	if w.group != "" && w.group != old {
		return dst, ErrInvalidParams
	}
	w.group = strings.Clone(old) // the record may go before the name is used
	if r.isOpen() {
		if pin := c.s.pins[n]; pin > now {
			w.pinned = pin
		}
		w.cause, w.until, w.handed = CauseDiscard, c.outlast(n, now, c.releaseAt(now)), Never
		return c.create(&w, dst)
	}
	w.staged, w.cause = true, CauseUpsert
	if r.size == size {
		return c.replace(&w, n, dst)
	}
	w.hardPin = w.hardPin || r.flags&flagHardPin != 0
	return c.create(&w, dst)
}

// replace lets a client write a value of the same size, as many copies as before: into free ranges, or into such that
// eviction makes free if somebody may be reading the old ones, or over the old ones.
func (c *Catalog) replace(w *write, n name, dst []Replica) ([]Replica, error) {
	r := c.s.record(n)
	w.replicas, w.hardPin, w.dataType = c.activeCopies(n), r.flags&flagHardPin != 0, r.dataType
	if !c.inPlace(n) {
		return c.create(w, dst)
	}
	if !c.memoryFor(w) {
		return dst, ErrInternal
	}
	until, _ := c.held(n, w.now)
	if places := c.placeFree(w, until != 0); uint64(len(places)) == w.replicas {
		return c.write(w, places, dst), nil
	}
	c.putBack(w.size)
	return c.reopen(w, n, dst)
}

// inPlace tells whether a writer can reach every copy of an object: one of a silent client it must not be sent to, and one
// that it passes by would come back with the old value.
func (c *Catalog) inPlace(n name) bool {
	for rn := n; rn != 0; {
		rep := c.s.replica(rn)
		if c.s.segments.list[rep.segment].at() > StageSuspect {
			return false
		}
		rn = rep.more
	}
	return true
}

// activeCopies counts the replicas of an object on segments that accept writes, and is 1 when there is none.
func (c *Catalog) activeCopies(n name) (copies uint64) {
	for rn := n; rn != 0; {
		rep := c.s.replica(rn)
		if seg := c.s.segments.list[rep.segment]; seg.at() == StageActive && seg.open() {
			copies++
		}
		rn = rep.more
	}
	return max(copies, 1)
}

// reopen lets a client write over an object in place.
func (c *Catalog) reopen(w *write, n name, dst []Replica) ([]Replica, error) {
	c.begin()
	if w.aside != 0 {
		c.stats.DiscardedPuts++
		c.noteAside(w.now, w.aside, CauseDiscard)
	}
	replicas := c.replicasOf(n, ReplicaComplete)
	if until, _ := c.held(n, w.now); until != 0 {
		c.stats.HandOutReuses += uint64(len(replicas))
	}
	for i := range replicas {
		seg := c.s.segments.byID[replicas[i].Segment]
		dst = append(dst, Replica{ID: replicas[i].ID, Segment: &seg.info, Offset: replicas[i].Offset, Size: w.size, Status: ReplicaProcessing})
	}
	ch := c.note(ChangeReopen, w.now)
	ch.Client, ch.Key, ch.Replicas = w.client, w.key, replicas
	c.askPin(ch, w.o)
	dst = c.noteFile(w, c.s.nextReplica, dst)
	c.commit()
	w.o.After = c.last.Load()
	return dst, nil
}

// UpsertEnd is PutEnd.
func (c *Catalog) UpsertEnd(now Time, id UUID, key string, checksum uint64, hasChecksum bool, replicaType int32) error {
	return c.PutEnd(now, id, key, checksum, hasChecksum, replicaType)
}

// UpsertEnd is Catalog.UpsertEnd.
func (t Turn) UpsertEnd(now Time, id UUID, key string, checksum uint64, hasChecksum bool, replicaType int32) error {
	return t.PutEnd(now, id, key, checksum, hasChecksum, replicaType)
}

// UpsertRevoke is PutRevoke. The value that an upsert in place has begun to write over is lost with it.
func (c *Catalog) UpsertRevoke(now Time, id UUID, key string, replicaType int32) error {
	return c.PutRevoke(now, id, key, replicaType)
}
