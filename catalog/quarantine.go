package catalog

import "maps"

// A timeHeap gives its items back in the order of their times.
type timeHeap[T any] []timed[T]

type timed[T any] struct {
	at   Time
	item T
}

func (h *timeHeap[T]) push(at Time, item T) {
	*h = append(*h, timed[T]{at, item})
	for i := len(*h) - 1; i > 0; {
		up := (i - 1) / 2
		if (*h)[up].at <= (*h)[i].at {
			return
		}
		(*h)[up], (*h)[i] = (*h)[i], (*h)[up]
		i = up
	}
}

func (h *timeHeap[T]) pop() timed[T] {
	top, last := (*h)[0], len(*h)-1
	(*h)[0] = (*h)[last]
	*h = (*h)[:last]
	for i := 0; ; {
		low := 2*i + 1
		if low >= last {
			return top
		}
		if low+1 < last && (*h)[low+1].at < (*h)[low].at {
			low++
		}
		if (*h)[i].at <= (*h)[low].at {
			return top
		}
		(*h)[i], (*h)[low] = (*h)[low], (*h)[i]
		i = low
	}
}

// due tells whether the first item's time has come.
func (h timeHeap[T]) due(now Time) bool { return len(h) > 0 && h[0].at <= now }

// quarantine holds the ranges that no replica owns but somebody may still write or read: they are not free. What is held
// lies with its segment; the heaps may name ranges that were freed since.
type quarantine struct {
	ends     timeHeap[heldKey]
	handOuts timeHeap[heldKey] // those that wait for readers only, by the time of their hand-out
	count    int
	serial   uint64
	reading  uint64 // bytes that wait for readers only
	corrupt  map[rangeStart]CorruptRange
}

// A heldKey names one stay of a range in quarantine.
type heldKey struct {
	segment UUID
	offset  uint64
	serial  uint64
	writing bool // waits for a writer
}

type heldRange struct {
	size   uint64
	until  Time
	handed Time // when a reader last got the address; Never if a writer may be at work
	serial uint64
	writer UUID // whose death ends the wait earlier; zero if nobody's does
	began  Time // the write
	closed bool // by a leader, who does not know whether the one before gave it away
	// corrupt is set where bytes did not stay what they were: nothing ends that but a request, or the end of the segment.
	corrupt bool
}

func (q *quarantine) add(seg *segment, offset uint64, held heldRange) {
	q.serial++
	held.serial = q.serial
	key := heldKey{seg.info.ID, offset, q.serial, held.writer != UUID{}}
	if seg.held == nil {
		seg.held = map[uint64]heldRange{}
	}
	seg.held[offset] = held
	if !held.corrupt {
		q.ends.push(held.until, key)
	}
	if held.handed != Never {
		q.handOuts.push(held.handed, key)
		q.reading += held.size
		seg.reading += held.size
	}
	if held.closed {
		seg.closed += held.size
	}
	seg.quarantined += held.size
	q.count++
}

// hasten lets a range that waits for its writer go at an earlier time.
func (q *quarantine) hasten(t *segmentTable, key heldKey, end Time) {
	seg, held, ok := q.find(t, key)
	if !ok || held.writer == (UUID{}) {
		return
	}
	held.writer = UUID{} // once is enough
	seg.held[key.offset] = held
	key.writing = false
	q.ends.push(end, key)
}

// find returns what a heap names, if it is still held.
func (q *quarantine) find(t *segmentTable, key heldKey) (*segment, heldRange, bool) {
	seg := t.byID[key.segment]
	if seg == nil {
		return nil, heldRange{}, false
	}
	held, ok := seg.held[key.offset]
	return seg, held, ok && held.serial == key.serial
}

// end takes a range out; false when it is not held.
func (q *quarantine) end(seg *segment, offset, size uint64) bool {
	held, ok := seg.held[offset]
	if !ok || held.size != size {
		return false
	}
	if delete(seg.held, offset); len(seg.held) == 0 {
		seg.held = nil // a map never shrinks
	}
	seg.quarantined -= size
	if held.corrupt {
		delete(q.corrupt, rangeStart{seg.info.ID, offset})
	}
	if held.closed {
		seg.closed -= size
	}
	if held.handed != Never {
		seg.reading -= size
		q.reading -= size
	}
	q.left(1)
	return true
}

// left notes that ranges are not held any more.
func (q *quarantine) left(count int) {
	if q.count -= count; q.count == 0 {
		q.ends, q.handOuts = nil, nil // what they name is gone
	}
}

// tidyHandOuts takes off hand-outs whose ranges were freed in the meantime.
func (q *quarantine) tidyHandOuts(t *segmentTable) {
	for len(q.handOuts) > 0 {
		if _, _, ok := q.find(t, q.handOuts[0].item); ok {
			return
		}
		q.handOuts.pop()
	}
}

// forget drops the ranges of a segment that goes.
func (q *quarantine) forget(seg *segment) {
	if len(seg.held) == 0 {
		return
	}
	q.reading -= seg.reading
	count := len(seg.held)
	if len(q.corrupt) > 0 {
		maps.DeleteFunc(q.corrupt, func(at rangeStart, _ CorruptRange) bool { return at.segment == seg.info.ID })
	}
	seg.held = nil
	q.left(count)
}
