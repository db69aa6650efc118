package catalog

import (
	"fmt"
	"math"
)

// A UUID names a client or a segment.
type UUID struct{ Hi, Lo uint64 }

// String prints the two halves in decimal, as the published clients do.
func (u UUID) String() string { return fmt.Sprintf("%d-%d", u.Hi, u.Lo) }

// Time is milliseconds on the caller's clock. It never goes back.
type Time int64

// Never is later than every other Time.
const Never Time = math.MaxInt64

// Config sets the rules of a Catalog. The zero value of a field means what its comment says.
type Config struct {
	LeaseMs      int64 // how long a read protects an object; 0 protects nothing
	SoftPinMs    int64 // life of a soft pin whose request names none
	MaxSoftPinMs int64 // longest life of a soft pin that a request may name; 0 refuses any
	ClientTTLMs  int64 // silence after which a client with segments is gone; 0 never
	PutDiscardMs int64 // age from which another put may take over an unfinished object
	PutReleaseMs int64 // age at which an unfinished object goes and its range is free; also the quarantine of ranges; 0 never

	EvictionRatio        float64 // share of the capacity that the background eviction frees below the watermark
	HighWatermark        float64 // share of the capacity above which the background eviction starts; 0 never
	AllowEvictSoftPinned bool    // soft pinned objects may go when nothing else can

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
}

// SegmentInfo is a mounted segment and its owner. It never changes once handed out.
type SegmentInfo struct {
	Segment
	Client UUID
}

// States of segments, numbered as on the wire.
const (
	SegmentOK uint8 = 1
)

// SegmentStatus is a segment as the admin view shows it.
type SegmentStatus struct {
	SegmentInfo
	Used        uint64 // bytes of replicas
	Quarantined uint64 // bytes of ranges that are neither free nor part of a replica
	LargestFree uint64
	ObjectCount uint64 // replicas on it
	Status      uint8
}

// States of replicas, numbered as on the wire.
const (
	ReplicaProcessing uint8 = 2
	ReplicaComplete   uint8 = 3
)

// Selectors of replicas by type, numbered as on the wire. The catalog holds memory replicas only.
const (
	ReplicaTypeMemory int32 = 0
	ReplicaTypeAll    int32 = 4
)

// A Replica is one copy of an object. Its address is Segment.Base + Offset.
type Replica struct {
	ID      uint64
	Segment *SegmentInfo
	Offset  uint64
	Size    uint64
	Status  uint8
}

// An Object is what a look-up tells of an object beside its replicas.
type Object struct {
	Size        uint64
	Checksum    uint64
	HasChecksum bool
	HardPin     bool
	DataType    uint8
	LeaseMs     int64 // granted by this read; 0 from Peek
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
	DataType      uint8
}

// Swept is what one Sweep found out.
type Swept struct {
	ExpiredClients []UUID
	LostSegments   []SegmentInfo // of the expired clients
	EvictedKeys    uint64
	EvictedBytes   uint64
	ReleasedPuts   uint64 // unfinished objects that went after PutReleaseMs
}

// Stats are the figures behind the metrics. The counters only grow.
type Stats struct {
	Keys           uint64 // records, unfinished ones included
	OpenKeys       uint64 // unfinished ones
	SoftPinnedKeys uint64
	Groups         uint64 // groups, and bundles without group, that have members
	Segments       uint64
	ActiveClients  uint64 // clients that remounted and ping

	CapacityBytes    uint64
	AllocatedBytes   uint64 // of all replicas
	QuarantinedBytes uint64 // ranges held back from a discarded or replaced write
	ArenaBytes       uint64 // memory of the records, which Go's heap figures do not show

	EvictionAttempts        uint64 // rounds, asked for by a put or by the watermark
	EvictionSuccesses       uint64 // rounds that freed something
	EvictedKeys             uint64
	EvictedBytes            uint64
	DiscardedPuts           uint64 // unfinished objects that another put took over
	ReleasedPuts            uint64 // unfinished objects dropped after PutReleaseMs
	PutStartAllocFailures   uint64
	PutStartPartialAllocs   uint64
	ExpiredClients          uint64
	QuarantineEarlyReleases uint64 // ranges given back before their time because a put needed room
}
