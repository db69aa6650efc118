package alloc

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"mooncake/internal/limits"
)

// bitmap is the model: one bool per byte, true = live.
type bitmap []bool

func (m bitmap) clear(off, n uint64) bool {
	if n == 0 || off >= uint64(len(m)) || n > uint64(len(m))-off {
		return false
	}
	return !slices.Contains(m[off:off+n], true)
}

func (m bitmap) full(off, n uint64) bool {
	if n == 0 || off >= uint64(len(m)) || n > uint64(len(m))-off {
		return false
	}
	return !slices.Contains(m[off:off+n], false)
}

func (m bitmap) set(off, n uint64, live bool) {
	for i := off; i < off+n; i++ {
		m[i] = live
	}
}

func (m bitmap) holes() []extent {
	var out []extent
	for i := 0; i < len(m); {
		j := i
		for j < len(m) && m[j] == m[i] {
			j++
		}
		if !m[i] {
			out = append(out, extent{uint64(i), uint64(j - i)})
		}
		i = j
	}
	return out
}

// lowest is where a small range must go: the bottom of the first hole that holds it.
func (m bitmap) lowest(n uint64) (uint64, bool) {
	for _, h := range m.holes() {
		if n > 0 && h.size >= n {
			return h.off, true
		}
	}
	return 0, false
}

// highest is where a range taken below an offset must go: the top of the last hole that begins there, or of the last of all.
func (m bitmap) highest(n, below uint64) (uint64, bool) {
	holes := m.holes()
	slices.Reverse(holes)
	for _, limit := range []uint64{below, uint64(len(m))} {
		for _, h := range holes {
			if n > 0 && h.size >= n && h.off < limit {
				return h.end() - n, true
			}
		}
	}
	return 0, false
}

func extentsOf(a *Alloc) []extent {
	var out []extent
	for off, size := range a.Extents() {
		out = append(out, extent{off, size})
	}
	return out
}

// check tests the invariants of the package comment and compares with the model.
func check(a *Alloc, m bitmap) error {
	holes := m.holes()
	if got := extentsOf(a); !slices.Equal(got, holes) {
		return fmt.Errorf("free extents %v, model %v", got, holes)
	}
	var sum, largest uint64
	for _, h := range holes {
		sum += h.size
		largest = max(largest, h.size)
	}
	if a.FreeBytes() != sum || a.LargestFree() != largest || a.FreeExtents() != len(holes) {
		return fmt.Errorf("free %d largest %d extents %d, model %d %d %d",
			a.FreeBytes(), a.LargestFree(), a.FreeExtents(), sum, largest, len(holes))
	}
	return checkIndex(a)
}

func checkIndex(a *Alloc) error {
	if len(a.first) != len(a.blocks) || len(a.largest) != len(a.blocks) {
		return fmt.Errorf("parallel arrays differ: %d %d %d", len(a.first), len(a.largest), len(a.blocks))
	}
	for i, b := range a.blocks {
		if len(b) == 0 || len(b) > limits.AllocBlockExtents || a.first[i] != b[0].off || a.largest[i] != largestOf(b) {
			return fmt.Errorf("block %d: %d extents, first %d, largest %d", i, len(b), a.first[i], a.largest[i])
		}
	}
	return nil
}

