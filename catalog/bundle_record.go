package catalog

import (
	"hash/maphash"
	"sync/atomic"
	"unsafe"

	"mooncake/bundle"
	"mooncake/internal/limits"
)

// A bundleRecord is a bundle, or what is remembered of one that has no members any more; its prefix follows it in the same
// slot. Everything but what is marked as soft is built by Changes alone.
type bundleRecord struct {
	lastRead  int64 // soft; when somebody last got an address of a member; raised by readers
	published int64 // when the manifest was first complete; 0 never; readers look at it
	reads     uint32
	nameBytes uint32 // 0 marks a free slot

	created, lastWrite int64 // first start, latest start or completion of a write
	touched            int64 // latest Change about a member
	deadAt             int64 // soft; when the writer was known to be dead; 0 is alive

	sums      [3]partSum // by what partOf says
	allocated uint64     // bytes of all replicas
	lost      uint32     // complete members that went with their segments
	client    uint32     // the last writer, number in state.owners

	unit       name // of the first member in the list; 0 is none
	head       name // list of members
	members    uint32
	seen       uint32 // the last walk that met it; see Catalog.tied
	prev, next name   // neighbours in state.idle or state.ended
	facts      uint8
	shows      uint8 // what its unit counts of it
	list       uint8
	copies     uint8 // replicas wanted for the first member
}

// partSum adds up the members of one kind.
type partSum struct {
	bytes, doneBytes uint64
	keys, done       uint32
}

// Facts about a bundle, which it never loses.
const (
	factCut       uint8 = 1 << iota // a payload was removed after the publication: it is being reclaimed
	factUnlisted                    // its manifest was removed
	factEvicted                     // evicted
	factCollected                   // taken away by the catalog's own decision
	factKnotted                     // has members in several units
	factWriters                     // several clients wrote to it
	factTorn                        // its manifest is marked: members are lost
	factRead                        // soft; the eviction knows that somebody read it
)

// What a unit counts of a bundle.
const (
	showMember uint8 = 1 << iota
	showStaging
	showUnread
	showSpent
)

// Lists that a bundle can be in.
const (
	bundleListNone  uint8 = iota
	bundleListIdle        // to be collected when nothing happens to it for BundleStagingIdleMs; longest untouched first
	bundleListEnded       // without members; longest untouched first
)

const bundleBytes = int(unsafe.Sizeof(bundleRecord{}))

func (s *state) bundle(n name) *bundleRecord { return (*bundleRecord)(s.arena.at(n)) }

// prefix returns the bytes behind a bundle record. They must not outlive the lock under which it was found.
func (b *bundleRecord) prefix() string {
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(b), bundleBytes)), b.nameBytes)
}

// id is the prefix without the slash at its end.
func (b *bundleRecord) id() string { return b.prefix()[:b.nameBytes-1] }

func partOf(p bundle.Part) int { return int(p - bundle.Meta) }

func (b *bundleRecord) manifests() uint32 { return b.sums[partOf(bundle.Manifest)].done }

// bundleTable gives the part of the index that holds the bundles of a hash.
func (s *state) bundleTable(hash uint64) *table {
	return &s.bundles[hash>>(64-limits.CatalogUnitShardBits)]
}

// findBundle returns the bundle of a prefix, with or without members; 0 when there is none.
func (s *state) findBundle(prefix string) name {
	if s.recent != 0 && s.bundle(s.recent).prefix() == prefix {
		return s.recent
	}
	hash := maphash.String(s.seed, prefix)
	t := s.bundleTable(hash)
	n, at := t.first(hash)
	for n != 0 && s.bundle(n).prefix() != prefix {
		n, at = t.next(hash, at)
	}
	return n
}

