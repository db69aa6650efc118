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

// quarantine holds the ranges that no replica owns but somebody may still write or read: they are not free. The heap may
// name ranges that are gone; the map says what is true.
type quarantine struct {
	ranges  map[rangeKey]heldRange
	ends    timeHeap[rangeKey]
	earlies timeHeap[rangeKey] // those that a put in need may have at some time
	bytes   uint64
}

type rangeKey struct {
	segment UUID
	offset  uint64
}

type heldRange struct {
	size  uint64
	until Time
	early Time // from when a put in need may have it
}

func newQuarantine() quarantine { return quarantine{ranges: map[rangeKey]heldRange{}} }

func (q *quarantine) add(seg *segment, offset, size uint64, until, early Time) {
	key := rangeKey{seg.info.ID, offset}
	q.ranges[key] = heldRange{size, until, early}
	q.ends.push(until, key)
	if early != Never {
		q.earlies.push(early, key)
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
	if len(q.ranges) == 0 {
		*q = newQuarantine() // a map never shrinks, and the heap names nothing that is left
	}
	return true
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
}
