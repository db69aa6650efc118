package catalog

import (
	"slices"
	"unsafe"

	"mooncake/internal/limits"
)

// A fence parts the spans of one kind that are there from those to come: nothing is allocated in them any more. So most of
// them can go as a whole. Where single slots stay, the others are as good as free at once, and are made so afterwards.

// fence begins; false when there is one already, or what the last one left is not mended.
func (a *arena) fence(k kind) bool {
	if len(a.fenced) > 0 || len(a.torn) > 0 {
		return false
	}
	for id := range a.spans {
		s := &a.spans[id]
		if !s.live || s.kind != k {
			continue
		}
		if s.linked {
			a.unlink(uint32(id))
		}
		s.fenced = true
		a.fenced = append(a.fenced, uint32(id))
	}
	return true
}

// isFenced tells whether a slot lies behind the fence.
func (a *arena) isFenced(n name) bool {
	id := n / spanGranules
	return int(id) < len(a.spans) && a.spans[id].fenced
}

// unfence gives up: the spans serve as before.
func (a *arena) unfence() {
	for _, id := range a.fenced {
		if s := &a.spans[id]; s.fenced {
			s.fenced = false
			a.offer(id)
		}
	}
	a.fenced = nil
}

// offer lets slots of a span be allocated, if there are any.
func (a *arena) offer(id uint32) {
	s := &a.spans[id]
	if !s.linked && (s.free != 0 || s.bump+slotBytes[s.class] <= spanBytes) {
		a.link(id)
	}
}

// doom ends the life of all slots behind the fence but those given, in ascending order.
func (a *arena) doom(kept []name) {
	for _, id := range a.fenced {
		s := &a.spans[id]
		if !s.fenced {
			continue // its last slot was released meanwhile
		}
		from, _ := slices.BinarySearch(kept, name(id*spanGranules))
		to := len(kept)
		if id+1 < spansMax { // the end of the last span has no name
			to, _ = slices.BinarySearch(kept, name((id+1)*spanGranules))
		}
		if from == to {
			a.spare = append(a.spare, a.base[id]) // mend gives back what is more than enough
			a.retire(id)
			continue
		}
		s.fenced, s.torn, s.kept, s.used = false, true, slices.Clone(kept[from:to]), uint32(to-from)
		a.torn = append(a.torn, id)
	}
	a.fenced = nil
}

// lives tells whether a slot of a torn span stays.
func (s *span) lives(n name) bool {
	_, ok := slices.BinarySearch(s.kept, n)
	return ok
}

// mend makes the dead slots of one torn span free or, when there is no such span any more, gives one of the spare spans back
// that are more than enough. It tells whether there is more to do.
func (a *arena) mend() (more bool) {
	if last := len(a.torn) - 1; last >= 0 {
		id := a.torn[last]
		a.torn = a.torn[:last]
		if a.spans[id].torn {
			a.mendSpan(id)
		}
		return true
	}
	if len(a.spare) > limits.CatalogSpareSpans {
		a.shrink()
	}
	return len(a.spare) > limits.CatalogSpareSpans
}

func (a *arena) mendSpan(id uint32) {
	s := &a.spans[id]
	step := slotBytes[s.class]
	s.free = 0
	for offset := uint32(0); offset < s.bump; offset += step {
		n := name(id*spanGranules + offset/granuleBytes)
		if s.lives(n) {
			continue
		}
		clear(unsafe.Slice((*byte)(a.at(n)), step))
		*(*name)(a.at(n)) = s.free
		s.free = n
	}
	s.torn, s.kept = false, nil
	a.offer(id)
}

// inUse counts the slots of a kind.
func (a *arena) inUse(k kind) (n int) {
	for id := range a.spans {
		if s := &a.spans[id]; s.live && s.kind == k {
			n += int(s.used)
		}
	}
	return n
}

// scanFenced is scan for the objects behind the fence.
func (s *state) scanFenced(at *cursor) name {
	for {
		n := s.scan(at)
		if n == 0 || s.arena.isFenced(n) {
			return n
		}
		*at = cursor{span: at.span + 1}
	}
}