// joinBundle makes a new record, which is in no list yet, a member of the bundle of its key. Without memory for the bundle
// it counts as an ordinary object.
func (s *state) joinBundle(n name, prefix string, part bundle.Part, c *Change) {
	bn := s.findBundle(prefix)
	if bn != 0 && s.segments.dying != nil && !s.pruneBundle(bn) {
		bn = s.findBundle(prefix) // as a memory, if at all
	}
	if bn == 0 {
		bn = s.arena.alloc(kindBundle, bundleBytes+len(prefix))
		if bn == 0 {
			return
		}
		b := s.bundle(bn)
		b.nameBytes = uint32(len(prefix))
		setBytes(s.arena.at(bn), bundleBytes, prefix)
		hash := maphash.String(s.seed, prefix)
		s.bundleTable(hash).insert(hash, bn)
		s.bundleCount++
		b.client = s.owners.ref(c.Client)
		b.created = int64(c.Time)
		b.copies = uint8(min(len(c.Replicas), limits.ReplicasPerObjectMax))
	}
	b := s.bundle(bn)
	if b.list == bundleListEnded {
		s.reviveBundle(bn, c)
	}
	r := s.record(n)
	r.bundle, r.bundleNext, r.part = bn, b.head, part
	if b.head != 0 {
		s.record(b.head).bundlePrev = n
	}
	b.head = n
	b.members++
	sum := &b.sums[partOf(part)]
	sum.keys++
	sum.bytes += c.Size
	s.writtenBy(b, r.client)
	s.writeBundle(bn, c.Time)
	s.tieBundle(bn, n)
	s.settleBundle(bn)
}

// writtenBy notes the client of a write.
func (s *state) writtenBy(b *bundleRecord, client uint32) {
	if b.client == client {
		return
	}
	old := b.client
	b.client = s.owners.ref(s.owners.list[client].id)
	s.owners.unref(old)
	b.facts |= factWriters
}

// reviveBundle begins a bundle anew whose last members are gone.
func (s *state) reviveBundle(bn name, c *Change) {
	b := s.bundle(bn)
	s.delistBundle(bn)
	client := b.client
	b.client = s.owners.ref(c.Client)
	s.owners.unref(client)
	atomic.StoreInt64(&b.lastRead, 0)
	atomic.StoreInt64(&b.published, 0)
	atomic.StoreUint32(&b.reads, 0)
	b.created, b.lastWrite, b.touched, b.deadAt = int64(c.Time), 0, 0, 0
	b.lost, b.facts, b.shows = 0, 0, 0
	b.copies = uint8(min(len(c.Replicas), limits.ReplicasPerObjectMax))
	s.bundleCount++
}

// leaveBundle takes a record, which goes for the given cause at the given time, out of its bundle. A cause of 0 is the loss
// of its segments, at no time.
func (s *state) leaveBundle(n name, cause Cause, at Time) {
	r := s.record(n)
	bn := r.bundle
	if bn == 0 {
		return
	}
	b := s.bundle(bn)
	if cause == CauseReclaim {
		b.facts |= factCollected
	}
	if r.done {
		s.noteGone(b, r.part, cause)
		s.countDone(n, false)
	}
	b.allocated -= r.size * uint64(r.replicas)
	sum := &b.sums[partOf(r.part)]
	sum.keys--
	sum.bytes -= r.size
	if r.bundlePrev != 0 {
		s.record(r.bundlePrev).bundleNext = r.bundleNext
	} else {
		b.head = r.bundleNext
	}
	if r.bundleNext != 0 {
		s.record(r.bundleNext).bundlePrev = r.bundlePrev
	}
	b.members--
	if r.unit != 0 && b.facts&factKnotted != 0 {
		s.unit(r.unit).knots--
	}
	r.bundle, r.bundlePrev, r.bundleNext = 0, 0, 0
	s.touchBundle(bn, at)
	if b.members == 0 {
		s.endBundle(bn, at)
		return
	}
	s.settleBundle(bn)
}

// noteGone notes on a bundle why a complete member of it goes.
func (s *state) noteGone(b *bundleRecord, part bundle.Part, cause Cause) {
	switch cause {
	case CauseEvict:
		b.facts |= factEvicted
	case CauseReclaim, CauseUpsert:
	case CauseRemove, CauseExpire:
		switch {
		case b.published == 0:
		case part == bundle.Buffer:
			b.facts |= factCut
		case part == bundle.Manifest:
			b.facts |= factUnlisted
		}
	default:
		b.lost++
	}
}
