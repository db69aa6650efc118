package catalog

import (
	"slices"
	"strings"

	"mooncake/internal/limits"
)

// readableOnDisk tells whether readers may see a copy of a key on disk.
func (c *Catalog) readableOnDisk(key string) bool {
	if c.s.disks.count.Load() == 0 {
		return false
	}
	_, _, ok := c.s.disks.view(key, nil)
	return ok
}

// noteFile decides that a write makes a file of the object as well, which is unfinished until its own end.
func (c *Catalog) noteFile(w *write, id uint64, dst []Replica) []Replica {
	if !w.o.File {
		return dst
	}
	at := len(c.replicas)
	c.replicas = append(c.replicas, ReplicaChange{ID: id, Size: w.size})
	ch := c.note(ChangeDisk, w.now)
	ch.Key, ch.Client, ch.Staged, ch.Tenant, ch.DataType = w.key, w.client, true, w.o.Tenant, w.dataType
	ch.Replicas = c.replicas[at:]
	return append(dst, Replica{ID: id, Size: w.size, Status: ReplicaProcessing, Disk: &DiskCopy{}})
}

// fileOf finds the shared file of a key.
func (c *Catalog) fileOf(key string) (*diskObject, *diskCopy) {
	obj := c.s.disks.find(key)
	if obj == nil {
		return nil, nil
	}
	for i := range obj.copies {
		if d := &obj.copies[i]; d.owner == nil {
			return obj, d
		}
	}
	return obj, nil
}

// writingFile tells whether the file of a key is unfinished.
func (c *Catalog) writingFile(key string) bool {
	_, d := c.fileOf(key)
	return d != nil && d.open
}

// endFile completes the file of an object.
func (c *Catalog) endFile(now Time, id UUID, key string) error {
	obj, d := c.fileOf(key)
	switch {
	case d == nil && (obj != nil || c.s.lookup(key) != 0):
		return nil // nothing of the kind was to be written
	case d == nil:
		return ErrObjectNotFound
	case d.writer != id:
		return ErrIllegalClient
	case !d.open:
		return nil
	}
	c.begin()
	ch := c.noteDisk(now, key, obj, d)
	ch.Staged = false
	c.commit()
	return nil
}

// noteDisk begins a Change of a copy with all that is known of it.
func (c *Catalog) noteDisk(now Time, key string, obj *diskObject, d *diskCopy) *Change {
	at := len(c.replicas)
	c.replicas = append(c.replicas, ReplicaChange{ID: d.id, Segment: d.disk.Owner, Size: d.size})
	ch := c.note(ChangeDisk, now)
	ch.Key, ch.Client, ch.Staged, ch.Tenant, ch.Group = key, d.writer, d.open, obj.tenant, d.disk.Endpoint
	ch.Checksum, ch.HasChecksum, ch.DataType = obj.checksum, obj.hasChecksum, obj.dataType
	ch.Replicas = c.replicas[at:]
	return ch
}

// revokeFile takes back the unfinished file of an object.
func (c *Catalog) revokeFile(now Time, id UUID, key string) error {
	_, d := c.fileOf(key)
	if d == nil { // nothing of the kind was to be written: the write decides
		n, _, err := c.written(id, key)
		if err == nil && !c.s.record(n).isOpen() {
			err = ErrInvalidWrite
		}
		return err
	}
	switch {
	case !d.open:
		return ErrInvalidWrite
	case d.writer != id:
		return ErrIllegalClient
	}
	c.dropDisk(now, key, UUID{})
	return nil
}

// dropDisk takes away the copies of a key that some clients keep; nobody is the shared file.
func (c *Catalog) dropDisk(now Time, key string, owners ...UUID) {
	c.begin()
	c.noteDiskDrop(now, key, owners...)
	c.commit()
}

