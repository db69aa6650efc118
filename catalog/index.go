package catalog

import (
	"sync"

	"mooncake/internal/limits"
)

// A shard is one part of the index of keys. Many shards make growing cheap: doubling one table takes a tenth of a
// millisecond at ten million keys. The lock guards the table and everything that readers look at in its records.
type shard struct {
	mu    sync.RWMutex
	table table
	_     [8]byte // fills a cache line
}

func shardOf(hash uint64) uint64 { return hash >> (64 - limits.CatalogShardBits) }

// A table is a hash table with open addressing. A slot is a 32-bit tag and a name; 0 is an empty slot. The tag's low
// bits are the slot's home, so the table grows without looking at a key; the rest of the tag makes false hits rare.
type table struct {
	slots []uint64
	count int
}

const (
	tableSlotsMin = 16
	// A table grows at 4/5 full and shrinks at 1/8, so it cannot flap between the two.
	tableGrowNum, tableGrowDen = 4, 5
	tableShrinkDen             = 8
)

// first returns the first name stored under the hash's tag, and where to go on from; 0 when there is none.
func (t *table) first(hash uint64) (name, int) {
	if len(t.slots) == 0 {
		return 0, 0
	}
	return t.scan(uint32(hash), int(uint32(hash)))
}

// next goes on behind a name that turned out to belong to another key.
func (t *table) next(hash uint64, at int) (name, int) { return t.scan(uint32(hash), at+1) }

func (t *table) scan(tag uint32, at int) (name, int) {
	mask := len(t.slots) - 1
	for {
		at &= mask
		slot := t.slots[at]
		if slot == 0 {
			return 0, 0
		}
		if uint32(slot>>32) == tag {
			return name(slot), at
		}
		at++
	}
}

// insert stores a name that is not in the table yet.
func (t *table) insert(hash uint64, n name) {
	if (t.count+1)*tableGrowDen > len(t.slots)*tableGrowNum {
		t.resize(max(tableSlotsMin, 2*len(t.slots)))
	}
	t.place(uint64(uint32(hash))<<32 | uint64(n))
	t.count++
}

func (t *table) place(slot uint64) {
	mask := len(t.slots) - 1
	at := int(slot>>32) & mask
	for t.slots[at] != 0 {
		at = (at + 1) & mask
	}
	t.slots[at] = slot
}

// remove takes out a name. What stands behind it moves up, so a table never fills with tombstones.
func (t *table) remove(hash uint64, n name) bool {
	if len(t.slots) == 0 {
		return false
	}
	mask := len(t.slots) - 1
	hole := int(uint32(hash)) & mask
	for want := uint64(uint32(hash))<<32 | uint64(n); t.slots[hole] != want; hole = (hole + 1) & mask {
		if t.slots[hole] == 0 {
			return false
		}
	}
	for at := (hole + 1) & mask; t.slots[at] != 0; at = (at + 1) & mask {
		home := int(t.slots[at]>>32) & mask
		if (at-home)&mask >= (at-hole)&mask {
			t.slots[hole] = t.slots[at]
			hole = at
		}
	}
	t.slots[hole] = 0
	t.count--
	if len(t.slots) > tableSlotsMin && t.count*tableShrinkDen < len(t.slots) {
		t.resize(len(t.slots) / 2)
	}
	return true
}

func (t *table) resize(slots int) {
	old := t.slots
	t.slots = make([]uint64, slots)
	for _, slot := range old {
		if slot != 0 {
			t.place(slot)
		}
	}
}
