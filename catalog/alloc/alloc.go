package alloc

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"

	"mooncake/internal/limits"
)

// LargeBytes is the size from which a range is taken from the high end.
const LargeBytes = limits.AllocLargeBytes

// ErrRange says that a range is empty or does not lie inside the segment.
var ErrRange = errors.New("range is empty or outside the segment")

// ErrNotLive says that a range given to Free is free already, in part or whole.
var ErrNotLive = errors.New("range is not live")

type extent struct{ off, size uint64 }

func (e extent) end() uint64 { return e.off + e.size }

// Alloc is the free space of one segment. See the package comment for its rules; make one with New.
type Alloc struct {
	size, free uint64

	// Three parallel arrays, one entry per block. The two of plain numbers are what searches walk, so that a search
	// touches a few cache lines and one block.
	first   []uint64
	largest []uint64
	blocks  [][]extent
}

// New returns an Alloc whose whole range [0, size) is free.
func New(size uint64) *Alloc {
	a := &Alloc{size: size, free: size}
	if size > 0 {
		a.first = []uint64{0}
		a.largest = []uint64{size}
		a.blocks = [][]extent{{{off: 0, size: size}}}
	}
	return a
}

// Size is the length of the segment in bytes.
func (a *Alloc) Size() uint64 { return a.size }

// FreeBytes is the sum of all free extents.
func (a *Alloc) FreeBytes() uint64 { return a.free }

// LargestFree is the size of the largest free extent: what a single Alloc can give at most.
func (a *Alloc) LargestFree() uint64 {
	var m uint64
	for _, l := range a.largest {
		m = max(m, l)
	}
	return m
}

// FreeExtents is the number of free extents.
func (a *Alloc) FreeExtents() int {
	n := 0
	for _, b := range a.blocks {
		n += len(b)
	}
	return n
}

// Extents yields every free extent as (offset, size) in the order of addresses. The Alloc must not be changed meanwhile.
func (a *Alloc) Extents() iter.Seq2[uint64, uint64] {
	return func(yield func(off, size uint64) bool) {
		for _, b := range a.blocks {
			for _, e := range b {
				if !yield(e.off, e.size) {
					return
				}
			}
		}
	}
}

// Alloc takes n bytes and returns their offset. It fails for n = 0 and when no single free extent holds n bytes.
func (a *Alloc) Alloc(n uint64) (off uint64, ok bool) {
	if n == 0 || n > a.free {
		return 0, false
	}
	if n >= LargeBytes {
		return a.allocHigh(n, a.size)
	}
	return a.allocLow(n)
}

// AllocBelow takes n bytes from the top of the highest free extent that begins below an offset and holds them, or else of
// the highest of all, and returns their offset. Who begins each time where the last range was taken goes round the segment,
// so that holes have time to grow together before they are used again.
func (a *Alloc) AllocBelow(n, below uint64) (off uint64, ok bool) {
	if n == 0 || n > a.free {
		return 0, false
	}
	if off, ok = a.allocHigh(n, below); !ok && below < a.size {
		off, ok = a.allocHigh(n, a.size)
	}
	return off, ok
}

func (a *Alloc) allocLow(n uint64) (uint64, bool) {
	for bi, l := range a.largest {
		if l < n {
			continue
		}
		for i, e := range a.blocks[bi] {
			if e.size >= n {
				a.replace(bi, i, extent{e.off + n, e.size - n})
				a.free -= n
				return e.off, true
			}
		}
	}
	return 0, false
}

func (a *Alloc) allocHigh(n, below uint64) (uint64, bool) {
	for bi := len(a.largest) - 1; bi >= 0; bi-- {
		if a.largest[bi] < n || a.first[bi] >= below {
			continue
		}
		b := a.blocks[bi]
		for i := len(b) - 1; i >= 0; i-- {
			if e := b[i]; e.size >= n && e.off < below {
				a.replace(bi, i, extent{e.off, e.size - n})
				a.free -= n
				return e.off + e.size - n, true
			}
		}
	}
	return 0, false
}

// Reserve takes exactly [off, off+n), as a replayed log or a remounted segment asks for. It reports whether the whole
// range was free; if not, nothing changes.
func (a *Alloc) Reserve(off, n uint64) bool {
	if !a.inside(off, n) {
		return false
	}
	bi, i := a.before(off)
	if bi < 0 {
		return false
	}
	e := a.blocks[bi][i]
	end := off + n
	if e.end() < end {
		return false
	}
	a.free -= n
	low, high := extent{e.off, off - e.off}, extent{end, e.end() - end}
	if low.size == 0 {
		a.replace(bi, i, high)
		return true
	}
	a.replace(bi, i, low)
	if high.size > 0 {
		a.insert(bi, i+1, high)
	}
	return true
}

// A Range is a part of a segment.
type Range struct{ Offset, Size uint64 }

// Reset makes everything free but the given ranges, which must be in the order of addresses, inside, and not overlap.
func (a *Alloc) Reset(taken []Range) {
	*a = Alloc{size: a.size}
	from := uint64(0)
	for i := range taken {
		a.append(from, taken[i].Offset)
		from = taken[i].Offset + taken[i].Size
	}
	a.append(from, a.size)
}

// append adds a free extent behind all others.
func (a *Alloc) append(from, to uint64) {
	if from >= to {
		return
	}
	e := extent{from, to - from}
	a.free += e.size
	last := len(a.blocks) - 1
	if last < 0 || len(a.blocks[last]) >= limits.AllocBlockExtents/2 {
		a.first, a.largest, a.blocks = append(a.first, e.off), append(a.largest, e.size), append(a.blocks, []extent{e})
		return
	}
	a.blocks[last] = append(a.blocks[last], e)
	a.largest[last] = max(a.largest[last], e.size)
}

