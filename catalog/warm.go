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
		sh.table.prefetch(hash)
		sh.mu.RUnlock()
	}
	for i, key := range keys {
		sh := c.s.shard(hashes[i])
		sh.mu.RLock()
		c.s.prefetchRecord(sh, hashes[i], key)
		sh.mu.RUnlock()
	}
}

// Warm is Catalog.Warm for who decides about the keys in this turn, one after the other in their order. There says that most of
// them exist. The hashes are kept until the turn ends, and so must the keys be.
func (t Turn) Warm(keys []string, there bool) {
	s := t.c.s
	keys = keys[:min(len(keys), limits.CatalogWarmKeys)]
	s.hashed.keys, s.hashed.at = keys, 0
	if len(keys) == 0 {
		return
	}
	list := &s.hashed.list
	for i, key := range keys {
		list[i] = s.hash(key)
		prefetch(unsafe.Pointer(s.shard(list[i])))
	}
	if len(keys) < 2 || s.arena.held.Load() < limits.CatalogWarmBytes {
		return
	}
	// Tables and records change in a turn only, so nothing is locked.
	for i := range keys {
		s.shard(list[i]).table.prefetch(list[i])
	}
	if !there {
		return
	}
	for i, key := range keys {
		s.prefetchRecord(s.shard(list[i]), list[i], key)
	}
}

// prefetch asks for the slot where the search for a hash begins.
func (t *table) prefetch(hash uint64) {
	if len(t.slots) > 0 {
		prefetch(unsafe.Pointer(&t.slots[int(uint32(hash))&(len(t.slots)-1)]))
	}
}

// prefetchRecord asks for the record that a key probably has. The caller holds Catalog.mu or the shard's lock.
func (s *state) prefetchRecord(sh *shard, hash uint64, key string) {
	n, _ := sh.table.first(hash)
	if n == 0 {
		return
	}
	at := s.arena.at(n)
	for line := 0; line < recordBytes+len(key); line += cacheLine {
		prefetch(unsafe.Add(at, line))
	}
}

const cacheLine = 64

// hashed are the hashes of the keys that the turn under way decides about, so that none is computed for each of the look-ups
// that a decision makes. They belong to the holder of Catalog.mu.
type hashed struct {
	keys []string
	list [limits.CatalogWarmKeys]uint64
	at   int // the key looked up last
	one  [1]string
}

// expect begins a decision about a key: its hash is kept, or found among those that are kept, behind keys that were refused before
// anybody looked them up.
func (h *hashed) expect(s *state, key string) {
	if len(h.keys) < 2 {
		h.one[0] = key
		h.keys, h.at, h.list[0] = h.one[:], 0, s.hash(key)
		return
	}
	at := h.at
	for range h.keys {
		if sameText(h.keys[at], key) {
			h.at = at
			return
		}
		if at++; at == len(h.keys) {
			at = 0
		}
	}
}

// sameText tells whether two keys are the same bytes at the same place.
func sameText(a, b string) bool {
	return len(a) == len(b) && unsafe.StringData(a) == unsafe.StringData(b)
}

// forget ends the turn.
func (h *hashed) forget() { h.keys, h.one[0] = nil, "" }

// hashOf is hash for the writer. A kept key is known by where its bytes are: the turn holds on to them, so nothing else is there.
func (s *state) hashOf(key string) uint64 {
	h := &s.hashed
	for at := h.at; at < min(h.at+2, len(h.keys)); at++ { // this one, or the next
		if sameText(h.keys[at], key) {
			h.at = at
			return h.list[at]
		}
	}
	return s.hash(key)
}
