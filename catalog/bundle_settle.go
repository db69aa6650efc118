package catalog

import (
	"hash/maphash"
	"sync/atomic"

	"mooncake/bundle"
	"mooncake/internal/limits"
)

// settleBundle brings what its unit counts of a bundle, its list and the mark on its manifest up to date, after something
// about it changed.
func (s *state) settleBundle(bn name) {
	b := s.bundle(bn)
	unit := b.unit
	if b.head != 0 && (unit == 0 || b.facts&factKnotted != 0) {
		unit = s.record(b.head).unit
	}
	shows := s.showsOf(b)
	if shows != b.shows || unit != b.unit {
		old := b.unit
		s.show(old, b.shows, -1)
		b.unit, b.shows = unit, shows
		s.show(unit, shows, 1)
		if old != 0 && old != unit {
			s.settleUnit(old)
		}
		if unit != 0 {
			s.settleUnit(unit)
		}
	}
	list := bundleListNone
	switch {
	case b.members == 0:
		list = bundleListEnded
	case s.abandoned(b):
		list = bundleListIdle
	}
	if list != b.list {
		s.delistBundle(bn)
		s.enlistBundle(bn, list)
	}
	if b.lost > 0 && b.manifests() > 0 && b.facts&factTorn == 0 {
		s.tearBundle(b)
	}
}

// showsOf tells what the unit of a bundle has to count of it.
func (s *state) showsOf(b *bundleRecord) (shows uint8) {
	if b.members == 0 {
		return 0
	}
	shows = showMember
	switch staging := b.published == 0; {
	case b.facts&(factCut|factCollected) != 0, staging && b.deadAt != 0, !staging && b.lost > 0 && b.facts&factRead != 0:
		shows |= showSpent
	case staging:
		shows |= showStaging
	case b.manifests() > 0 && b.facts&factRead == 0:
		shows |= showUnread
	}
	return shows
}

// show adds to or takes from the counts of a unit.
func (s *state) show(un name, shows uint8, by int32) {
	if un == 0 {
		return
	}
	u := s.unit(un)
	for _, c := range [...]struct {
		bit   uint8
		count *uint32
	}{{showMember, &u.bundles}, {showStaging, &u.staging}, {showUnread, &u.unread}, {showSpent, &u.spent}} {
		if shows&c.bit != 0 {
			*c.count += uint32(by)
		}
	}
}

// abandoned tells whether a bundle is to be collected unless something happens to it. Payload that once had a manifest is,
// if it was being reclaimed, or if its group shows that no other manifest names it.
func (s *state) abandoned(b *bundleRecord) bool {
	if b.published == 0 || b.facts&(factCut|factCollected) != 0 {
		return true
	}
	return s.unlisted(b) && s.grouped(b) && !s.adopted(b)
}

// unlisted tells whether the manifest of a bundle was removed, and its payload was not.
func (s *state) unlisted(b *bundleRecord) bool {
	return b.members > 0 && b.facts&factUnlisted != 0 && b.manifests() == 0
}

// grouped tells whether all members of a bundle have a group.
func (s *state) grouped(b *bundleRecord) bool {
	for m := b.head; m != 0; m = s.record(m).bundleNext {
		if un := s.record(m).unit; un == 0 || !s.unit(un).group {
			return false
		}
		if b.facts&factKnotted == 0 {
			return true // they are all of one
		}
	}
	return true
}

// adopted tells whether a bundle has no manifest of its own any more, and another of its group may name its payload.
func (s *state) adopted(b *bundleRecord) bool {
	if !s.unlisted(b) {
		return false
	}
	for m := b.head; m != 0; m = s.record(m).bundleNext {
		if un := s.record(m).unit; un != 0 && s.unit(un).group && s.unit(un).manifests > 0 {
			return true
		}
		if b.facts&factKnotted == 0 {
			return false
		}
	}
	return false
}

// settleMember lets a bundle count a member as complete or not, after its replicas changed.
func (s *state) settleMember(n name) {
	r := s.record(n)
	s.countDone(n, !r.isOpen())
	b := s.bundle(r.bundle)
	if r.done && r.part == bundle.Manifest {
		b.facts &^= factTorn // of another record, if of any
		if b.published == 0 {
			atomic.StoreInt64(&b.published, max(r.time, 1))
		}
	}
	s.settleBundle(r.bundle)
}

// countDone counts a member as complete or not.
func (s *state) countDone(n name, done bool) {
	r := s.record(n)
	if r.done == done {
		return
	}
	r.done = done
	sum := &s.bundle(r.bundle).sums[partOf(r.part)]
	if done {
		sum.done++
		sum.doneBytes += r.size
	} else {
		sum.done--
		sum.doneBytes -= r.size
	}
}

