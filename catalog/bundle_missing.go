package catalog

import "mooncake/bundle"

// MissMembers notes that a published bundle misses members which its manifest names: they were never written, or under another
// size. From now on it is damaged, as when they had gone with their segments. The manifest is told by the id of a copy of it;
// when that is not there any more, or the bundle went on meanwhile, nothing happens and the answer is false.
func (c *Catalog) MissMembers(now Time, id string, manifest uint64, missing int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	bn := c.s.findBundle(id + "/")
	if bn == 0 || missing < 1 {
		return false
	}
	b := c.s.bundle(bn)
	if state := c.stateOf(b, now); state != BundlePublished && state != BundleReading || !c.s.hasManifest(b, manifest) {
		return false
	}
	c.begin()
	change := c.s.bundleChange(b)
	change.Time, change.Key = now, c.keep(change.Key)
	change.Bundle.Lost += uint32(missing)
	c.changes = append(c.changes, change)
	c.commit()
	return true
}

// hasManifest tells whether a copy is one of a bundle's complete manifest.
func (s *state) hasManifest(b *bundleRecord, copy uint64) bool {
	for m := b.head; m != 0; m = s.record(m).bundleNext {
		r := s.record(m)
		if r.part != bundle.Manifest || !r.done {
			continue
		}
		for rn := m; rn != 0; rn = s.replica(rn).more {
			if s.replica(rn).id == copy {
				return true
			}
		}
	}
	return false
}