func TestAgainstBitmap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Uint64Range(0, 3000).Draw(t, "size")
		a, m := New(size), make(bitmap, size)
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if err := check(a, m); err != nil {
					t.Fatal(err)
				}
			},
			"alloc": func(t *rapid.T) {
				n := rapid.Uint64Range(0, 40).Draw(t, "n")
				want, wantOK := m.lowest(n)
				off, ok := a.Alloc(n)
				if ok != wantOK || off != want {
					t.Fatalf("Alloc(%d) = %d, %v; want %d, %v", n, off, ok, want, wantOK)
				}
				if ok {
					m.set(off, n, true)
				}
			},
			"below": func(t *rapid.T) {
				n, below := rapid.Uint64Range(0, 40).Draw(t, "n"), rapid.Uint64Range(0, size+5).Draw(t, "below")
				want, wantOK := m.highest(n, below)
				off, ok := a.AllocBelow(n, below)
				if ok != wantOK || off != want {
					t.Fatalf("AllocBelow(%d, %d) = %d, %v; want %d, %v", n, below, off, ok, want, wantOK)
				}
				if ok {
					m.set(off, n, true)
				}
			},
			"reserve": func(t *rapid.T) {
				off, n := rapid.Uint64Range(0, size+5).Draw(t, "off"), rapid.Uint64Range(0, 40).Draw(t, "n")
				want := m.clear(off, n)
				if got := a.Reserve(off, n); got != want {
					t.Fatalf("Reserve(%d, %d) = %v", off, n, got)
				}
				if want {
					m.set(off, n, true)
				}
			},
			"reset": func(*rapid.T) {
				var taken []Range
				for off := uint64(0); off < size; off++ {
					if m[off] { // a byte each: they may touch
						taken = append(taken, Range{off, 1})
					}
				}
				a.Reset(taken)
			},
			"free": func(t *rapid.T) {
				// Any range: partly free ones must be refused, and a live one may be given back in pieces.
				off, n := rapid.Uint64Range(0, size+5).Draw(t, "off"), rapid.Uint64Range(0, 20).Draw(t, "n")
				err := a.Free(off, n)
				switch {
				case m.full(off, n):
					if err != nil {
						t.Fatalf("Free(%d, %d): %v", off, n, err)
					}
					m.set(off, n, false)
				case err == nil:
					t.Fatalf("Free(%d, %d) accepted", off, n)
				}
			},
		})
	})
}

// TestRebuilt shows that placement depends on the live set only: an Alloc rebuilt with Reserve, in any order, answers
// the next requests with the same offsets.
func TestRebuilt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 64 << 20
		a := New(size)
		var live []extent
		n := rapid.SliceOfN(rapid.Uint64Range(1, 3<<20), 40, 200).Draw(t, "sizes")
		for i, n := range n {
			if off, ok := a.Alloc(n); ok {
				live = append(live, extent{off, n})
			}
			if i%3 == 2 && len(live) > 0 {
				k := rapid.IntRange(0, len(live)-1).Draw(t, "victim")
				if err := a.Free(live[k].off, live[k].size); err != nil {
					t.Fatal(err)
				}
				live = slices.Delete(live, k, k+1)
			}
		}
		b := New(size)
		for _, e := range rapid.Permutation(live).Draw(t, "order") {
			if !b.Reserve(e.off, e.size) {
				t.Fatalf("Reserve(%d, %d) refused", e.off, e.size)
			}
		}
		if got, want := extentsOf(b), extentsOf(a); !slices.Equal(got, want) {
			t.Fatalf("rebuilt %v, want %v", got, want)
		}
		for _, n := range rapid.SliceOfN(rapid.Uint64Range(1, 3<<20), 1, 20).Draw(t, "next") {
			offA, okA := a.Alloc(n)
			offB, okB := b.Alloc(n)
			if offA != offB || okA != okB {
				t.Fatalf("Alloc(%d): %d %v, rebuilt %d %v", n, offA, okA, offB, okB)
			}
		}
	})
}