// Free gives [off, off+n) back. It must have been taken by Alloc or Reserve, though not necessarily in one piece. An
// empty or foreign range is ErrRange, one that is free already, in part or whole, ErrNotLive; then nothing changes.
func (a *Alloc) Free(off, n uint64) error {
	if !a.inside(off, n) {
		return fmt.Errorf("free [%d, +%d) of %d bytes: %w", off, n, a.size, ErrRange)
	}
	end := off + n
	pb, pi := a.before(off)
	nb, ni := a.next(pb, pi)
	if pb >= 0 && a.blocks[pb][pi].end() > off || nb < len(a.blocks) && a.blocks[nb][ni].off < end {
		return fmt.Errorf("free [%d, +%d): %w", off, n, ErrNotLive)
	}
	a.free += n
	joinsPrev := pb >= 0 && a.blocks[pb][pi].end() == off
	joinsNext := nb < len(a.blocks) && a.blocks[nb][ni].off == end
	switch {
	case joinsPrev && joinsNext:
		prev, next := a.blocks[pb][pi], a.blocks[nb][ni]
		// Grow first: that moves nothing, while a removal may merge blocks.
		a.replace(pb, pi, extent{prev.off, prev.size + n + next.size})
		a.replace(nb, ni, extent{})
	case joinsPrev:
		prev := a.blocks[pb][pi]
		a.replace(pb, pi, extent{prev.off, prev.size + n})
	case joinsNext:
		next := a.blocks[nb][ni]
		a.replace(nb, ni, extent{off, n + next.size})
	case pb >= 0:
		a.insert(pb, pi+1, extent{off, n})
	default:
		a.insert(0, 0, extent{off, n})
	}
	return nil
}

func (a *Alloc) inside(off, n uint64) bool {
	return n > 0 && off < a.size && n <= a.size-off
}

// before finds the last extent that starts at or below off; block -1 when there is none.
func (a *Alloc) before(off uint64) (block, index int) {
	bi := sort.Search(len(a.first), func(i int) bool { return a.first[i] > off }) - 1
	if bi < 0 {
		return -1, 0
	}
	b := a.blocks[bi]
	return bi, sort.Search(len(b), func(i int) bool { return b[i].off > off }) - 1
}

// next is the place after (block, index); the number of blocks when there is none.
func (a *Alloc) next(block, index int) (int, int) {
	if block >= 0 && index+1 < len(a.blocks[block]) {
		return block, index + 1
	}
	return block + 1, 0
}

// replace puts e in the place of an extent that overlaps it, and removes that place when e is empty.
func (a *Alloc) replace(bi, i int, e extent) {
	b := a.blocks[bi]
	old := b[i]
	if e.size == 0 {
		b = slices.Delete(b, i, i+1)
		a.blocks[bi] = b
		if len(b) == 0 {
			a.dropBlock(bi)
			return
		}
	} else {
		b[i] = e
	}
	a.first[bi] = b[0].off
	switch {
	case e.size >= a.largest[bi]:
		a.largest[bi] = e.size
	case old.size == a.largest[bi]:
		a.largest[bi] = largestOf(b)
	}
	if e.size == 0 && len(b) <= limits.AllocBlockExtents/4 {
		a.mergeBlock(bi)
	}
}

// insert adds e before place i of block bi, splitting the block in halves when it is full.
func (a *Alloc) insert(bi, i int, e extent) {
	if len(a.blocks) == 0 {
		a.first, a.largest, a.blocks = append(a.first, e.off), append(a.largest, e.size), append(a.blocks, []extent{e})
		return
	}
	if len(a.blocks[bi]) == limits.AllocBlockExtents {
		a.splitBlock(bi)
		if half := len(a.blocks[bi]); i > half {
			bi, i = bi+1, i-half
		}
	}
	a.blocks[bi] = slices.Insert(a.blocks[bi], i, e)
	a.first[bi] = a.blocks[bi][0].off
	a.largest[bi] = max(a.largest[bi], e.size)
}

func (a *Alloc) splitBlock(bi int) {
	b := a.blocks[bi]
	half := len(b) / 2
	high := make([]extent, len(b)-half, limits.AllocBlockExtents)
	copy(high, b[half:])
	a.blocks[bi] = b[:half]
	a.largest[bi] = largestOf(b[:half])
	a.blocks = slices.Insert(a.blocks, bi+1, high)
	a.first = slices.Insert(a.first, bi+1, high[0].off)
	a.largest = slices.Insert(a.largest, bi+1, largestOf(high))
}

// mergeBlock joins a thin block with a neighbour when both fit well below the splitting point, so that a segment whose
// holes have closed again is searched in few steps.
func (a *Alloc) mergeBlock(bi int) {
	for _, low := range [...]int{bi - 1, bi} {
		if low < 0 || low+1 >= len(a.blocks) {
			continue
		}
		if len(a.blocks[low])+len(a.blocks[low+1]) > limits.AllocBlockExtents/2 {
			continue
		}
		a.blocks[low] = append(a.blocks[low], a.blocks[low+1]...)
		a.largest[low] = max(a.largest[low], a.largest[low+1])
		a.dropBlock(low + 1)
		return
	}
}

func (a *Alloc) dropBlock(bi int) {
	a.blocks = slices.Delete(a.blocks, bi, bi+1)
	a.first = slices.Delete(a.first, bi, bi+1)
	a.largest = slices.Delete(a.largest, bi, bi+1)
}

func largestOf(b []extent) uint64 {
	var m uint64
	for _, e := range b {
		m = max(m, e.size)
	}
	return m
}
