package catalog

import (
	"fmt"
	"math"

	"mooncake/internal/limits"
)

// A UUID names a client or a segment.
type UUID struct{ Hi, Lo uint64 }

// String prints the two halves in decimal, as the published clients do.
func (u UUID) String() string { return fmt.Sprintf("%d-%d", u.Hi, u.Lo) }

// Time is milliseconds on the caller's clock, which never goes back: since 1970, from limits.AgeEpochMs to TimeMax, or from a
// start of its own.
type Time int64

// TimeMax is the last Time by which the eviction can order what it finds, in 2039.
const TimeMax Time = limits.AgeEpochMs + (1<<32-2)*limits.AgeBucketMs - 1

// Never is later than every other Time.
const Never Time = math.MaxInt64

// Config sets the rules of a Catalog. The zero value of a field means what its comment says.
type Config struct {
	LeaseMs      int64 // how long a read protects an object; 0 protects nothing
	SoftPinMs    int64 // life of a soft pin whose request names none
	MaxSoftPinMs int64 // longest life of a soft pin that a request may name; 0 refuses any

	// How long a client with segments may be silent before its stage changes; see Stage.
	SuspectMissedPingsMs int64 // StageSuspect; 0 never by silence alone
	ResumeGraceMs        int64 // the least time until StageSuspected that Resume gives
	ClientActiveTTLMs    int64 // StageSuspected; 0 never, and then never any later stage
	ClientSuspicionTTLMs int64 // StageLost, counted from StageSuspected
	ClientLostTTLMs      int64 // StageGone, counted from StageLost

	PutDiscardMs int64 // age from which another put may take over an unfinished object
	PutReleaseMs int64 // age at which an unfinished object goes and its range is free; 0 never

	WriterQuarantineMs int64 // how long the range of a write stays untouched after its writer is known to be dead

	// BundleStagingIdleMs is how long nothing may happen to a bundle that is being written, or reclaimed, before what there
	// is of it goes; 0 for ever.
	BundleStagingIdleMs int64
	HideDamagedBundles  bool            // the manifest of a bundle that lost members is absent for readers
	Retention           []RetentionRule // published bundles that go by themselves

	EvictionRatio        float64 // share of the capacity that the background eviction frees below the watermark
	HighWatermark        float64 // share of the capacity above which the background eviction starts; 0 never
	AllowEvictSoftPinned bool    // soft pinned objects may go when nothing else can

	// Clients keep copies of objects on their disks. OffloadOnEvict copies what would be evicted, instead of everything that is
	// written; what cannot be copied then stays, or with OffloadForce goes all the same.
	Offload         bool
	OffloadOnEvict  bool
	OffloadForce    bool
	OffloadQueueMax int     // objects that wait for one client
	OffloadCapRatio float64 // share of that which one round of eviction may add

	// PromoteOnHit brings back what is read PromoteThreshold times and is on the disk of one client only.
	PromoteOnHit     bool
	PromoteThreshold uint8
	PromoteQueueMax  int
	PromotePerBeat   int

	// Sums has objects that are complete listed by TakeUnsummed.
	Sums bool

	TenantWatermark   float64 // share of a tenant's quota above which its oldest objects go; 0 never
	TenantsEvictOnPut bool    // a put beyond its tenant's quota evicts the tenant's own objects; else it is refused

	Seed uint64 // of the dice that choose segments
}

// A Segment is a range of a client's memory, given to the cluster.
type Segment struct {
	ID       UUID
	Name     string // what preferred segments and the admin view mean; need not be unique
	Base     uint64 // address of the first byte in the client
	Size     uint64
	Endpoint string // where the transfer engine reaches it
	Protocol string
	HostID   string
	Locality string // which part of its machine it is close to, as its client and those who read it understand it
}

// SegmentInfo is a mounted segment and its owner. It never changes once handed out.
type SegmentInfo struct {
	Segment
	Client UUID
}

// SegmentStatus is a segment as the admin view shows it.
type SegmentStatus struct {
	SegmentInfo
	Used        uint64 // bytes of replicas
	Quarantined uint64 // bytes of ranges that are neither free nor part of a replica
	Reading     uint64 // those of them that wait for readers only
	LargestFree uint64
	ObjectCount uint64 // replicas on it
	Status      uint8
	Note        string // of whoever set the state
	Stage       Stage  // of its client
}

// A Stage says how sure the catalog is that a client lives. It is decided in Sweep by the client's silence, and a ping,
// mount or remount makes every client active again, with all that is left of it.
type Stage uint8

// The stages of a client.
const (
	// StageActive serves.
	StageActive Stage = iota
	// StageSuspect missed pings, or did not answer a probe. Its segments get new ranges only when no other segment can
	// serve, and its copies are named to readers only when there is no other.
	StageSuspect
	// StageSuspected is silent for so long that readers are kept away: its copies answer ErrNotReady.
	StageSuspected
	// StageLost is out of all counts and lists; its copies are absent. Its records are kept, so that it gets everything
	// back when it returns.
	StageLost
	// StageGone is forgotten.
	StageGone
)

// String names the stage for people.
func (s Stage) String() string {
	return [...]string{"active", "suspect", "suspected", "lost", "gone"}[min(s, StageGone)]
}

// States of replicas, numbered as on the wire.
const (
	ReplicaProcessing uint8 = 2
	ReplicaComplete   uint8 = 3
)

// Selectors of replicas by type, numbered as on the wire. A copy of the type local disk is never written to by calls of this kind.
const (
	ReplicaTypeMemory int32 = 0
	ReplicaTypeDisk   int32 = 1
	ReplicaTypeAll    int32 = 4
)