// TestManyBlocks drives splits and merges of blocks: 20,000 one-byte holes appear and close again.
func TestManyBlocks(t *testing.T) {
	const size = 40_000
	a, m := New(size), make(bitmap, size)
	if !a.Reserve(0, size) {
		t.Fatal("empty segment refused its whole range")
	}
	m.set(0, size, true)
	step := func(off uint64, live bool) {
		t.Helper()
		if live {
			if !a.Reserve(off, 1) {
				t.Fatalf("Reserve(%d) refused", off)
			}
		} else if err := a.Free(off, 1); err != nil {
			t.Fatal(err)
		}
		m.set(off, 1, live)
	}
	// 7919 is coprime to 20,000: every even offset once, scattered.
	for i := uint64(0); i < size/2; i++ {
		step(i*7919%(size/2)*2, false)
		if i%1000 == 0 {
			if err := check(a, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := len(a.blocks); got < size/2/limits.AllocBlockExtents {
		t.Fatalf("%d blocks for %d extents", got, a.FreeExtents())
	}
	for i := uint64(0); i < size/2; i++ {
		step(i*7919%(size/2)*2, true)
		if i%1000 == 0 {
			if err := check(a, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(a.blocks) != 0 || a.FreeBytes() != 0 {
		t.Fatalf("full segment keeps %d blocks, %d free bytes", len(a.blocks), a.FreeBytes())
	}
}

func TestTwoEnds(t *testing.T) {
	const mib = 1 << 20
	a := New(16 * mib)
	for _, c := range []struct {
		n, off uint64
		ok     bool
	}{
		{n: 1, off: 0, ok: true},
		{n: LargeBytes, off: 15 * mib, ok: true},
		{n: LargeBytes - 1, off: 1, ok: true},
		{n: 3 * mib, off: 12 * mib, ok: true},
		{n: 0},
		{n: 11*mib + 1},
		{n: 11 * mib, off: mib, ok: true},
		{n: 1},
	} {
		off, ok := a.Alloc(c.n)
		if off != c.off || ok != c.ok {
			t.Fatalf("Alloc(%d) = %d, %v; want %d, %v", c.n, off, ok, c.off, c.ok)
		}
	}
}

func TestRefusals(t *testing.T) {
	a := New(100)
	if !a.Reserve(10, 20) {
		t.Fatal("Reserve(10, 20) refused")
	}
	for _, c := range []struct {
		off, n uint64
		want   error
	}{
		{10, 0, ErrRange},
		{100, 1, ErrRange},
		{90, 11, ErrRange},
		{^uint64(0), 2, ErrRange},
		{10, ^uint64(0), ErrRange},
		{9, 5, ErrNotLive},
		{25, 6, ErrNotLive},
		{0, 100, ErrNotLive},
		{50, 1, ErrNotLive},
	} {
		if err := a.Free(c.off, c.n); !errors.Is(err, c.want) {
			t.Errorf("Free(%d, %d) = %v, want %v", c.off, c.n, err, c.want)
		}
	}
	for _, c := range [][2]uint64{{10, 1}, {29, 2}, {5, 6}, {0, 100}, {0, 0}, {100, 1}, {1, ^uint64(0)}} {
		if a.Reserve(c[0], c[1]) {
			t.Errorf("Reserve(%d, %d) accepted", c[0], c[1])
		}
	}
	if err := a.Free(10, 20); err != nil {
		t.Fatal(err)
	}
	if err := a.Free(10, 20); !errors.Is(err, ErrNotLive) {
		t.Fatalf("second Free: %v", err)
	}
	if got := extentsOf(a); !slices.Equal(got, []extent{{0, 100}}) {
		t.Fatalf("after all refusals: %v", got)
	}
}

// TestBelow goes round a segment: what was given back above is used again only when nothing below is left.
func TestBelow(t *testing.T) {
	const mib = 1 << 20
	a := New(4 * mib)
	below := uint64(0)
	for _, want := range []uint64{3, 2} {
		below, _ = a.AllocBelow(mib, below)
		if below != want*mib {
			t.Fatalf("at %d, want %d", below, want*mib)
		}
	}
	if err := a.Free(3*mib, mib); err != nil {
		t.Fatal(err)
	}
	for _, want := range []uint64{1, 0, 3} {
		below, _ = a.AllocBelow(mib, below)
		if below != want*mib {
			t.Fatalf("at %d, want %d", below, want*mib)
		}
	}
	if off, ok := a.AllocBelow(mib, below); ok {
		t.Fatalf("a full segment gave %d", off)
	}
}

// FuzzOps reads three bytes as one operation: what, and two operands that reach beyond the segment.
func FuzzOps(f *testing.F) {
	f.Add([]byte{0, 10, 0, 1, 5, 3, 2, 0, 10})
	f.Add([]byte{1, 10, 20, 1, 50, 60, 2, 10, 20, 2, 10, 20, 0, 200, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		const size = 240
		a, m := New(size), make(bitmap, size)
		for ; len(ops) >= 3; ops = ops[3:] {
			x, y := uint64(ops[1]), uint64(ops[2])
			switch ops[0] % 3 {
			case 0:
				want, wantOK := m.lowest(x)
				off, ok := a.Alloc(x)
				if off != want || ok != wantOK {
					t.Fatalf("Alloc(%d) = %d, %v; want %d, %v", x, off, ok, want, wantOK)
				}
				if ok {
					m.set(off, x, true)
				}
			case 1:
				want := m.clear(x, y)
				if a.Reserve(x, y) != want {
					t.Fatalf("Reserve(%d, %d) != %v", x, y, want)
				}
				if want {
					m.set(x, y, true)
				}
			case 2:
				want := m.full(x, y)
				if (a.Free(x, y) == nil) != want {
					t.Fatalf("Free(%d, %d) != %v", x, y, want)
				}
				if want {
					m.set(x, y, false)
				}
			}
		}
		if err := check(a, m); err != nil {
			t.Fatal(err)
		}
	})
}