// writeBundle notes the start or end of a write.
func (s *state) writeBundle(bn name, at Time) {
	b := s.bundle(bn)
	b.lastWrite = max(b.lastWrite, int64(at))
	s.touchBundle(bn, at)
	if b.deadAt != 0 { // its writer came to life again
		b.deadAt = 0
		s.settleBundle(bn)
	}
}

// touchBundle notes that something happened to a bundle.
func (s *state) touchBundle(bn name, at Time) {
	b := s.bundle(bn)
	if int64(at) <= b.touched {
		return
	}
	b.touched = int64(at)
	if b.list == bundleListIdle && b.next != 0 {
		s.delistBundle(bn)
		s.enlistBundle(bn, bundleListIdle)
	}
}

// tieBundle notes the unit of a new member. A bundle with members in several units ties those together.
func (s *state) tieBundle(bn, n name) {
	b, un := s.bundle(bn), s.record(n).unit
	switch {
	case un == 0:
	case b.facts&factKnotted != 0:
		s.unit(un).knots++
	case b.unit != 0 && un != b.unit:
		b.facts |= factKnotted
		for m := b.head; m != 0; m = s.record(m).bundleNext {
			if mu := s.record(m).unit; mu != 0 {
				s.unit(mu).knots++
			}
		}
	}
}

// tearBundle marks the manifest of a bundle that lost members, for readers to see.
func (s *state) tearBundle(b *bundleRecord) {
	b.facts |= factTorn
	for m := b.head; m != 0; m = s.record(m).bundleNext {
		r := s.record(m)
		if r.part != bundle.Manifest || !r.done {
			continue
		}
		sh := s.shard(s.hash(r.key()))
		sh.mu.Lock()
		r.flags |= flagTorn
		sh.mu.Unlock()
	}
}

// endBundle turns a bundle without members into a memory of it, and forgets those that are kept long enough, perhaps this
// one too: its record must not be used any more.
func (s *state) endBundle(bn name, at Time) {
	s.bundleCount--
	s.settleBundle(bn)
	b := s.bundle(bn)
	b.unit, b.head = 0, 0
	if b.nameBytes > limits.BundleTextBytes {
		s.forgetBundle(bn)
	}
	for s.ended.count > limits.BundleTombstones || s.ended.head != 0 && s.bundle(s.ended.head).touched+limits.BundleTombstoneMs < int64(at) {
		s.forgetBundle(s.ended.head)
	}
}

func (s *state) forgetBundle(bn name) {
	b := s.bundle(bn)
	s.delistBundle(bn)
	if s.recent == bn {
		s.recent = 0
	}
	s.owners.unref(b.client)
	hash := maphash.String(s.seed, b.prefix())
	s.bundleTable(hash).remove(hash, bn)
	s.arena.release(bn)
}

// pruneBundle takes off members whose segments are gone, until there is one that is not; false when there was none.
func (s *state) pruneBundle(bn name) bool {
	for {
		b := s.bundle(bn)
		if b.members == 0 {
			return false
		}
		last := b.members == 1
		if s.prune(b.head) {
			return true
		}
		if last {
			return false
		}
	}
}

// bundleList holds bundles in the order of the last Change about each.
type bundleList struct {
	head, tail name
	count      int
}

func (s *state) bundleListOf(list uint8) *bundleList {
	switch list {
	case bundleListIdle:
		return &s.idle
	case bundleListEnded:
		return &s.ended
	}
	return nil
}

func (s *state) enlistBundle(bn name, list uint8) {
	b := s.bundle(bn)
	b.list = list
	l := s.bundleListOf(list)
	if l == nil {
		return
	}
	before, after := l.tail, name(0)
	for before != 0 && s.bundle(before).touched > b.touched { // seldom: most come when they were touched
		before, after = s.bundle(before).prev, before
	}
	b.prev, b.next = before, after
	if before != 0 {
		s.bundle(before).next = bn
	} else {
		l.head = bn
	}
	if after != 0 {
		s.bundle(after).prev = bn
	} else {
		l.tail = bn
	}
	l.count++
}

func (s *state) delistBundle(bn name) {
	b := s.bundle(bn)
	l := s.bundleListOf(b.list)
	b.list = bundleListNone
	if l == nil {
		return
	}
	if b.prev != 0 {
		s.bundle(b.prev).next = b.next
	} else {
		l.head = b.next
	}
	if b.next != 0 {
		s.bundle(b.next).prev = b.prev
	} else {
		l.tail = b.prev
	}
	b.prev, b.next = 0, 0
	l.count--
}
