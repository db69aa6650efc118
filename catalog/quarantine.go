package catalog

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

// quarantine holds the ranges that no replica owns but somebody may still write or read: they are not free. The heaps may
// name ranges that are gone; the map says what is true.
type quarantine struct {
	ranges   map[rangeKey]heldRange
	ends     timeHeap[rangeKey]
	handOuts timeHeap[rangeKey] // those that wait for readers only, by the time of their hand-out
	bytes    uint64
	reading  uint64 // of bytes, those that wait for readers only
}

type rangeKey struct {
	segment UUID
	offset  uint64
}

type heldRange struct {
	size   uint64
	until  Time
	handed Time // when a reader last got the address; Never if a writer may be at work
}

func newQuarantine() quarantine { return quarantine{ranges: map[rangeKey]heldRange{}} }

func (q *quarantine) add(seg *segment, offset, size uint64, until, handed Time) {
	key := rangeKey{seg.info.ID, offset}
	q.ranges[key] = heldRange{size, until, handed}
	q.ends.push(until, key)
	if handed != Never {
		q.handOuts.push(handed, key)
		q.reading += size
		seg.reading += size
	}
	seg.quarantined += size
	q.bytes += size
}

// end takes a range out; false when it is not held.
func (q *quarantine) end(seg *segment, offset, size uint64) bool {
	key := rangeKey{seg.info.ID, offset}
	held, ok := q.ranges[key]
	if !ok || held.size != size {
		return false
	}
	delete(q.ranges, key)
	seg.quarantined -= size
	q.bytes -= size
	if held.handed != Never {
		seg.reading -= size
		q.reading -= size
	}
	if len(q.ranges) == 0 {
		*q = newQuarantine() // a map never shrinks, and the heap names nothing that is left
	}
	return true
}

// tidyHandOuts takes off hand-outs whose ranges were freed in the meantime.
func (q *quarantine) tidyHandOuts() {
	for len(q.handOuts) > 0 {
		top := q.handOuts[0]
		if held, ok := q.ranges[top.item]; ok && held.handed == top.at {
			return
		}
		q.handOuts.pop()
	}
}

// forget drops the ranges of a segment that goes.
func (q *quarantine) forget(seg *segment) {
	if seg.quarantined == 0 {
		return
	}
	for key := range q.ranges {
		if key.segment == seg.info.ID {
			delete(q.ranges, key)
		}
	}
	q.bytes -= seg.quarantined
	q.reading -= seg.reading
}
