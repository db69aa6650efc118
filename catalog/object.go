package catalog

import (
	"sync/atomic"
	"unsafe"

	"mooncake/bundle"
)

// A replica is one copy of an object. The first lies at the start of the object's record, so both have one name; each
// further one has a slot of its own.
//
// Readers, under the shard's lock, look at id, offset, segment, more and status; the rest belongs to the writer.
type replica struct {
	id      uint64
	offset  uint64
	segment uint32 // number in state.segments
	owner   name   // the record
	more    name   // next replica of the object
	segPrev name   // neighbours in the segment's list
	segNext name
	sumHigh uint16 // of the first: upper half of the sum of the object
	status  uint8
	wanted  uint8 // of the first: how many there are to be
}

// A record is an object; its key follows it in the same slot. Readers look at replica, lease, handed, size, checksum,
// unit, keyBytes, flags, dataType; the rest belongs to the writer.
type record struct {
	replica
	lease    int64 // end of the lease; raised by readers
	handed   int64 // when a reader last got the addresses of the replicas; raised by readers
	size     uint64
	time     int64 // start of the write while it is unfinished, its completion afterwards
	checksum uint64

	node          // the list of the unfinished, or an age if the object is alone
	client uint32 // the writer, number in state.owners

	unit               name // group, or bundle without group; 0 is none: the object is alone
	unitPrev, unitNext name

	bundle                 name // 0 is none; seen by readers
	bundlePrev, bundleNext name

	keyBytes uint32 // 0 marks a free slot
	flags    uint8  // seen by readers
	marks    uint8  // seen by the writer only
	dataType uint8
	replicas uint8
	part     bundle.Part // of the bundle
	done     bool        // the bundle counts it as complete
	sumLow   uint16      // lower half of the sum; see flagSummed
}

// A unit is a group, or a bundle whose keys carry no group; its name follows it in the same slot. Readers raise lease;
// the rest belongs to the writer.
type unit struct {
	lease     int64 // latest end of a lease of any member
	lastTouch int64 // latest start or completion of a write
	node            // an age
	head      name  // list of members
	members   uint32
	open      uint32 // members being written
	pinned    uint32 // hard pinned members
	soft      uint32 // soft pinned members
	parts     uint32 // members with the key of a bundle
	manifests uint32 // complete manifests among them
	staging   uint32 // bundles that are being written
	unread    uint32 // published bundles that nobody has read
	bundles   uint32 // bundles that have members here
	spent     uint32 // of them, those of no use any more
	knots     uint32 // members that belong to bundles of several units
	seen      uint32 // the last walk that met it; see Catalog.tied
	nameBytes uint32 // 0 marks a free slot
	strangers uint32 // members of another share than the unit's
	stamp     uint32 // of its entry among the deadlines of its share; 0 is none
	group     bool
	_         [3]byte
}

const (
	recordBytes  = int(unsafe.Sizeof(record{}))
	replicaBytes = int(unsafe.Sizeof(replica{}))
	unitBytes    = int(unsafe.Sizeof(unit{}))
)

// Flags of a record.
const (
	flagHidden   uint8 = 1 << iota // about to go: absent for readers
	flagChecksum                   // checksum is set
	flagHardPin
	flagGroup   // unit is a group: its lease is every member's
	flagClosing // its ranges are being given up: readers wait for the decision under way
	flagTorn    // manifest of a bundle that lost members
	flagFresh   // completed by a decision that is not durable yet: readers wait
	flagSummed  // the sum is set
)

// Marks of a record.
const (
	markSoftPin   uint8 = 1 << iota // has an entry in state.pins
	markPart                        // key of a bundle
	markManifest                    // key of a bundle's manifest
	markPublished                   // complete manifest, counted by its unit
	markVictim                      // chosen by the eviction under way
	markStaged                      // a write that will replace the object of its key; not in the index
	markReplaced                    // has a staged write; see state.staged
	markLost                        // every replica is lost; counted in state.lostKeys
)

// A node links a record or a unit into a list.
type node struct {
	prev, next name
	bucket     uint32 // which age
	list       uint8
	share      uint8  // of the workload; a unit's is that of most members
	tenant     uint16 // of a record, for the accounting under other rules
}

// Lists that a node can be in.
const (
	listNone   uint8 = iota
	listOpen         // being written, oldest start first
	listSpent        // may be evicted before anything else
	listAge          // may be evicted
	listSoft         // may be evicted when nothing else can
	listUnread       // may be evicted when a put would be refused otherwise
)

func (s *state) record(n name) *record   { return (*record)(s.arena.at(n)) }
func (s *state) replica(n name) *replica { return (*replica)(s.arena.at(n)) }
func (s *state) unit(n name) *unit       { return (*unit)(s.arena.at(n)) }

// key returns the bytes behind a record. They must not outlive the lock under which it was found.
func (r *record) key() string {
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(r), recordBytes)), r.keyBytes)
}

func (u *unit) name() string {
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(u), unitBytes)), u.nameBytes)
}

// setBytes copies text behind a header of the given size.
func setBytes(header unsafe.Pointer, size int, text string) {
	copy(unsafe.Slice((*byte)(unsafe.Add(header, size)), len(text)), text)
}

// raise sets *lease to at least until.
func raise(lease *int64, until int64) {
	for {
		old := atomic.LoadInt64(lease)
		if old >= until || atomic.CompareAndSwapInt64(lease, old, until) {
			return
		}
	}
}

// isOpen tells whether the object is being written.
func (r *record) isOpen() bool { return r.list == listOpen }

// node returns the node of a record or a unit.
func (s *state) node(n name) *node {
	if s.isUnit(n) {
		return &s.unit(n).node
	}
	return &s.record(n).node
}

func (s *state) isUnit(n name) bool { return s.arena.spans[n/spanGranules].kind == kindUnit }
