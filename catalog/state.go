package catalog

import (
	"hash/maphash"
	"sync/atomic"

	"mooncake/bundle"
	"mooncake/internal/limits"
)

// state is what Changes build, and beside it the soft fields of records that live in the same slots. Its methods want
// Catalog.mu, except where they say otherwise.
type state struct {
	seed    maphash.Seed // per process: nothing that is logged or compared may depend on it
	hashed  hashed
	arena   *arena
	shards  []shard
	groups  []table // index of units
	bundles []table // index of bundles

	segments segmentTable
	owners   ownerTable
	shares   shareTable
	disks    diskTable

	spent  ages     // bundles of no use any more
	ages   ages     // complete, unpinned
	soft   ages     // complete, soft pinned
	unread ages     // published bundles that nobody has read
	open   openList // being written

	pins     map[name]Time // ends of soft pins
	pinEnds  timeHeap[name]
	pending  map[name]pendingPin // what the write under way asks for
	staged   map[name]name       // by the object with markReplaced: the write that will take its place
	copies   map[name]copying    // records that are copies under way
	heldBack quarantine
	summing  map[uint64]uint64 // by replica: the last ticket of a SumTask that is under way; only a leader has any
	tickets  uint64

	idle   bundleList // of no use unless something happens to them; longest untouched first
	ended  bundleList // without members
	recent name       // the bundle looked up last; 0 is none

	keys        uint64 // records in the index
	several     uint64 // records that are to have more than one replica
	units       uint64
	bundleCount uint64 // bundles that have members
	allocated   uint64
	capacity    uint64
	nextReplica uint64 // id of the next replica
	lostKeys    uint64 // objects with markLost; only a leader has any

	tell       func(ObjectEvent) // nil: nobody wants to know
	marksFresh bool              // decisions become durable later: what they complete gets flagFresh
	completed  []name            // by the decision under way, with flagFresh

	clear     clearing
	survivors []name // of the ChangeClear under way, where it was decided
	cleared   int    // objects that it took away
	clearTold bool   // somebody hears of them
}

type pendingPin struct {
	action uint8
	ttlMs  int64
}

func newState() *state {
	s := &state{
		seed:        maphash.MakeSeed(),
		arena:       newArena(),
		shards:      make([]shard, 1<<limits.CatalogShardBits),
		groups:      make([]table, 1<<limits.CatalogUnitShardBits),
		bundles:     make([]table, 1<<limits.CatalogUnitShardBits),
		spent:       ages{list: listSpent},
		ages:        ages{list: listAge},
		soft:        ages{list: listSoft},
		unread:      ages{list: listUnread},
		pins:        map[name]Time{},
		pending:     map[name]pendingPin{},
		staged:      map[name]name{},
		copies:      map[name]copying{},
		nextReplica: 1,
	}
	s.segments.init()
	s.shares.init()
	s.disks.init()
	s.owners.byID = map[UUID]uint32{}
	return s
}

func (s *state) hash(key string) uint64 { return maphash.String(s.seed, key) }

func (s *state) shard(hash uint64) *shard { return &s.shards[shardOf(hash)] }

// find returns the record of a key. The caller holds Catalog.mu or the shard's lock.
func (s *state) find(sh *shard, hash uint64, key string) name {
	n, at := sh.table.first(hash)
	for n != 0 && s.record(n).key() != key {
		n, at = sh.table.next(hash, at)
	}
	return n
}

// lookup returns the record of a key for the writer, after taking off what lay on segments that are gone. The key is
// absent when nothing is left.
func (s *state) lookup(key string) name {
	hash := s.hashOf(key)
	n := s.find(s.shard(hash), hash, key)
	if n == 0 || s.segments.dying == nil {
		return n
	}
	if st := s.stagedOf(n); st != 0 {
		s.prune(st)
		if !s.prune(n) {
			n = s.find(s.shard(hash), hash, key) // the staged write took its place
		}
		return n
	}
	if !s.prune(n) {
		return 0
	}
	return n
}

// stagedOf gives the write that will take the place of an object; 0 when there is none.
func (s *state) stagedOf(n name) name {
	if s.record(n).marks&markReplaced == 0 {
		return 0
	}
	return s.staged[n]
}

// prune takes off replicas on segments that are gone; false when the object went with them.
func (s *state) prune(n name) bool {
	r := s.record(n)
	for rn := n; rn != 0; {
		rep := s.replica(rn)
		if !s.segments.list[rep.segment].dead.Load() {
			rn = rep.more
			continue
		}
		if r.replicas == 1 {
			s.removeRecord(n, departure{})
			return false
		}
		rn = s.dropReplica(n, rn, departure{})
	}
	s.settle(n)
	return true
}

