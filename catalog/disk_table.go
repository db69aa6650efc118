package catalog

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"mooncake/internal/limits"
)

// Copies on disk stand beside the records, by key: a record is what lies in memory, and an object may have either or both.
// There are two kinds: the shared file, which every client can read, and files of one client, which serves them.

// diskTable holds the copies on disk. Changing it takes Catalog.mu and mu; reading either. mu is a leaf.
type diskTable struct {
	count   atomic.Int64 // objects in it; a reader looks here first
	mu      sync.RWMutex
	byKey   map[string]*diskObject
	owners  map[UUID]*diskOwner
	tenants map[string]uint64 // objects by tenant
	alone   uint64            // objects that have no record in the index
	bytes   uint64            // of all complete copies
}

type diskObject struct {
	size        uint64
	checksum    uint64
	hasChecksum bool
	dataType    uint8
	alone       bool // no record in the index has its key
	tenant      string
	lease       atomic.Int64
	copies      []diskCopy
}

type diskCopy struct {
	id     uint64
	size   uint64
	disk   *DiskCopy
	owner  *diskOwner // nil for the shared file
	writer UUID
	since  Time // an unfinished one's start
	open   bool
}

// diskOwner is a client that keeps copies. Readers look at stage.
type diskOwner struct {
	id    UUID
	stage atomic.Uint32
	keys  map[string]struct{}
	bytes uint64
}

// DiskCopy tells where a copy on disk is. It never changes.
type DiskCopy struct {
	Owner    UUID   // the client that keeps it; nobody's is the shared file
	Endpoint string // where the owner serves it
}

func (t *diskTable) init() {
	t.byKey, t.owners, t.tenants = map[string]*diskObject{}, map[UUID]*diskOwner{}, map[string]uint64{}
}

// find gives the copies of a key; nil when there are none.
func (t *diskTable) find(key string) *diskObject {
	if t.count.Load() == 0 {
		return nil
	}
	return t.byKey[key]
}

// of counts the objects of a tenant.
func (t *diskTable) of(tenant string) uint64 { return t.tenants[tenant] }

// readable tells whether readers may see a copy.
func (d *diskCopy) readable() bool {
	return !d.open && (d.owner == nil || Stage(d.owner.stage.Load()) <= StageSuspect)
}

// view appends the copies on disk that readers may see, and tells of their object if there is any.
func (t *diskTable) view(key string, dst []Replica) (Object, []Replica, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	obj, had := t.find(key), len(dst)
	if obj == nil {
		return Object{}, dst, false
	}
	for i := range obj.copies {
		if c := &obj.copies[i]; c.readable() {
			dst = append(dst, Replica{ID: c.id, Size: c.size, Status: ReplicaComplete, Disk: c.disk})
		}
	}
	return Object{Size: obj.size, Checksum: obj.checksum, HasChecksum: obj.hasChecksum, DataType: obj.dataType}, dst, len(dst) > had
}

// grant leases what is on disk.
func (t *diskTable) grant(key string, until Time) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if obj := t.find(key); obj != nil {
		for old := obj.lease.Load(); old < int64(until) && !obj.lease.CompareAndSwap(old, int64(until)); old = obj.lease.Load() {
		}
	}
}

// applyDisk puts a copy in the place of the one of the same owner.
func (s *state) applyDisk(c *Change) {
	if c.Key == "" || len(c.Key) > limits.KeyBytesMax || len(c.Replicas) != 1 || c.Replicas[0].Size == 0 {
		return
	}
	rc, t := &c.Replicas[0], &s.disks
	s.nextReplica = max(s.nextReplica, rc.ID+1)
	t.mu.Lock()
	defer t.mu.Unlock()
	obj := t.byKey[c.Key]
	if obj == nil {
		hash := s.hash(c.Key)
		obj = &diskObject{tenant: cmp.Or(c.Tenant, defaultTenant), alone: s.find(s.shard(hash), hash, c.Key) == 0}
		if obj.alone {
			t.alone++
		}
		t.byKey[strings.Clone(c.Key)] = obj
		t.tenants[obj.tenant]++
		t.count.Add(1)
	}
	had := obj.complete()
	defer func() { s.onDisk(c.Key, had, obj.complete()) }()
	obj.size, obj.checksum, obj.hasChecksum, obj.dataType = rc.Size, c.Checksum, c.HasChecksum, c.DataType
	d := diskCopy{
		id: rc.ID, size: rc.Size, writer: c.Client, since: c.Time, open: c.Staged,
		disk: &DiskCopy{Owner: rc.Segment, Endpoint: strings.Clone(c.Group)},
	}
	if rc.Segment != (UUID{}) {
		d.owner = t.owner(rc.Segment)
		d.owner.keys[strings.Clone(c.Key)] = struct{}{}
		d.owner.bytes += d.size
	}
	if !d.open {
		t.bytes += d.size
	}
	at := slices.IndexFunc(obj.copies, func(o diskCopy) bool { return o.owner == d.owner })
	if at < 0 {
		obj.copies = append(obj.copies, d)
		return
	}
	if d.owner != nil {
		d.owner.bytes -= obj.copies[at].size
	}
	if !obj.copies[at].open {
		t.bytes -= obj.copies[at].size
	}
	obj.copies[at] = d
}

