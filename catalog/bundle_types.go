package catalog

import "mooncake/bundle"

// A BundleState says how far a bundle has come.
type BundleState uint8

// The states of a bundle.
const (
	BundleNone       BundleState = iota
	BundleStaging                // being written: no manifest yet
	BundlePublished              // has its manifest
	BundleReading                // published, and somebody got an address less than a lease ago
	BundleReclaiming             // members of it were removed
	BundleReclaimed              // gone, but remembered
	BundleDamaged                // published, but members went with their segments
	BundleOrphan                 // payload that no manifest names: its writer is dead, or the manifest was removed
	BundleAborted                // gone before it was published, but remembered
	BundleAdopted                // its manifest was removed, and another one of its group may name its payload
	bundleStates
)

var bundleStateText = [bundleStates]string{
	"NONE", "STAGING", "PUBLISHED", "READING", "RECLAIMING", "RECLAIMED", "DAMAGED", "ORPHAN", "ABORTED", "ADOPTED",
}

// String names the state as the admin pages do.
func (s BundleState) String() string { return bundleStateText[min(s, bundleStates-1)] }

// ParseBundleState reads what String writes; BundleNone when it is none.
func ParseBundleState(text string) BundleState {
	for s, t := range bundleStateText {
		if t == text {
			return BundleState(s)
		}
	}
	return BundleNone
}

// A PartCount adds up the members of a bundle of one kind.
type PartCount struct {
	Keys, CompleteKeys   uint64
	Bytes, CompleteBytes uint64
}

// BundleInfo is a bundle as the admin view shows it. Times are 0 for what never happened.
type BundleInfo struct {
	ID     string // prefix/partition/uuid
	Group  string // of its first member; "" is none
	Writer UUID   // client that wrote last
	State  BundleState

	Created   Time // first start of a write
	LastWrite Time // latest start or end of one
	Published Time // the manifest was complete
	LastRead  Time // somebody last got the address of a member; only this leader knows
	Reclaimed Time // the last member went

	Payload, Meta, Manifest PartCount

	AllocatedBytes uint64 // of all replicas
	Keys           uint64 // members
	LostKeys       uint64 // complete members that went with their segments
	Reads          uint64 // times that it was READING; only this leader knows
	Evicted        bool   // went to make room
	Workload       string // "" is none
}

// A BundleMember is an object of a bundle.
type BundleMember struct {
	Key      string
	Part     bundle.Part
	Size     uint64
	Complete bool
	LastRead Time // somebody last got its address; only this leader knows
	Replicas []Replica
}

// A BundleFilter says which bundles are asked for; the zero value means all.
type BundleFilter struct {
	Prefix      string // of the id
	Partition   string // the part of the id before the uuid
	Group       string
	Workload    string
	State       BundleState // BundleNone is any
	OlderThanMs int64       // time since the creation
}

// A BundleTotal adds up the bundles of one workload in one state.
type BundleTotal struct {
	State     BundleState
	Workload  string
	Bundles   uint64
	Keys      uint64
	Bytes     uint64 // of their members
	Allocated uint64 // of the members' replicas
}

// BundleStats counts what became of bundles since the start.
type BundleStats struct {
	Bundles            uint64 // that have members now
	Published          uint64
	EvictedUnread      uint64 // published, read by nobody, evicted
	EvictedUnreadBytes uint64
	Collected          uint64 // of dead or idle writers, or never finished being reclaimed
	CollectedBytes     uint64
	Retired            uint64 // by a retention rule
	RetiredBytes       uint64
	LateWrites         uint64 // puts refused because the catalog had given up their bundle
}

// BundleNews is what became of bundles since the last Sweep. Lists are cut at limits.BundleNews.
type BundleNews struct {
	EvictedUnread []BundleInfo // as they were
	Collected     []BundleInfo // as they were
	Retired       []BundleInfo // as they were
	Published     []BundleTime // from the first write to the publication
	HandedOff     []BundleTime // from the publication to the first read
}

// A BundleTime is how long a step of a bundle took.
type BundleTime struct {
	ID       string
	Workload string
	Ms       int64
}

// A RetentionRule lets published bundles go by themselves, unless somebody reads them at the moment. Of several rules whose
// prefixes fit, the longest counts.
type RetentionRule struct {
	Prefix   string // of the id
	MaxAgeMs int64  // since the publication; 0 for ever
	MaxCount int    // bundles with the same prefix and partition, the youngest are kept; 0 is any number
}
