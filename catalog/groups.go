package catalog

import (
	"hash/maphash"
	"sync/atomic"

	"mooncake/internal/limits"
)

// unitTable gives the part of the index that holds the units of a hash.
func (s *state) unitTable(hash uint64) *table {
	return &s.groups[hash>>(64-limits.CatalogUnitShardBits)]
}

// findUnit returns the group, or the bundle without group, of that name; 0 when it has no member.
func (s *state) findUnit(text string, group bool) name {
	hash := maphash.String(s.seed, text)
	t := s.unitTable(hash)
	n, at := t.first(hash)
	for n != 0 {
		if u := s.unit(n); u.group == group && u.name() == text {
			return n
		}
		n, at = t.next(hash, at)
	}
	return 0
}

// join makes a record a member of a unit, which is made when it has no member yet. Without memory for it the record
// stays alone.
func (s *state) join(n name, text string, group bool) {
	un := s.findUnit(text, group)
	if un == 0 {
		if un = s.arena.alloc(kindUnit, unitBytes+len(text)); un == 0 {
			return
		}
		u := s.unit(un)
		u.nameBytes, u.group = uint32(len(text)), group
		setBytes(s.arena.at(un), unitBytes, text)
		hash := maphash.String(s.seed, text)
		s.unitTable(hash).insert(hash, un)
		s.units++
	}
	r, u := s.record(n), s.unit(un)
	r.unit, r.unitNext = un, u.head
	if u.head != 0 {
		s.record(u.head).unitPrev = n
	}
	s.admit(un, n)
	u.head = n
	u.members++
	u.lastTouch = max(u.lastTouch, r.time)
	if r.flags&flagHardPin != 0 {
		u.pinned++
	}
	if r.marks&markPart != 0 {
		u.parts++
	}
}

// leave takes a record, which is in no list, out of its unit. The unit goes with its last member.
func (s *state) leave(n name) {
	r := s.record(n)
	if r.unit == 0 {
		return
	}
	u := s.unit(r.unit)
	if r.unitPrev != 0 {
		s.record(r.unitPrev).unitNext = r.unitNext
	} else {
		u.head = r.unitNext
	}
	if r.unitNext != 0 {
		s.record(r.unitNext).unitPrev = r.unitPrev
	}
	u.members--
	if r.flags&flagHardPin != 0 {
		u.pinned--
	}
	if r.marks&markPart != 0 {
		u.parts--
	}
	if r.marks&markPublished != 0 {
		if u.manifests--; u.manifests == 0 && u.group {
			s.unlistUnit(u)
		}
	}
	if r.share != u.share {
		u.strangers--
	}
	s.rehome(r.unit)
	if s.settleUnit(r.unit); u.members == 0 {
		hash := maphash.String(s.seed, u.name())
		s.unitTable(hash).remove(hash, r.unit)
		s.arena.release(r.unit)
		s.units--
	}
	r.unit, r.unitPrev, r.unitNext = 0, 0, 0
}

// unlistUnit looks anew at the bundles of a group whose last manifest is gone: nothing names their payload any more.
func (s *state) unlistUnit(u *unit) {
	for m := u.head; m != 0; m = s.record(m).unitNext {
		if bn := s.record(m).bundle; bn != 0 && s.bundle(bn).facts&factUnlisted != 0 {
			s.settleBundle(bn)
		}
	}
}

// settleUnit puts a unit into the list where it belongs: none while a member is unfinished or hard pinned or a bundle is
// being written, since it goes whole or not at all.
func (s *state) settleUnit(un name) {
	u := s.unit(un)
	want := listAge
	switch {
	case u.members == 0 || u.open > 0 || u.pinned > 0 || u.staging > 0 || s.keeps(u.share, u.parts > 0):
		want = listNone
	case u.soft > 0:
		want = listSoft
	case u.unread > 0:
		want = listUnread
	case u.spent > 0 && u.spent == u.bundles && u.parts == u.members && u.knots == 0:
		want = listSpent
	}
	if want != u.list {
		s.delist(un)
		s.enlist(un, want, max(u.lastTouch, atomic.LoadInt64(&u.lease)))
	}
}

// groupOf names the group of a record; "" when it has none.
func (s *state) groupOf(r *record) string {
	if r.flags&flagGroup == 0 || r.unit == 0 {
		return ""
	}
	return s.unit(r.unit).name()
}
