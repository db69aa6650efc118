package catalog

import (
	"slices"
	"strings"
	"sync"

	"mooncake/internal/limits"
)

// promotions is what a leader knows of objects that are to come back from disk into memory. None of it is logged.
type promotions struct {
	tasks map[string]*promotion
	count PromotionStats // all but rarely, which readers count

	mu     sync.Mutex // a leaf: readers note what they read
	hits   map[string]uint8
	ready  []string // read often enough
	rarely uint64   // reads that were not enough yet
	capped uint64   // reads that would have been enough, were not too many objects on their way already
}

// PromotionStats are the figures of objects that clients were to bring back from disk since this process leads.
type PromotionStats struct {
	Admitted          uint64 // told to a client
	Completed         uint64
	CompletedBytes    uint64
	Failed            uint64 // given up by the client
	Cancelled         uint64 // whose client went away, or that were removed or written meanwhile
	Expired           uint64 // that took too long
	RejectedFrequency uint64 // reads that were not enough yet
	RejectedWatermark uint64 // objects for which the pool was too full
	RejectedCap       uint64 // objects for which too many were on their way
}

// promotionStats takes the figures down. The caller holds the writer lock.
func (c *Catalog) promotionStats() PromotionStats {
	p := &c.promote
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.count
	out.RejectedFrequency, out.RejectedCap = p.rarely, out.RejectedCap+p.capped
	return out
}

// A promotion is one object that a client is to write into memory.
type promotion struct {
	owner   UUID
	size    uint64
	since   Time
	replica uint64 // where it writes, once it began
}

// hit notes that a reader found an object on disk only. The caller holds the shard's lock.
func (c *Catalog) hit(key string) {
	if c.cfg.PromoteOnHit {
		c.wantBack(key, c.cfg.PromoteThreshold)
	}
}

func (c *Catalog) wantBack(key string, threshold uint8) {
	p := &c.promote
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.hits) >= limits.PromotionHits {
		clear(p.hits) // what is read often is back soon
	}
	if p.hits == nil {
		p.hits = map[string]uint8{}
	}
	n := p.hits[key] + 1
	if n < threshold {
		p.hits[strings.Clone(key)] = n
		p.rarely++
		return
	}
	delete(p.hits, key)
	switch {
	case len(p.ready) >= c.cfg.PromoteQueueMax:
		p.capped++
	case !slices.Contains(p.ready, key):
		p.ready = append(p.ready, strings.Clone(key))
	}
}

// Prefetch asks for an object to be brought back into memory without having been read. ErrObjectNotFound if there is no such
// object, ErrObjectExists if it is in memory, ErrReplicaNotFound if no client keeps it.
func (c *Catalog) Prefetch(key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.s.lookup(key); n != 0 && c.readable(n) == nil {
		return ErrObjectExists
	}
	if c.s.disks.find(key) == nil {
		return ErrObjectNotFound
	}
	if c.keeperOf(key) == nil {
		return ErrReplicaNotFound
	}
	c.wantBack(key, 0)
	return nil
}

// keeperOf gives the copy of a client that can bring an object back.
func (c *Catalog) keeperOf(key string) *diskCopy {
	obj := c.s.disks.find(key)
	if obj == nil {
		return nil
	}
	for i := range obj.copies {
		if d := &obj.copies[i]; d.owner != nil && d.readable() && c.offload.boxes[d.owner.id] != nil {
			return d
		}
	}
	return nil
}

