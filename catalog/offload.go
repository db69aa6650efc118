package catalog

import (
	"slices"
	"strings"

	"mooncake/internal/limits"
)

// Clients with a disk copy objects from memory to it, and serve them from there. The catalog says which, by a mailbox for
// each client; none of that is logged, only the copies that came of it.

// offloading is what a leader knows of clients with disks.
type offloading struct {
	boxes     map[UUID]*mailbox // nil while there is none
	tasks     map[string]*offloadTask
	asked     bool   // a put found no room since the last round
	wiped     []UUID // clients whose copies go, in slices
	nextFiles Time
	nextTasks Time
	nextRound Time
}

// mailbox is what a client with a disk is to do.
type mailbox struct {
	enabled  bool
	queue    []string // keys to copy, oldest first
	promote  []string // keys to bring back
	wipe     bool     // everything was removed, and it has not been told
	capacity int64    // of its disk, as it says
}

// An offloadTask is one copy to be made. It is good for one value only: that of the record whose first replica it names.
type offloadTask struct {
	owner   UUID
	replica uint64
	size    uint64
	since   Time
	taken   bool // the client may be at it
}

// A DiskTask is an object that a client is to copy to its disk, or back.
type DiskTask struct {
	Key  string
	Size uint64
}

// A DiskReport is what became of a DiskTask, or what a client found on its disk.
type DiskReport struct {
	Key      string
	Size     int64 // below 0: it failed
	Endpoint string
	Tenant   string
}

// DiskStats are the figures about copies on disk.
type DiskStats struct {
	Objects    uint64 // with such copies
	Alone      uint64 // of them, those of which nothing is in memory
	Bytes      uint64
	Clients    uint64 // with a disk
	Capacity   uint64 // of these disks, as they say
	Waiting    uint64 // objects to be copied
	Promoting  uint64 // objects to be brought back
	Promotions PromotionStats
}

func (c *Catalog) diskStats(st *Stats) {
	t := &c.s.disks
	st.Disks = DiskStats{
		Objects: uint64(len(t.byKey)), Alone: t.alone, Bytes: t.bytes, Clients: uint64(len(c.offload.boxes)),
		Waiting: uint64(len(c.offload.tasks)), Promoting: uint64(len(c.promote.tasks)), Promotions: c.promotionStats(),
	}
	st.Keys += t.alone
	for _, box := range c.offload.boxes {
		st.Disks.Capacity += uint64(max(box.capacity, 0))
	}
}