// owner gives what is known of a client that keeps copies.
func (t *diskTable) owner(id UUID) *diskOwner {
	o := t.owners[id]
	if o == nil {
		o = &diskOwner{id: id, keys: map[string]struct{}{}}
		t.owners[id] = o
	}
	return o
}

// uncount takes a copy off the sums, before it goes.
func (t *diskTable) uncount(key string, d *diskCopy) {
	if !d.open {
		t.bytes -= d.size
	}
	if d.owner == nil {
		return
	}
	delete(d.owner.keys, key)
	if d.owner.bytes -= d.size; len(d.owner.keys) == 0 {
		delete(t.owners, d.owner.id)
	}
}

// dropDisk takes the copies of a key that go, and the key with the last of them.
func (s *state) dropDisk(key string, goes func(d *diskCopy) bool) {
	t := &s.disks
	obj := t.find(key)
	if obj == nil {
		return
	}
	had := obj.complete()
	t.drop(key, obj, goes)
	s.onDisk(key, had, obj.complete())
}

func (t *diskTable) drop(key string, obj *diskObject, goes func(d *diskCopy) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := make([]diskCopy, 0, len(obj.copies))
	for i := range obj.copies {
		if d := &obj.copies[i]; goes(d) {
			t.uncount(key, d)
		} else {
			kept = append(kept, *d)
		}
	}
	if obj.copies = kept; len(kept) > 0 {
		return
	}
	if obj.alone {
		t.alone--
	}
	if t.tenants[obj.tenant]--; t.tenants[obj.tenant] == 0 {
		delete(t.tenants, obj.tenant)
	}
	delete(t.byKey, key)
	if t.count.Add(-1) == 0 {
		t.byKey = map[string]*diskObject{} // a map never shrinks
	}
}

func (s *state) applyDiskDrop(c *Change) {
	s.dropDisk(c.Key, func(d *diskCopy) bool {
		return slices.ContainsFunc(c.Replicas, func(rc ReplicaChange) bool { return rc.Segment == d.disk.Owner })
	})
}

// indexed notes that a record of a key came into the index or left it.
func (t *diskTable) indexed(key string, is bool) {
	obj := t.find(key)
	if obj == nil || obj.alone != is {
		return
	}
	if obj.alone = !is; is {
		t.alone--
	} else {
		t.alone++
	}
}

// overtaken drops the copies of values before the one in memory that is now complete, and lets the others have its checksum.
// A promotion brings back the same value.
func (s *state) overtaken(n name, c *Change) {
	if s.disks.count.Load() == 0 {
		return
	}
	r := s.record(n)
	if c.Cause != CausePromote {
		id := r.id
		s.dropDisk(c.Key, func(d *diskCopy) bool { return d.id < id })
	}
	if obj := s.disks.find(c.Key); obj != nil && !c.KeepChecksum {
		s.disks.mu.Lock()
		obj.checksum, obj.hasChecksum = c.Checksum, c.HasChecksum
		s.disks.mu.Unlock()
	}
}

// dropDisks takes away what goes with the record of a key: all copies on disk when the object itself is to end, and the file
// that a write left unfinished when nobody waits for that any more.
func (s *state) dropDisks(n name, c *Change) {
	if s.disks.count.Load() == 0 {
		return
	}
	r := s.record(n)
	switch c.Cause {
	case CauseRemove, CauseAbort, CauseExpire, CauseReclaim:
		if r.marks&markStaged == 0 {
			s.dropDisk(c.Key, func(*diskCopy) bool { return true })
		}
	case CauseDead, CauseDiscard, CauseRelease:
		writer := s.owners.list[r.client].id
		s.dropDisk(c.Key, func(d *diskCopy) bool { return d.open && d.writer == writer })
	}
}

// disks writes the copies on disk down, in the order of their keys.
func (w *snapshot) disks() {
	t := &w.c.s.disks
	for _, key := range slices.Sorted(maps.Keys(t.byKey)) {
		obj := t.byKey[key]
		for i := range obj.copies {
			d := &obj.copies[i]
			w.add(Change{
				Kind: ChangeDisk, Key: key, Time: d.since, Client: d.writer, Staged: d.open, Tenant: obj.tenant, Group: d.disk.Endpoint,
				Checksum: obj.checksum, HasChecksum: obj.hasChecksum, DataType: obj.dataType,
				Replicas: []ReplicaChange{{ID: d.id, Segment: d.disk.Owner, Size: d.size}},
			})
		}
	}
}
