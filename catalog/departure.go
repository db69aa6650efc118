package catalog

import (
	"strings"

	"mooncake/internal/limits"
)

// An openWrite is an unfinished write that is to end, found by key: its record may move on while others have the lock.
type openWrite struct {
	key string
	of  int // in the list of departures
}

// WritersGone ends the unfinished writes of clients that are known to be dead, and returns how many each had. Their keys
// are free at once, their ranges after WriterQuarantineMs; so are those of writes that were ended while the writer might
// have gone on. What it finished of bundles that it has not published goes then as well, unless somebody writes to them
// before. Should a client come to life again, the ends of its writes fail.
func (c *Catalog) WritersGone(now Time, gone []Departure) (aborted []int) {
	aborted = make([]int, len(gone))
	if len(gone) == 0 {
		return aborted
	}
	c.mu.Lock()
	for i := range gone {
		if number, ok := c.s.owners.byID[gone[i].Client]; ok {
			c.buryBundles(now, number, gone[i].At)
		}
	}
	writes := c.writesOf(gone)
	c.mu.Unlock()
	for len(writes) > 0 {
		n := min(len(writes), limits.CatalogSliceItems)
		c.mu.Lock()
		c.begin()
		for _, w := range writes[:n] {
			if c.noteDead(now, w.key, &gone[w.of]) {
				aborted[w.of]++
				c.stats.AbortedPuts++
			}
		}
		c.commit()
		c.mu.Unlock()
		writes = writes[n:]
	}
	c.shorten(now, gone)
	return aborted
}

// writesOf lists the unfinished writes of clients in one walk, which ends with the last of them.
func (c *Catalog) writesOf(gone []Departure) (writes []openWrite) {
	at, left := map[uint32]int{}, uint64(0)
	for i := range gone {
		number, ok := c.s.owners.byID[gone[i].Client]
		if !ok || c.s.owners.list[number].open == 0 {
			continue
		}
		if _, twice := at[number]; !twice {
			left += c.s.owners.list[number].open
		}
		at[number] = i // of two departures the later counts
	}
	for n := c.s.open.head; n != 0 && left > 0; n = c.s.record(n).node.next {
		r := c.s.record(n)
		if i, ok := at[r.client]; ok {
			left--
			if Time(r.time) <= gone[i].At {
				writes = append(writes, openWrite{strings.Clone(r.key()), i})
			}
		}
	}
	return writes
}

// noteDead decides that the unfinished write of a dead client goes, if it is still there.
func (c *Catalog) noteDead(now Time, key string, d *Departure) bool {
	n := c.s.lookup(key)
	if n == 0 {
		return false
	}
	if st := c.s.stagedOf(n); st != 0 {
		n = st
	}
	r := c.s.record(n)
	if !r.isOpen() || c.s.owners.list[r.client].id != d.Client || Time(r.time) > d.At {
		return false
	}
	c.noteDrop(now, n, CauseDead, c.outlast(n, now, now+Time(c.cfg.WriterQuarantineMs)), Never)
	return true
}

// shorten lets the ranges that wait for dead writers wait no longer than WriterQuarantineMs. That is not logged: a new
// leader waits the whole time. What another call moves while this one gives up the lock may be missed, and waits, too.
func (c *Catalog) shorten(now Time, gone []Departure) {
	at := make(map[UUID]Time, len(gone))
	for _, d := range gone {
		at[d.Client] = max(at[d.Client], d.At)
	}
	end, next := now+Time(c.cfg.WriterQuarantineMs), 0
	var due []heldKey
	c.inSlices(func() (more bool) {
		q := &c.s.heldBack
		due = due[:0]
		for stop := min(len(q.ends), next+limits.CatalogEndsSlice); next < stop; next++ {
			x := &q.ends[next]
			if !x.item.writing || x.at <= end {
				continue
			}
			_, held, ok := q.find(&c.s.segments, x.item)
			if before, dead := at[held.writer]; ok && dead && held.began <= before {
				due = append(due, x.item)
			}
		}
		for _, key := range due {
			q.hasten(&c.s.segments, key, end)
		}
		return next < len(q.ends)
	})
}
