package catalog

import (
	"mooncake/bundle"
	"mooncake/internal/limits"
)

// check validates what a put or upsert asks for, before anything is looked up.
func (c *Catalog) check(key string, size uint64, o *PutOptions) error {
	if key == "" || len(key) > limits.KeyBytesMax || size == 0 || o.Replicas == 0 || len(o.Group) > limits.KeyBytesMax {
		return ErrInvalidParams
	}
	if o.SoftPin > SoftPinDisable {
		return ErrInvalidParams
	}
	if o.SoftPinTTLSet && (o.SoftPin != SoftPinEnable || o.SoftPinTTLMs < 0 || o.SoftPinTTLMs > c.cfg.MaxSoftPinMs) {
		return ErrInvalidParams
	}
	return nil
}

// PutStart begins the writing of a new object and appends its replicas to dst. The object is unreadable until PutEnd. A
// key that is complete, or that another put began less than PutDiscardMs ago, is ErrObjectExists, unless every copy is
// lost: such an object is dropped. A pool without room evicts; ErrNoSpace means that nothing could be evicted, and then
// nothing was.
func (c *Catalog) PutStart(now Time, id UUID, key string, size uint64, o *PutOptions, dst []Replica) ([]Replica, error) {
	t := c.Turn()
	defer t.End()
	return t.PutStart(now, id, key, size, o, dst)
}

// PutStart is Catalog.PutStart.
func (t Turn) PutStart(now Time, id UUID, key string, size uint64, o *PutOptions, dst []Replica) ([]Replica, error) {
	c := t.c
	if err := c.check(key, size, o); err != nil {
		return dst, err
	}
	c.s.hashed.expect(c.s, key)
	w := c.newWrite(now, id, key, size, o)
	if !c.mayWrite(o.Tenant) {
		return dst, ErrTenantNotRegistered
	}
	if c.givenUp(&w) {
		return dst, ErrUnavailableStatus
	}
	if n := c.s.lookup(key); n != 0 {
		r := c.s.record(n)
		switch {
		case c.readableOnDisk(key):
			return dst, ErrObjectExists
		case c.s.allLost(n):
			w.old, w.cause, w.aside = n, CauseLost, c.s.stagedOf(n)
		case c.s.hasComplete(n) || Time(r.time)+Time(c.cfg.PutDiscardMs) >= now:
			return dst, ErrObjectExists
		default:
			w.old, w.cause, w.until, w.handed = n, CauseDiscard, c.outlast(n, now, c.releaseAt(Time(r.time))), Never
		}
	}
	if w.old == 0 && c.onDiskOnly(&w) {
		return dst, ErrObjectExists
	}
	return c.create(&w, dst)
}

// releaseAt is the end of the quarantine of a range whose write began, or whose object was replaced, at the given time.
func (c *Catalog) releaseAt(start Time) Time {
	if c.cfg.PutReleaseMs <= 0 {
		return Never
	}
	return start + Time(c.cfg.PutReleaseMs)
}

// A write is a new object to be made, in place of an old one if old is set.
type write struct {
	now      Time
	client   UUID
	key      string
	size     uint64
	o        *PutOptions
	replicas uint64
	group    string
	hardPin  bool
	pinned   Time   // soft pin taken over
	prefix   string // of the key's bundle; "" is none
	bundle   name   // that bundle, if it exists or is remembered

	bounds bounds // of its workload

	wish, wishNamed int // how far the preferred segments were looked at in this pass

	aside         name // a staged write that is pushed aside
	old           name // goes when the new one is made, or at its end if that is staged
	cause         Cause
	until, handed Time
	staged        bool
	dataType      uint8
}

func (c *Catalog) newWrite(now Time, id UUID, key string, size uint64, o *PutOptions) write {
	w := write{
		now: now, client: id, key: key, size: size, o: o, replicas: o.Replicas,
		group: o.Group, hardPin: o.HardPin, dataType: o.DataType, prefix: bundle.Prefix(key),
	}
	if w.prefix == "" {
		return w
	}
	if w.bundle = c.s.findBundle(w.prefix); w.bundle != 0 {
		c.s.recent = w.bundle
		// The 0.3.12 client asks for copies of small members only.
		if b := c.s.bundle(w.bundle); b.members > 0 {
			w.replicas = max(w.replicas, uint64(b.copies))
		}
	}
	return w
}

// create finds room for a new object, then decides both the end of the old one and the new one.
func (c *Catalog) create(w *write, dst []Replica) ([]Replica, error) {
	if !c.memoryFor(w) {
		return dst, ErrInternal
	}
	if err := c.admit(w); err != nil {
		return dst, err
	}
	places := c.place(w)
	if len(places) == 0 {
		c.stats.PutStartAllocFailures++
		return dst, ErrNoSpace
	}
	if uint64(len(places)) < w.replicas {
		c.stats.PutStartPartialAllocs++
	}
	return c.write(w, places, dst), nil
}

