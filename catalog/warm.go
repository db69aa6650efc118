package catalog

import (
	"unsafe"

	"mooncake/internal/limits"
)

// Warm brings what look-ups of some keys will touch near the processor, that of all keys at once: a look-up alone waits for
// main memory again and again, one wait after the other, and of the first limits.CatalogWarmKeys keys all waits are one. It
// changes nothing, and knows nothing about the keys afterwards.
func (c *Catalog) Warm(keys []string) {
	if len(keys) < 2 || c.s.arena.held.Load() < limits.CatalogWarmBytes {
		return
	}
	var hashes [limits.CatalogWarmKeys]uint64
	keys = keys[:min(len(keys), len(hashes))]
	for i, key := range keys {
		hash := c.s.hash(key)
		hashes[i] = hash
		sh := c.s.shard(hash)
		sh.mu.RLock()
		if slots := sh.table.slots; len(slots) > 0 {
			prefetch(unsafe.Pointer(&slots[int(uint32(hash))&(len(slots)-1)]))
		}
		sh.mu.RUnlock()
	}
	for i := range keys {
		sh := c.s.shard(hashes[i])
		sh.mu.RLock()
		if n, _ := sh.table.first(hashes[i]); n != 0 {
			at := c.s.arena.at(n)
			for line := 0; line < recordBytes+len(keys[i]); line += cacheLine {
				prefetch(unsafe.Add(at, line))
			}
		}
		sh.mu.RUnlock()
	}
}

const cacheLine = 64