// bringBack tells clients which objects to write into memory, while there is room below the watermark.
func (c *Catalog) bringBack(now Time) {
	p := &c.promote
	p.mu.Lock()
	ready := p.ready
	p.ready = nil
	p.mu.Unlock()
	if len(ready) == 0 {
		return
	}
	usable, allocated := c.filled()
	for i, key := range ready {
		d := c.keeperOf(key)
		if d == nil || c.s.lookup(key) != 0 || p.tasks[key] != nil {
			continue
		}
		if len(p.tasks) >= c.cfg.PromoteQueueMax {
			p.count.RejectedCap++
			continue
		}
		if allocated += float64(d.size); c.cfg.HighWatermark > 0 && allocated > c.cfg.HighWatermark*usable {
			p.count.RejectedWatermark += uint64(len(ready) - i)
			return // what is read again asks again
		}
		p.count.Admitted++
		if p.tasks == nil {
			p.tasks = map[string]*promotion{}
		}
		p.tasks[key] = &promotion{owner: d.owner.id, size: d.size, since: now}
		box := c.offload.boxes[d.owner.id]
		box.promote = append(box.promote, key)
	}
}

// FetchPromotions hands a client objects that it is to write into memory, a few at a time.
func (c *Catalog) FetchPromotions(id UUID) ([]DiskTask, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	box := c.offload.boxes[id]
	if box == nil {
		return nil, ErrSegmentNotFound
	}
	var list []DiskTask
	for len(box.promote) > 0 && len(list) < max(c.cfg.PromotePerBeat, 1) {
		key := box.promote[0]
		if box.promote = box.promote[1:]; len(box.promote) == 0 {
			box.promote = nil
		}
		if t := c.promote.tasks[key]; t != nil && t.owner == id {
			list = append(list, DiskTask{key, t.size})
		}
	}
	return list, nil
}

// StartPromotion gives the client that keeps an object on disk room for it in memory.
func (c *Catalog) StartPromotion(now Time, id UUID, key string, size uint64, preferred []string) (Replica, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, obj := c.promote.tasks[key], c.s.disks.find(key)
	switch {
	case t == nil || obj == nil || c.s.lookup(key) != 0:
		return Replica{}, ErrNotReady
	case t.owner != id || t.size != size || obj.size != size:
		return Replica{}, ErrInvalidParams
	}
	o := PutOptions{Replicas: 1, Preferred: preferred, Tenant: obj.tenant, DataType: obj.dataType}
	w := c.newWrite(now, id, key, size, &o)
	w.replicas = 1
	replicas, err := c.create(&w, nil)
	if err != nil {
		return Replica{}, err
	}
	t.replica = replicas[0].ID
	return replicas[0], nil
}

// EndPromotion completes what StartPromotion began. ErrNotReady if it is gone: then nothing more is expected of the client.
func (c *Catalog) EndPromotion(now Time, id UUID, key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, n := c.promote.tasks[key], c.s.lookup(key)
	if t == nil || t.owner != id || t.replica == 0 {
		return ErrNotReady
	}
	delete(c.promote.tasks, key)
	if n == 0 || !c.s.record(n).isOpen() || !c.s.liesAt(n, t.replica) {
		c.promote.count.Cancelled++
		return ErrNotReady
	}
	c.begin()
	replicas := c.replicasOf(n, ReplicaProcessing)
	ch := c.note(ChangeEnd, now)
	ch.Client, ch.Key, ch.Cause, ch.Replicas = id, key, CausePromote, replicas
	if obj := c.s.disks.find(key); obj != nil {
		ch.Checksum, ch.HasChecksum = obj.checksum, obj.hasChecksum
	}
	c.commit()
	c.promote.count.Completed++
	c.promote.count.CompletedBytes += t.size
	return nil
}

// FailPromotion gives up what StartPromotion began, if it did; again is fine.
func (c *Catalog) FailPromotion(now Time, id UUID, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.promote.tasks[key]
	if t == nil || t.owner != id {
		return
	}
	delete(c.promote.tasks, key)
	c.promote.count.Failed++
	if n := c.s.lookup(key); n != 0 && t.replica != 0 && c.s.record(n).isOpen() && c.s.liesAt(n, t.replica) {
		c.begin()
		c.noteDrop(now, n, CauseRevoke, 0, 0)
		c.commit()
	}
}