// MountDisk notes that a client has a disk; again is fine. Its time starts.
func (c *Catalog) MountDisk(now Time, id UUID, enabled bool) error {
	if !c.cfg.Offload {
		return ErrUnableOffload
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touch(now, id)
	if c.offload.boxes[id] != nil {
		return nil
	}
	if len(c.offload.boxes) >= limits.DiskClients {
		return ErrUnavailableStatus
	}
	if c.offload.boxes == nil {
		c.offload.boxes, c.offload.tasks = map[UUID]*mailbox{}, map[string]*offloadTask{}
	}
	c.offload.boxes[id] = &mailbox{enabled: enabled}
	c.offload.wiped = slices.DeleteFunc(c.offload.wiped, func(w UUID) bool { return w == id })
	return nil
}

// UnmountDisk forgets a client's disk and what is on it; one that has none is fine. When it returns nobody is told of those
// copies any more.
func (c *Catalog) UnmountDisk(now Time, id UUID) error {
	if !c.cfg.Offload {
		return ErrUnableOffload
	}
	c.mu.Lock()
	c.closeBox(id)
	c.mu.Unlock()
	c.inSlices(func() bool { return c.dropOwned(now, id) })
	return nil
}

// closeBox ends all that a client was to do.
func (c *Catalog) closeBox(id UUID) {
	if c.offload.boxes[id] == nil {
		return
	}
	delete(c.offload.boxes, id)
	for key, t := range c.offload.tasks {
		if t.owner == id {
			c.endTask(key)
		}
	}
	for key, t := range c.promote.tasks {
		if t.owner == id {
			delete(c.promote.tasks, key)
			c.promote.count.Cancelled++
		}
	}
	if len(c.offload.boxes) == 0 {
		c.offload.boxes = nil
	}
}

func (c *Catalog) endTask(key string) { delete(c.offload.tasks, key) }

// FetchDiskTasks hands a client all objects that it is to copy to its disk. With enabled unset it takes none any more, and
// what waits for it is given up.
func (c *Catalog) FetchDiskTasks(_ Time, id UUID, enabled bool) ([]DiskTask, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	box := c.offload.boxes[id]
	if box == nil {
		return nil, ErrSegmentNotFound
	}
	box.enabled = enabled
	var list []DiskTask
	bytes, done := 0, 0
	for _, key := range box.queue {
		if bytes += len(key); bytes > limits.DiskTaskBytes {
			break // the rest is for the next time
		}
		done++
		t := c.offload.tasks[key]
		if t == nil || t.taken || t.owner != id {
			continue
		}
		if !enabled || !c.stillThere(key, t) {
			c.endTask(key)
			continue
		}
		t.taken = true
		list = append(list, DiskTask{key, t.size})
	}
	box.queue = append(box.queue[:0], box.queue[done:]...)
	return list, nil
}

// stillThere tells whether the value that a task is about is the object's, and complete.
func (c *Catalog) stillThere(key string, t *offloadTask) bool {
	n := c.s.lookup(key)
	return n != 0 && !c.s.record(n).isOpen() && c.s.liesAt(n, t.replica)
}

// enqueue lets the owner of one of an object's segments copy it to its disk; false if that is not possible.
func (c *Catalog) enqueue(now Time, n name) bool {
	r := c.s.record(n)
	if c.offload.boxes == nil || r.isOpen() {
		return false
	}
	if c.offload.tasks[r.key()] != nil {
		return true
	}
	rep := c.keeperFor(n)
	if rep == nil {
		return false
	}
	key, id := strings.Clone(r.key()), c.s.segments.list[rep.segment].info.Client
	c.offload.tasks[key] = &offloadTask{owner: id, replica: rep.id, size: r.size, since: now}
	box := c.offload.boxes[id]
	box.queue = append(box.queue, key)
	return true
}

// keeperFor gives the replica of an object whose owner can copy it to its disk; nil when none can.
func (c *Catalog) keeperFor(n name) *replica {
	for rn := n; rn != 0; {
		rep := c.s.replica(rn)
		rn = rep.more
		seg := c.s.segments.list[rep.segment]
		box := c.offload.boxes[seg.info.Client]
		if !seg.dead.Load() && seg.at() <= StageSuspect && box != nil && box.enabled && len(box.queue) < c.cfg.OffloadQueueMax {
			return rep
		}
	}
	return nil
}

// ReportDisk notes which objects a client has copied to its disk, and which it could not. Copies of values that are not the
// object's any more are none; what no task is known of was there before, and counts if it fits what is known of the object.
func (c *Catalog) ReportDisk(now Time, id UUID, reports []DiskReport) error {
	var err error
	for len(reports) > 0 {
		n := min(len(reports), limits.CatalogSliceItems)
		c.mu.Lock()
		err = c.reportSlice(now, id, reports[:n])
		c.mu.Unlock()
		reports = reports[n:]
	}
	return err
}

func (c *Catalog) reportSlice(now Time, id UUID, reports []DiskReport) error {
	c.begin()
	next := c.s.nextReplica
	for i := range reports {
		r := &reports[i]
		t := c.offload.tasks[r.Key]
		if t != nil && t.owner == id {
			fits := r.Size == int64(t.size) && c.stillThere(r.Key, t)
			c.endTask(r.Key)
			if !fits {
				continue
			}
		} else if r.Size <= 0 || !c.fitsKnown(r) {
			continue
		}
		if c.offload.boxes[id] == nil || r.Key == "" || len(r.Key) > limits.KeyBytesMax || len(r.Endpoint) > limits.MountTextBytes {
			continue
		}
		at := len(c.replicas)
		c.replicas = append(c.replicas, ReplicaChange{ID: next, Segment: id, Size: uint64(r.Size)})
		ch := c.note(ChangeDisk, now)
		ch.Key, ch.Client, ch.Group, ch.Tenant, ch.Replicas = r.Key, id, r.Endpoint, r.Tenant, c.replicas[at:]
		if n := c.s.lookup(r.Key); n != 0 {
			rec := c.s.record(n)
			ch.Checksum, ch.HasChecksum, ch.DataType = rec.checksum, rec.flags&flagChecksum != 0, rec.dataType
		}
		next++
	}
	c.commit()
	if o := c.s.disks.owners[id]; o != nil && c.clients[id] != nil {
		o.stage.Store(uint32(c.clients[id].stage))
	}
	if c.offload.boxes[id] == nil {
		return ErrSegmentNotFound
	}
	return nil
}

// fitsKnown tells whether what a client found on its disk can be the value of the object that is known, if there is one.
func (c *Catalog) fitsKnown(r *DiskReport) bool {
	if n := c.s.lookup(r.Key); n != 0 {
		return !c.s.record(n).isOpen() && c.s.record(n).marks&markReplaced == 0 && c.s.record(n).size == uint64(r.Size)
	}
	obj := c.s.disks.find(r.Key)
	return obj == nil || obj.size == uint64(r.Size)
}

// SetDiskCapacity notes how large a client's disk is.
func (c *Catalog) SetDiskCapacity(id UUID, bytes int64) error {
	if bytes < 0 {
		return ErrInvalidParams
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	box := c.offload.boxes[id]
	if box == nil {
		return ErrSegmentNotFound
	}
	box.capacity = bytes
	return nil
}

// flagWipes lets every client with a disk know that all was removed, if it keeps nothing any more.
func (c *Catalog) flagWipes() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, box := range c.offload.boxes {
		box.wipe = true
	}
}

// TakeWipe tells a client, once, that it may empty its disk. A client that still keeps something is told later, or never.
func (c *Catalog) TakeWipe(id UUID) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	box := c.offload.boxes[id]
	if box == nil {
		return false, ErrSegmentNotFound
	}
	wipe := box.wipe && c.s.disks.owners[id] == nil
	box.wipe = box.wipe && !wipe
	return wipe, nil
}