// addRecord makes an object without replicas, not yet in the index. It returns 0 when there is no memory.
func (s *state) addRecord(c *Change) name {
	n := s.arena.alloc(kindRecord, recordBytes+len(c.Key))
	if n == 0 {
		return 0
	}
	r := s.record(n)
	r.keyBytes = uint32(len(c.Key))
	setBytes(s.arena.at(n), recordBytes, c.Key)
	r.size, r.time, r.dataType = c.Size, int64(c.Time), c.DataType
	r.owner = n
	r.share, r.tenant = s.shares.match(c.Key, c.Tenant), s.shares.ref(c.Tenant)
	if c.HardPin {
		r.flags |= flagHardPin
	}
	r.client = s.owners.ref(c.Client)
	s.want(r, c)
	prefix, part := bundle.Parse(c.Key)
	if c.Copy != CopyNone {
		s.copies[n] = copying{c.Copy, c.Source, uint8(min(len(c.Replicas), limits.ReplicasPerObjectMax))}
		part = bundle.NoPart
	}
	if part != bundle.NoPart {
		r.marks |= markPart
	}
	if part == bundle.Manifest {
		r.marks |= markManifest
	}
	if c.Group != "" {
		r.flags |= flagGroup
		s.join(n, c.Group, true)
	} else if prefix != "" {
		s.join(n, prefix, false)
	}
	if part != bundle.NoPart {
		s.joinBundle(n, prefix, part, c)
	}
	return n
}

// A departure says how an object or a replica goes; nothing of it is set when its segment went.
type departure struct {
	cause         Cause
	at            Time
	until, handed Time // see freeRange
}

// removeRecord takes an object away with its replicas.
func (s *state) removeRecord(n name, d departure) {
	r := s.record(n)
	s.went(n)
	s.unindex(n)
	for rn := n; rn != 0; {
		rep := s.replica(rn)
		next := rep.more
		s.segments.unlink(s, rn)
		s.freeRange(rep.segment, r, rep.offset, d)
		if rn != n {
			s.arena.release(rn)
		}
		rn = next
	}
	s.delist(n)
	s.setPin(n, 0)
	s.dropPending(n)
	s.dropCopy(n)
	s.leaveBundle(n, d.cause, d.at)
	s.leave(n)
	s.owners.unref(r.client)
	s.shares.unref(r.tenant)
	s.unwant(r)
	s.arena.release(n)
}

// addReplica appends an unfinished replica. The range is taken already.
func (s *state) addReplica(n name, c *ReplicaChange, seg *segment) bool {
	r := s.record(n)
	rn := n
	if r.replicas > 0 {
		if rn = s.arena.alloc(kindReplica, replicaBytes); rn == 0 {
			return false
		}
	}
	rep := s.replica(rn)
	rep.id, rep.offset, rep.segment, rep.owner, rep.status = c.ID, c.Offset, seg.number, n, ReplicaProcessing
	if rn != n {
		last := s.replica(n)
		for last.more != 0 {
			last = s.replica(last.more)
		}
		last.more = rn
	}
	r.replicas++
	s.segments.link(s, rn)
	seg.used += r.size
	s.allocated += r.size
	s.charge(seg, r.share, r.size)
	s.shares.chargeTenant(seg, r.tenant, r.size)
	if r.bundle != 0 {
		s.bundle(r.bundle).allocated += r.size
	}
	s.nextReplica = max(s.nextReplica, c.ID+1)
	return true
}

// dropReplica takes one of several replicas off an object and returns the one that follows it.
func (s *state) dropReplica(n, rn name, d departure) name {
	r, rep := s.record(n), s.replica(rn)
	if r.bundle != 0 {
		s.bundle(r.bundle).allocated -= r.size
	}
	s.segments.unlink(s, rn)
	s.freeRange(rep.segment, r, rep.offset, d)
	sh := s.shard(s.hash(r.key()))
	gone, next := rn, rep.more
	sh.mu.Lock()
	r.replicas--
	if rn == n {
		// The second moves into the record, so that the first replica's name stays the object's.
		gone, next = rep.more, n
		second := s.replica(gone)
		rep.id, rep.offset, rep.segment, rep.status, rep.more = second.id, second.offset, second.segment, second.status, second.more
	} else {
		before := s.replica(n)
		for before.more != rn {
			before = s.replica(before.more)
		}
		before.more = rep.more
	}
	sh.mu.Unlock()
	if rn == n {
		s.segments.unlink(s, gone)
		s.segments.link(s, n)
	}
	s.arena.release(gone)
	s.countLost(n)
	return next
}