// write decides both the end of what the new object pushes away and the new object, in the ranges that were found.
func (c *Catalog) write(w *write, places []place, dst []Replica) []Replica {
	c.begin()
	if w.aside != 0 {
		c.stats.DiscardedPuts++
		c.noteAside(w.now, w.aside, CauseDiscard)
	}
	switch {
	case w.old == 0 || w.staged:
	case w.cause == CauseLost:
		c.noteLost(w.now, w.old)
	default:
		if w.cause == CauseDiscard {
			c.stats.DiscardedPuts++
		}
		until := w.until
		if until <= w.now {
			until = 0
		}
		c.noteDrop(w.now, w.old, w.cause, until, w.handed)
	}
	after, early := uint64(0), c.log != nil && !w.staged && len(c.changes) == 0
	if c.log != nil {
		hash := c.s.hashOf(w.key)
		for i := range places {
			p := &places[i]
			number, inside := c.noteWindow(w, p)
			early = early && inside
			after = max(after, number, c.parting.at(hash, p.seg.info.ID, p.offset, w.size))
		}
	}
	at := len(c.replicas)
	id := c.s.nextReplica
	for i := range places {
		p := &places[i]
		c.replicas = append(c.replicas, ReplicaChange{id, p.seg.info.ID, p.offset, w.size})
		dst = append(dst, Replica{ID: id, Segment: &p.seg.info, Offset: p.offset, Size: w.size, Status: ReplicaProcessing})
		id++
	}
	ch := c.note(ChangePut, w.now)
	ch.Client, ch.Key, ch.Size, ch.Group, ch.HardPin = w.client, w.key, w.size, w.group, w.hardPin
	ch.DataType, ch.PinnedUntil, ch.Staged, ch.Tenant = w.dataType, w.pinned, w.staged, w.o.Tenant
	ch.Replicas = c.replicas[at:]
	ch.Wanted = wantedOf(w.replicas, len(places))
	c.askPin(ch, w.o)
	dst = c.noteFile(w, id, dst)
	c.commit()
	if w.o.After = after; !early {
		w.o.After = c.last.Load()
	}
	return dst
}

// memoryFor makes sure that applying the write will find memory for its record, and for a replica and a unit if it needs
// them; false when the system has none left.
func (c *Catalog) memoryFor(w *write) bool {
	a := c.s.arena
	unit := w.group
	if unit == "" {
		unit = w.prefix
	}
	return a.ready(kindRecord, recordBytes+len(w.key)) && (w.replicas == 1 || a.ready(kindReplica, replicaBytes)) &&
		(unit == "" || a.ready(kindUnit, unitBytes+len(unit))) &&
		(w.prefix == "" || w.bundle != 0 || a.ready(kindBundle, bundleBytes+len(w.prefix)))
}

// askPin writes the soft pin that a write asks for into its Change, with the life it will have.
func (c *Catalog) askPin(ch *Change, o *PutOptions) {
	ch.SoftPin = o.SoftPin
	if o.SoftPin != SoftPinEnable {
		return
	}
	ch.SoftPinTTLMs = c.cfg.SoftPinMs
	if o.SoftPinTTLSet {
		ch.SoftPinTTLMs = o.SoftPinTTLMs
	}
}

// writes tells whether a selector of replicas means those in memory, which are all there are.
func writes(replicaType int32) bool {
	return replicaType == ReplicaTypeAll || replicaType == ReplicaTypeMemory
}

// PutEnd completes the writing of an object. The replicas of the given type become readable. Ending twice is fine. The
// checksum becomes the object's; without one it has none.
func (c *Catalog) PutEnd(now Time, id UUID, key string, checksum uint64, hasChecksum bool, replicaType int32) error {
	t := c.Turn()
	defer t.End()
	return t.PutEnd(now, id, key, checksum, hasChecksum, replicaType)
}

// PutEnd is Catalog.PutEnd.
func (t Turn) PutEnd(now Time, id UUID, key string, checksum uint64, hasChecksum bool, replicaType int32) error {
	c := t.c
	if replicaType == ReplicaTypeDisk {
		return c.endFile(now, id, key)
	}
	c.s.hashed.expect(c.s, key)
	n, old, err := c.written(id, key)
	if err != nil {
		return err
	}
	r := c.s.record(n)
	if !r.isOpen() || !writes(replicaType) {
		return nil
	}
	until, handed := Time(0), Time(0)
	if old != 0 {
		c.closeReads(old)
		until, handed = c.held(old, now)
	}
	c.begin()
	replicas := c.replicasOf(n, ReplicaProcessing)
	ch := c.note(ChangeEnd, now)
	ch.Client, ch.Key, ch.Replicas = id, key, replicas
	ch.Checksum, ch.HasChecksum = checksum, hasChecksum
	ch.Until, ch.HandedOut = until, handed
	c.commit()
	c.notePublished(n)
	if c.cfg.Sums {
		c.unsummed.add(key)
	}
	if c.cfg.Offload && !c.cfg.OffloadOnEvict {
		if n = c.s.lookup(key); n != 0 {
			c.enqueue(now, n)
		}
	}
	return nil
}

// written finds what a client wrote under a key: the write that is staged, or else the object. Old is the object that a
// staged write replaces.
func (c *Catalog) written(id UUID, key string) (n, old name, err error) {
	if n = c.s.lookup(key); n == 0 {
		return 0, 0, ErrObjectNotFound
	}
	if c.s.isCopy(n) {
		return 0, 0, ErrInvalidWrite
	}
	if st := c.s.stagedOf(n); st != 0 && !c.s.isCopy(st) {
		n, old = st, n
	}
	if c.s.owners.list[c.s.record(n).client].id != id {
		return 0, 0, ErrIllegalClient
	}
	return n, old, nil
}

// PutRevoke takes back a write that did not succeed. Its ranges are free at once, unless they were handed to readers before
// they were written over in place. An object that it was to replace stays.
func (c *Catalog) PutRevoke(now Time, id UUID, key string, replicaType int32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if replicaType == ReplicaTypeDisk {
		return c.revokeFile(now, id, key)
	}
	n, _, err := c.written(id, key)
	if err != nil {
		return err
	}
	r := c.s.record(n)
	if !r.isOpen() || writes(replicaType) && c.s.hasComplete(n) {
		return ErrInvalidWrite
	}
	if !writes(replicaType) {
		return nil
	}
	until, handed := c.held(n, now)
	c.begin()
	c.noteDrop(now, n, CauseRevoke, until, handed)
	c.commit()
	return nil
}
