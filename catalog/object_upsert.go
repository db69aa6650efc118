package catalog

import (
	"strings"
	"sync/atomic"
)

// UpsertStart begins the writing of an object that may exist. A value of the same size goes over the old one in place;
// one of another size gets its room first and then takes the old one's place, so a refused upsert leaves the old value.
// A write under way, whoever's, is pushed aside. The object keeps its group; asking for another is ErrInvalidParams.
func (c *Catalog) UpsertStart(now Time, id UUID, key string, size uint64, o *PutOptions, dst []Replica) ([]Replica, error) {
	if err := c.check(key, size, o); err != nil {
		return dst, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := write{now: now, client: id, key: key, size: size, o: o, group: o.Group, hardPin: o.HardPin}
	n := c.s.lookup(key)
	if n == 0 {
		return c.create(&w, dst)
	}
	r := c.s.record(n)
	old := c.s.groupOf(r)
	if w.group != "" && w.group != old {
		return dst, ErrInvalidParams
	}
	w.group = strings.Clone(old) // the record may go before the name is used
	if pin := c.s.pins[n]; pin > now {
		w.pinned = pin
	}
	w.old, w.until = n, c.releaseAt(now)
	if r.isOpen() {
		w.cause, w.early = CauseDiscard, Never
		return c.create(&w, dst)
	}
	if r.size == size {
		return c.reopen(&w, n, dst)
	}
	w.cause, w.early = CauseUpsert, c.leaseEnd(n)
	w.hardPin = w.hardPin || r.flags&flagHardPin != 0
	return c.create(&w, dst)
}

// reopen lets a client write over an object in place.
func (c *Catalog) reopen(w *write, n name, dst []Replica) ([]Replica, error) {
	c.begin()
	replicas := c.replicasOf(n, ReplicaComplete)
	for i := range replicas {
		seg := c.s.segments.byID[replicas[i].Segment]
		dst = append(dst, Replica{replicas[i].ID, &seg.info, replicas[i].Offset, w.size, ReplicaProcessing})
	}
	ch := c.note(ChangeReopen, w.now)
	ch.Client, ch.Key, ch.Replicas = w.client, w.key, replicas
	c.askPin(ch, w.o)
	c.commit()
	return dst, nil
}

// UpsertEnd is PutEnd.
func (c *Catalog) UpsertEnd(now Time, id UUID, key string, checksum uint64, hasChecksum bool, replicaType int32) error {
	return c.PutEnd(now, id, key, checksum, hasChecksum, replicaType)
}

// UpsertRevoke is PutRevoke. The value that an upsert in place has begun to write over is lost with it.
func (c *Catalog) UpsertRevoke(now Time, id UUID, key string, replicaType int32) error {
	return c.PutRevoke(now, id, key, replicaType)
}

// leaseEnd is the time from which no reader of the object can still be at work.
func (c *Catalog) leaseEnd(n name) Time {
	r := c.s.record(n)
	end := atomic.LoadInt64(&r.lease)
	if r.unit != 0 {
		end = max(end, atomic.LoadInt64(&c.s.unit(r.unit).lease))
	}
	return Time(end)
}