// freeRange gives the range of a record's replica back: at once, or to quarantine when until is set. Ranges of segments that
// are gone went with them.
func (s *state) freeRange(number uint32, r *record, offset uint64, d departure) {
	seg, size := s.segments.list[number], r.size
	if seg.dead.Load() {
		return
	}
	seg.used -= size
	s.allocated -= size
	s.discharge(seg, r.share, size)
	s.shares.dischargeTenant(seg, r.tenant, size)
	if d.until == 0 {
		seg.free(offset, size)
		return
	}
	held := heldRange{size: size, until: d.until, handed: d.handed, corrupt: d.cause == CauseCorrupt}
	if held.corrupt {
		s.heldBack.noteCorrupt(seg, r.key(), offset, size, d.at)
	} else if d.handed == Never && atomic.LoadInt64(&r.handed) == 0 { // readers of a former value would wait for nobody's death
		held.writer, held.began = s.owners.list[r.client].id, Time(r.time)
	}
	s.heldBack.add(seg, offset, held)
}

// settle puts a record into the list where it belongs, after its replicas or pins changed. Of a record that belongs to a
// unit only an unfinished one is in a list itself; the unit is for the rest.
func (s *state) settle(n name) {
	r := s.record(n)
	want := listAge
	switch {
	case s.unfinished(n):
		want = listOpen
	case r.unit != 0 || r.flags&flagHardPin != 0 || r.marks&markReplaced != 0 || s.keeps(r.share, false):
		want = listNone
	case r.marks&markSoftPin != 0:
		want = listSoft
	}
	if was := r.list; want != was {
		s.delist(n)
		if want == listOpen {
			s.open.add(s, n)
			s.owners.list[r.client].open++
			if r.unit != 0 {
				s.unit(r.unit).open++
			}
		} else {
			s.enlist(n, want, max(r.time, atomic.LoadInt64(&r.lease)))
			if was == listOpen && s.shares.expires {
				s.schedule(n)
			}
		}
	}
	if r.unit != 0 {
		s.settleUnit(r.unit)
	}
	if r.bundle != 0 && r.done == r.isOpen() {
		s.settleMember(n)
	}
}

// enlist adds a record or a unit to one of the ages.
func (s *state) enlist(n name, list uint8, at int64) {
	if l := s.agesOf(list); l != nil {
		l.add(s, n, bucketOf(at))
	}
}

// agesOf gives the ages of a list; nil for a list of another sort.
func (s *state) agesOf(list uint8) *ages {
	switch list {
	case listSpent:
		return &s.spent
	case listAge:
		return &s.ages
	case listSoft:
		return &s.soft
	case listUnread:
		return &s.unread
	}
	return nil
}

// delist takes a record or a unit out of whatever list it is in.
func (s *state) delist(n name) {
	switch list := s.node(n).list; list {
	case listNone:
	case listOpen:
		s.open.cut(s, n)
		s.owners.list[s.record(n).client].open--
		if un := s.record(n).unit; un != 0 {
			s.unit(un).open--
		}
	default:
		s.agesOf(list).cut(s, n)
	}
}

// unfinished tells whether a replica of the object is still to be completed.
func (s *state) unfinished(n name) bool {
	for rn := n; rn != 0; {
		rep := s.replica(rn)
		if rep.status == ReplicaProcessing {
			return true
		}
		rn = rep.more
	}
	return false
}

// setPin sets or, with 0, clears the soft pin of an object. settle must follow while the object lives.
func (s *state) setPin(n name, until Time) {
	r := s.record(n)
	had := r.marks&markSoftPin != 0
	if until == 0 {
		if !had {
			return
		}
		delete(s.pins, n)
		if len(s.pins) == 0 {
			s.pins = map[name]Time{} // a map never shrinks
			s.pinEnds = nil
		}
		r.marks &^= markSoftPin
	} else {
		s.pins[n] = until
		s.pinEnds.push(until, n)
		r.marks |= markSoftPin
	}
	if r.unit != 0 && had != (until != 0) {
		u := s.unit(r.unit)
		if had {
			u.soft--
		} else {
			u.soft++
		}
	}
}

func (s *state) dropPending(n name) {
	if len(s.pending) > 0 {
		delete(s.pending, n)
	}
}
