package catalog

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"mooncake/internal/limits"
)

// The arena keeps every record outside the Go heap, so that the garbage collector never walks them and memory goes back
// to the system when objects go. It is cut into spans of 1 MiB; a span serves slots of one size and one kind.

const (
	spanBytes    = 1 << 20
	granuleBytes = 16
	spanGranules = spanBytes / granuleBytes
	spansMax     = 1 << 16
	// smallBytes is the largest slot with a class for each granule; above it four classes share a doubling.
	smallBytes = 1024
)

// A name stands for a slot: the span's number in the upper half, the granule inside it in the lower. 0 names nothing.
type name uint32

// A kind tells what the slots of a span hold.
type kind uint8

const (
	kindRecord kind = iota
	kindReplica
	kindUnit
	kindBundle
	kinds
)

// A span's bookkeeping. Spans with room of one kind and class form a doubly linked list.
type span struct {
	kind       kind
	class      uint8
	live       bool
	linked     bool
	fenced     bool   // see fence
	torn       bool   // only what is in kept lives; see doom
	free       name   // head of the list of released slots
	bump       uint32 // bytes handed out at least once
	used       uint32 // slots in use
	prev, next uint32
	kept       []name
}

// An arena hands out zeroed slots by name. Only the holder of the writer's lock may call alloc and release; at may be
// called by readers for names that they found under a shard's lock.
type arena struct {
	base  []unsafe.Pointer // by span number; fixed length, so that readers never see it move
	spans []span           // span 0 is never used
	room  [kinds][]uint32  // by class: first span with a free slot
	count [kinds][]uint16  // by class: how many spans there are
	spare []unsafe.Pointer // empty spans kept back
	ids   []uint32         // numbers of spans that were given back
	held  atomic.Int64     // bytes of all spans mapped now
	thin  atomic.Bool      // the last spare span of a pair was taken: see Catalog.Provide
	ended bool             // all was given back

	fenced []uint32 // spans that nothing is allocated in
	torn   []uint32
}

// slotBytes lists the size of each class.
var slotBytes = func() []uint32 {
	sizes := []uint32{0}
	for n := uint32(granuleBytes); n <= smallBytes; n += granuleBytes {
		sizes = append(sizes, n)
	}
	for step := uint32(smallBytes / 4); sizes[len(sizes)-1] < spanBytes; step *= 2 {
		for range 4 {
			sizes = append(sizes, sizes[len(sizes)-1]+step)
		}
	}
	return sizes
}()