// waitsForDisk tells whether what would be evicted has to be copied to disk before, or is being copied. The caller checked
// that there are clients with disks.
func (c *Catalog) waitsForDisk(n name) bool {
	for m := c.firstOf(n); m != 0; m = c.nextOf(m) {
		key := c.s.record(m).key()
		t := c.offload.tasks[key]
		switch {
		case t != nil && (t.taken || c.cfg.OffloadOnEvict):
			return true
		case c.cfg.OffloadOnEvict && !c.kept(key) && (!c.cfg.OffloadForce || c.keeperFor(m) != nil):
			return true
		}
		if !c.s.isUnit(n) {
			break
		}
	}
	return false
}

// kept tells whether a client keeps a copy of a key on its disk that readers may see.
func (c *Catalog) kept(key string) bool {
	obj := c.s.disks.find(key)
	return obj != nil && slices.ContainsFunc(obj.copies, func(d diskCopy) bool { return d.owner != nil && d.readable() })
}

// handOver lets clients copy to disk what is to be evicted next, a slice of it: as much as makes the pool as empty as the
// eviction would. It goes on with more as long as there is no room, for clients wait until they have several to copy.
func (c *Catalog) handOver(now Time) {
	if !c.cfg.OffloadOnEvict || c.offload.boxes == nil || now < c.offload.nextRound {
		return
	}
	usable, allocated := c.filled()
	mark := c.cfg.HighWatermark
	if !c.offload.asked && (mark <= 0 || allocated <= mark*usable) {
		return
	}
	wanted := allocated - max(0, mark-c.cfg.EvictionRatio)*usable
	if c.offload.asked {
		wanted = max(wanted, c.cfg.EvictionRatio*usable)
	}
	c.offload.asked, c.offload.nextRound = false, now+limits.DiskRoundMs
	left := int(float64(c.cfg.OffloadQueueMax) * c.cfg.OffloadCapRatio)
	order, steps := c.order(0, 0), limits.CatalogSliceItems
	for _, list := range [...]*ages{&c.s.spent, &c.s.ages, &c.s.soft} {
		w := order.walk(list, now)
		for n := c.candidate(&w, now); n != 0 && wanted > 0 && left > 0 && steps > 0; n = c.candidate(&w, now) {
			for m := c.firstOf(n); m != 0; m = c.nextOf(m) {
				steps--
				r := c.s.record(m)
				if key := r.key(); c.offload.tasks[key] == nil && !c.kept(key) && c.enqueue(now, m) {
					wanted -= float64(r.size) * float64(r.replicas)
					left--
				}
				if !c.s.isUnit(n) {
					break
				}
			}
		}
	}
}

// attendDisks does what time asks for about copies on disk.
func (c *Catalog) attendDisks(now Time) {
	c.mu.Lock()
	wiped := c.offload.wiped
	c.offload.wiped = nil
	c.handOver(now)
	c.bringBack(now)
	c.reapTasks(now)
	c.releaseFiles(now)
	c.mu.Unlock()
	for _, id := range wiped {
		c.inSlices(func() bool { return c.dropOwned(now, id) })
	}
}

// reapTasks gives up what clients have had for too long.
func (c *Catalog) reapTasks(now Time) {
	if now < c.offload.nextTasks {
		return
	}
	c.offload.nextTasks = now + limits.DiskReapMs
	for key, t := range c.offload.tasks {
		if c.releaseAt(t.since) <= now || !c.stillThere(key, t) && !t.taken {
			c.endTask(key)
		}
	}
	for key, t := range c.promote.tasks {
		if c.releaseAt(t.since) <= now {
			delete(c.promote.tasks, key)
			c.promote.count.Expired++
		}
	}
}

// keepsAnything tells whether a client has segments, a disk or copies on it.
func (c *Catalog) keepsAnything(id UUID) bool {
	return len(c.s.segments.byOwner[id]) > 0 || c.offload.boxes[id] != nil || c.s.disks.owners[id] != nil
}

// loseDisk takes a client's copies out of sight; they go with the next Sweep.
func (c *Catalog) loseDisk(id UUID) {
	c.closeBox(id)
	if o := c.s.disks.owners[id]; o != nil {
		o.stage.Store(uint32(StageGone))
		c.offload.wiped = append(c.offload.wiped, id)
	}
}
