package wire

import (
	"fmt"
	"strconv"
)

// Void is the value of an expected that carries none.
type Void = struct{}

// Opt is a value that may be absent: an optional, or a compatible field that only newer releases write.
type Opt[T any] struct {
	Set   bool
	Value T
}

// Some is a present value.
func Some[T any](v T) Opt[T] { return Opt[T]{Set: true, Value: v} }

// Exp is a value or an error: Err 0 means that Value is there.
type Exp[T any, E ~int32 | ~uint8] struct {
	Value T
	Err   E
}

// Refused tells whether there is an error instead of a value, and the name of its code.
func (e *Exp[T, E]) Refused() (code string, refused bool) {
	if e.Err == 0 {
		return "", false
	}
	if named, ok := any(e.Err).(fmt.Stringer); ok {
		return named.String(), true
	}
	return strconv.Itoa(int(e.Err)), true
}

// MapEntry is one pair of a map; maps are slices of pairs so that their order survives.
type MapEntry[K, V any] struct {
	Key   K
	Value V
}

// ReplicaVariant says where a replica lies. Index (a Variant constant) names the one description that counts. Memory, by
// far the usual one, is held in place; the others are nil unless they are named.
type ReplicaVariant struct {
	Index     uint8
	Memory    MemoryDescriptor
	NoF       *NoFDescriptor
	Disk      *DiskDescriptor
	LocalDisk *LocalDiskDescriptor
	DFS       *DistributedFSDescriptor
}

// Values of ReplicaVariant.Index.
const (
	VariantMemory    uint8 = iota // in a memory segment
	VariantNoF                    // on an NVMe-over-fabrics device
	VariantDisk                   // in a file that everyone can open
	VariantLocalDisk              // on one client's own disk
	VariantDFS                    // in a distributed file system; unknown to V12
)

// unknownValue names an enum value that no known release has.
func unknownValue(enum string, v int64) string { return enum + "(" + strconv.FormatInt(v, 10) + ")" }