// A Replica is one copy of an object. In memory its address is Segment.Base + Offset; on disk it has no segment.
type Replica struct {
	ID      uint64
	Segment *SegmentInfo
	Offset  uint64
	Size    uint64
	Status  uint8
	Disk    *DiskCopy // nil in memory
}

// An Object is what a look-up tells of an object beside its replicas.
type Object struct {
	Size        uint64
	Checksum    uint64
	HasChecksum bool
	HardPin     bool
	DataType    uint8
	LeaseMs     int64 // granted by this read; 0 from Peek
	OnDisk      bool  // nothing is readable in memory
	HasSum      bool  // Sum is known
	Sum         uint32
}

// Requests about the soft pin of an object, numbered as on the wire.
const (
	SoftPinPreserve uint8 = 0
	SoftPinEnable   uint8 = 1
	SoftPinDisable  uint8 = 2
)

// PutOptions is what a put or upsert asks for beside key and size.
type PutOptions struct {
	Replicas      uint64   // copies wanted, on distinct segments; at least one is made or the put fails
	SoftPin       uint8    // takes effect when the write completes
	SoftPinTTLMs  int64    // with SoftPinEnable, if SoftPinTTLSet; 0 clears the pin
	SoftPinTTLSet bool     //
	HardPin       bool     // never evict
	Preferred     []string // names of segments to try first, in order
	SameHost      bool     // with one replica: segments of the writer's host first
	HostID        string   // the writer's host; "" means the one it mounted with
	Group         string   // "" is no group
	Tenant        string   // for whom the call was made; "" is "default"
	File          bool     // the writer makes a file that all share as well
	DataType      uint8
	// After is set by a start that succeeds: nobody may be told of its ranges before the log is durable up to that number.
	After uint64
}

// A Departure is the end of a client that is known to be dead. What it begins after At belongs to another life.
type Departure struct {
	Client UUID
	At     Time
}

// Swept is what one Sweep found out.
type Swept struct {
	SuspectClients   []UUID         // now StageSuspect
	SuspectedClients []UUID         // now StageSuspected
	LostClients      []UUID         // now StageLost
	GoneClients      []UUID         // StageGone, now or since the last Sweep
	LostSegments     []*SegmentInfo // of GoneClients
	LeftSegments     []*SegmentInfo // whose grace time was over
	EvictedKeys      uint64
	EvictedBytes     uint64
	ReleasedPuts     uint64 // unfinished objects that went after PutReleaseMs
	AbortedPuts      uint64 // unfinished objects of GoneClients
	ExpiredKeys      uint64 // of workloads with a TTL
	ExpiredBytes     uint64
	Bundles          BundleNews
}

// Stats are the figures behind the metrics. The counters only grow.
type Stats struct {
	Keys           uint64 // objects, unfinished ones included, lost ones not
	OpenKeys       uint64 // unfinished ones
	SoftPinnedKeys uint64
	Groups         uint64 // groups, and bundles without group, that have members
	Segments       uint64 // lost ones not included

	ActiveClients    uint64 // clients that remounted and are StageActive or StageSuspect
	SuspectClients   uint64 // clients in StageSuspect; each of these three whether it remounted or not
	SuspectedClients uint64
	LostClients      uint64

	CapacityBytes    uint64 // of all segments but the lost ones
	AllocatedBytes   uint64 // of all replicas on them
	QuarantinedBytes uint64 // ranges that belong to nobody and may still be read or written
	LostBytes        uint64 // of replicas on lost segments
	LostKeys         uint64 // objects of which every replica is lost; exact after the next Sweep
	CorruptBytes     uint64 // of ranges whose bytes did not stay what they were; QuarantinedBytes has them too
	CorruptRanges    uint64
	ArenaBytes       uint64 // memory of the records, which Go's heap figures do not show

	EvictionAttempts      uint64 // rounds, asked for by a put or by the watermark
	EvictionSuccesses     uint64 // rounds that freed something
	EvictedKeys           uint64
	EvictedBytes          uint64
	DiscardedPuts         uint64 // unfinished objects that another put took over
	ReleasedPuts          uint64 // unfinished objects dropped after PutReleaseMs
	PutStartAllocFailures uint64
	PutStartPartialAllocs uint64
	AbortedPuts           uint64 // unfinished objects of writers known to be dead, or removed by force
	ExpiredClients        uint64 // clients that are gone
	RecoveredClients      uint64 // returns of clients that were StageSuspected or StageLost
	CorruptCopies         uint64 // replicas whose bytes did not stay what they were
	CorruptObjects        uint64 // objects that went because there was no other replica
	HandOutReuses         uint64 // ranges reused although a reader may still be at them, because a put needed room
	Bundles               BundleStats
	Disks                 DiskStats
	Refusals              Refusals
}

// Refusals counts the puts that got ErrNoSpace by what most of the memory was kept for.
type Refusals struct {
	Leased     uint64 // objects that were read a moment ago
	Pinned     uint64 // hard pinned objects, soft pinned ones unless those may go, and workloads that evict never
	InFlight   uint64 // objects and bundles being written, and what dead writers left
	Quota      uint64 // the hard limit of the put's workload
	Reserved   uint64 // what other workloads reserved
	UnreadKept uint64 // bundles that nobody has read yet, of workloads that keep them
	OwnBundle  uint64 // earlier members of the put's own bundle or group
	NoSegment  uint64 // no segment is large enough, or none accepts anything
}