func (c *Catalog) noteDiskDrop(now Time, key string, owners ...UUID) {
	at := len(c.replicas)
	for _, id := range owners {
		c.replicas = append(c.replicas, ReplicaChange{Segment: id})
	}
	ch := c.note(ChangeDiskDrop, now)
	ch.Key, ch.Replicas = key, c.replicas[at:]
}

// removeFromDisk removes an object of which nothing is in memory.
func (c *Catalog) removeFromDisk(now Time, key string, force bool) error {
	obj := c.s.disks.find(key)
	switch {
	case obj == nil:
		return ErrObjectNotFound
	case !force && obj.lease.Load() > int64(now):
		return ErrHasLease
	case !force && c.writingFile(key):
		return ErrNotReady
	}
	var owners []UUID
	for i := range obj.copies {
		owners = append(owners, obj.copies[i].disk.Owner)
	}
	c.dropDisk(now, key, owners...)
	return nil
}

// EvictFromDisk takes away the shared file of an object, or the copy that the client keeps: ErrObjectNotFound if there is no
// such object, ErrReplicaNotFound if it has no such copy. It may be limited to the copy of an id.
func (c *Catalog) EvictFromDisk(now Time, id UUID, key string, shared bool, only uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if shared {
		id = UUID{}
	}
	obj := c.s.disks.find(key)
	if obj == nil {
		if c.s.lookup(key) == 0 {
			return ErrObjectNotFound
		}
		return ErrReplicaNotFound
	}
	at := slices.IndexFunc(obj.copies, func(d diskCopy) bool { return d.disk.Owner == id && (only == 0 || d.id == only) })
	if at < 0 {
		return ErrReplicaNotFound
	}
	if obj.copies[at].open {
		return ErrNotReady
	}
	c.dropDisk(now, key, id)
	return nil
}

// releaseFiles drops unfinished files at the end of their time, and those of writers that are gone.
func (c *Catalog) releaseFiles(now Time) {
	if c.s.disks.count.Load() == 0 || now < c.offload.nextFiles {
		return
	}
	c.offload.nextFiles = now + limits.DiskReapMs
	if c.cfg.PutReleaseMs <= 0 {
		return
	}
	var due []string
	for key, obj := range c.s.disks.byKey {
		for i := range obj.copies {
			if d := &obj.copies[i]; d.open && c.releaseAt(d.since) <= now && len(due) < limits.CatalogSliceItems {
				due = append(due, key)
			}
		}
	}
	slices.Sort(due)
	c.begin()
	for _, key := range due {
		c.noteDiskDrop(now, key, UUID{})
	}
	c.commit()
}

// dropOwned takes away what a client keeps on its disk, in slices. It reports whether there is more.
func (c *Catalog) dropOwned(now Time, id UUID) (more bool) {
	o := c.s.disks.owners[id]
	if o == nil {
		return false
	}
	keys := make([]string, 0, min(len(o.keys), limits.CatalogSliceItems))
	for key := range o.keys {
		if keys = append(keys, key); len(keys) == cap(keys) {
			break
		}
	}
	slices.Sort(keys)
	c.begin()
	for _, key := range keys {
		c.noteDiskDrop(now, key, id)
	}
	c.commit()
	return c.s.disks.owners[id] != nil
}

// diskKeys copies the keys of which nothing is in memory, all or only the readable ones.
func (c *Catalog) diskKeys(readable bool) (keys []string) {
	if c.s.disks.count.Load() == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, obj := range c.s.disks.byKey {
		if !obj.alone {
			continue
		}
		if !readable || slices.ContainsFunc(obj.copies, func(d diskCopy) bool { return d.readable() }) {
			keys = append(keys, strings.Clone(key))
		}
	}
	return keys
}

// onDiskOnly tells whether a put meets an object of which nothing is in memory: readable, or a file that another write began
// a moment ago.
func (c *Catalog) onDiskOnly(w *write) bool {
	if c.readableOnDisk(w.key) {
		return true
	}
	_, d := c.fileOf(w.key)
	return d != nil && d.open && d.since+Time(c.cfg.PutDiscardMs) >= w.now
}
