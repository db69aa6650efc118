package catalog

import (
	"slices"
	"strings"
)

// A ChangeKind says what a Change does.
type ChangeKind uint8

// The kinds of changes.
const (
	// ChangeMount adds Segment, owned by Client.
	ChangeMount ChangeKind = iota + 1
	// ChangeUnmount takes the segment Segment.ID away with every replica and quarantined range on it.
	ChangeUnmount
	// ChangePut creates Key with Replicas, unfinished. If Staged is set, a complete object of that key stays in sight until
	// ChangeEnd puts the new one in its place.
	ChangePut
	// ChangeEnd completes Replicas of Key and commits the soft pin asked for by the write. The ranges of the object that it
	// takes the place of go as with ChangeDrop.
	ChangeEnd
	// ChangeReopen makes the complete Replicas of Key unfinished again, for Client to write over.
	ChangeReopen
	// ChangeDrop takes Replicas of Key away, and Key itself with the last of them. Their ranges are free at once, or go
	// into quarantine until Until.
	ChangeDrop
	// ChangeRelease ends the quarantine of the ranges in Replicas.
	ChangeRelease
	// ChangeWorkloads replaces all rules by Workloads.
	ChangeWorkloads
	// ChangeCount says that the ids of replicas below Replicas[0].ID are used up. Only snapshots have it.
	ChangeCount
	// ChangeHold puts the free range Replicas[0] into quarantine until Until, for the write that Client began at Time if
	// there is one. Snapshots have it, and leaders who close the windows of the one before.
	ChangeHold
	// ChangeBundle says what the members of the bundle Key do not tell of it: in snapshots, and when some are found missing.
	ChangeBundle
	// ChangeWindow opens the windows Replicas instead of those with the same ids on the same segments; an empty one closes. In
	// a window ranges are given to writers before the log has them.
	ChangeWindow
	// ChangeSegment puts the segment Segment.ID into State, until Until if that is limited, with Key as a note.
	ChangeSegment
	// ChangeDisk says that Key has a copy on disk, Replicas[0], kept by the client Replicas[0].Segment and served at Group, or
	// as a file that all share. If Staged is set, Client is still writing it. It replaces the former copy of that owner.
	ChangeDisk
	// ChangeDiskDrop takes away the copies of Key that Replicas name by their owners.
	ChangeDiskDrop
	// ChangePin gives Key a soft pin until PinnedUntil instead of the one that it has; 0 is none.
	ChangePin
	// ChangeSum gives Key the Sum that was found in Replicas[0], a complete replica of it.
	ChangeSum
	// ChangeClear takes every object away whose first replica has an id below Below, but for those whose first replica is in
	// Replicas. Their ranges are free at once, or go into quarantine until Until: all that is neither free nor of an object that stays,
	// in pieces of Size. Replicas without an id name the ranges to which that is limited, if there are any.
	ChangeClear
)

// A Cause says why replicas were dropped. Applying a Change looks at it only for what becomes of a bundle.
type Cause uint8

// The causes of a ChangeDrop.
const (
	CauseRemove Cause = iota + 1
	CauseRevoke
	CauseEvict
	CauseDiscard // an unfinished object, taken over by another put
	CauseRelease // an unfinished object whose time was up
	CauseUpsert  // replaced by another value
	CauseDead    // an unfinished object whose writer is known to be dead
	CauseAbort   // an unfinished object, removed by force
	CauseLost    // every copy was lost, and the key was written or removed
	CauseExpire  // the time that its workload gives it is over
	CauseReclaim // a bundle that was taken away whole
	CauseDamage  // somebody may have written over it, and the record of that is lost
	CauseWindow  // ChangeHold: free, but a former leader may have given it away
	CausePromote // no end: with ChangeEnd, the value came from disk and is the one that lies there
	CauseCorrupt // its bytes are not what they were; with ChangeHold: such a range, of the former object Key
)

// A ReplicaChange names a replica and its exact range.
type ReplicaChange struct {
	ID      uint64
	Segment UUID
	Offset  uint64
	Size    uint64
}

// A Change is one step of the catalog's history, complete in itself: applying it needs neither clock nor chance. Which
// fields count depends on Kind.
type Change struct {
	Kind     ChangeKind
	Cause    Cause
	DataType uint8
	// SoftPin and SoftPinTTLMs are carried by the write and take effect at its ChangeEnd.
	SoftPin      uint8
	HardPin      bool
	Staged       bool     // ChangePut: beside the object that it will replace
	Copy         CopyKind // ChangePut: the ranges are for copies of the object
	State        uint8    // ChangeSegment
	Wanted       uint8    // ChangePut: how many replicas there are to be; 0 is as many as Replicas. ChangeEnd of a copy: from now on, if more
	HasChecksum  bool     // ChangeEnd: Checksum is the object's
	KeepChecksum bool     // ChangeEnd: leave the object's checksum and sum as they are
	HasSum       bool     // ChangeEnd, ChangeSum: Sum is the object's
	Sum          uint32
	Time         Time // when it was decided
	Until        Time // ChangeDrop, ChangeEnd: end of the quarantine; 0 is none
	HandedOut    Time // with Until: when a reader last got the address; Never if a writer may be at work
	PinnedUntil  Time // ChangePut: soft pin taken over from the object that it replaces; ChangePin
	SoftPinTTLMs int64
	Client       UUID
	Key          string
	Group        string
	Tenant       string // ChangePut
	Size         uint64
	Checksum     uint64
	Source       uint64 // ChangePut with Copy: the replica that is copied
	Below        uint64 // ChangeClear
	Replicas     []ReplicaChange
	Segment      *Segment
	Workloads    []Workload    // ChangeWorkloads
	Bundle       *BundleChange // ChangeBundle
}

// A BundleChange is what a bundle has been through.
type BundleChange struct {
	Created, LastWrite, Published, Touched Time
	Reads, Lost                            uint32
	Facts, Copies                          uint8
}

// Clone returns a copy that shares nothing with the catalog. What OnChange passes is valid only until it returns.
func (c *Change) Clone() Change {
	d := *c
	d.Key = strings.Clone(c.Key)
	d.Group = strings.Clone(c.Group)
	d.Tenant = strings.Clone(c.Tenant)
	d.Replicas = slices.Clone(c.Replicas)
	if c.Segment != nil {
		s := *c.Segment
		d.Segment = &s
	}
	d.Workloads = cloneWorkloads(c.Workloads)
	if c.Bundle != nil {
		b := *c.Bundle
		d.Bundle = &b
	}
	return d
}