func classOf(bytes int) uint8 {
	if bytes <= smallBytes {
		return uint8((bytes + granuleBytes - 1) / granuleBytes)
	}
	low, high := smallBytes/granuleBytes, len(slotBytes)-1
	for low < high {
		if mid := (low + high) / 2; int(slotBytes[mid]) < bytes {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return uint8(low)
}

func newArena() *arena {
	a := &arena{base: make([]unsafe.Pointer, spansMax), spans: make([]span, 1)}
	for k := range a.room {
		a.room[k], a.count[k] = make([]uint32, len(slotBytes)), make([]uint16, len(slotBytes))
	}
	return a
}

// at gives the address of a slot. The pointer must not outlive the lock under which its name was found.
func (a *arena) at(n name) unsafe.Pointer {
	return unsafe.Add(a.base[n/spanGranules], uintptr(n%spanGranules)*granuleBytes)
}

// alloc returns a zeroed slot for bytes, which must not exceed spanBytes; 0 when the system has no memory left.
func (a *arena) alloc(k kind, bytes int) name {
	class := classOf(bytes)
	id := a.room[k][class]
	if id == 0 {
		if id = a.open(k, class); id == 0 {
			return 0
		}
	}
	s := &a.spans[id]
	n := s.free
	if n != 0 {
		s.free = *(*name)(a.at(n))
	} else {
		n = name(id*spanGranules + s.bump/granuleBytes)
		s.bump += slotBytes[class]
	}
	s.used++
	if s.free == 0 && s.bump+slotBytes[class] > spanBytes {
		a.unlink(id)
	}
	clear(unsafe.Slice((*byte)(a.at(n)), slotBytes[class]))
	return n
}

// ready makes sure that a slot can be allocated; false when the system has no memory left.
func (a *arena) ready(k kind, bytes int) bool {
	class := classOf(bytes)
	return a.room[k][class] != 0 || a.open(k, class) != 0
}

// release gives a slot back. Its first bytes hold the list of free slots from then on; the rest is zero, so that a scan
// of the span can tell free from live.
func (a *arena) release(n name) {
	id := uint32(n / spanGranules)
	s := &a.spans[id]
	clear(unsafe.Slice((*byte)(a.at(n)), slotBytes[s.class]))
	*(*name)(a.at(n)) = s.free
	s.free = n
	s.used--
	if s.used == 0 {
		a.close(id)
		return
	}
	if s.torn {
		s.kept = slices.DeleteFunc(s.kept, func(k name) bool { return k == n })
	} else if !s.linked && !s.fenced {
		a.link(id)
	}
}

// open starts a span for slots of one class.
func (a *arena) open(k kind, class uint8) uint32 {
	base := a.take(a.count[k][class] >= limits.CatalogPairSpans)
	if base == nil {
		return 0
	}
	id := uint32(len(a.spans))
	if n := len(a.ids); n > 0 {
		id, a.ids = a.ids[n-1], a.ids[:n-1]
	} else if id == spansMax {
		unmapSpan(base)
		a.held.Add(-spanBytes)
		return 0
	} else {
		a.spans = append(a.spans, span{})
	}
	a.base[id] = base
	a.spans[id] = span{kind: k, class: class, live: true}
	a.count[k][class]++
	a.link(id)
	return id
}

// take gives the memory of a span; nil when the system has none left. In pairs it comes in larger pages, and the other half is
// spare.
func (a *arena) take(pairs bool) (base unsafe.Pointer) {
	if n := len(a.spare); n > 0 {
		base, a.spare = a.spare[n-1], a.spare[:n-1]
		if pairs && n == 1 {
			a.thin.Store(true)
		}
		return base
	}
	if pairs {
		if base = mapPair(); base != nil {
			a.held.Add(2 * spanBytes)
			a.spare = append(a.spare, unsafe.Add(base, spanBytes))
			return base
		}
	}
	if base = mapSpan(); base != nil {
		a.held.Add(spanBytes)
	}
	return base
}

// add takes a pair of spans in as spare ones.
func (a *arena) add(pair unsafe.Pointer) {
	if a.ended || len(a.spare) > 0 {
		unmapSpan(pair)
		unmapSpan(unsafe.Add(pair, spanBytes))
		return
	}
	a.held.Add(2 * spanBytes)
	a.spare = append(a.spare, unsafe.Add(pair, spanBytes), pair)
}

// close takes an empty span out of service.
func (a *arena) close(id uint32) {
	s := &a.spans[id]
	if s.linked {
		a.unlink(id)
	}
	base := a.base[id]
	a.retire(id)
	if len(a.spare) < limits.CatalogSpareSpans {
		a.spare = append(a.spare, base)
		return
	}
	unmapSpan(base)
	a.held.Add(-spanBytes)
}

// retire forgets a span, whose memory has another owner by now.
func (a *arena) retire(id uint32) {
	a.base[id] = nil
	a.count[a.spans[id].kind][a.spans[id].class]--
	a.spans[id] = span{}
	a.ids = append(a.ids, id)
}

// shrink gives a spare span back to the system, and tells whether there are more.
func (a *arena) shrink() (more bool) {
	last := len(a.spare) - 1
	if last < 0 {
		return false
	}
	unmapSpan(a.spare[last])
	a.spare = a.spare[:last]
	a.held.Add(-spanBytes)
	return last > 0
}

func (a *arena) link(id uint32) {
	s := &a.spans[id]
	head := &a.room[s.kind][s.class]
	s.prev, s.next, s.linked = 0, *head, true
	if *head != 0 {
		a.spans[*head].prev = id
	}
	*head = id
}

func (a *arena) unlink(id uint32) {
	s := &a.spans[id]
	if s.prev != 0 {
		a.spans[s.prev].next = s.next
	} else {
		a.room[s.kind][s.class] = s.next
	}
	if s.next != 0 {
		a.spans[s.next].prev = s.prev
	}
	s.prev, s.next, s.linked = 0, 0, false
}

// free gives every span back. Nothing may be read through the arena afterwards.
func (a *arena) freeAll() {
	for id, base := range a.base {
		if base != nil {
			unmapSpan(base)
			a.base[id] = nil
		}
	}
	for _, base := range a.spare {
		unmapSpan(base)
	}
	a.spare, a.ended = nil, true
	a.held.Store(0)
}
