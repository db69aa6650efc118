package alloc

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// BenchmarkPair frees one live extent at random and allocates another, in a segment that is 90 % full of small ones.
func BenchmarkPair(b *testing.B) {
	for _, live := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("live=%d", live), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, uint64(live)))
			size := func() uint64 { return uint64(16 * math.Pow(70_000.0/16, rng.Float64())) }
			const meanBytes = 8350 // of that distribution
			a := New(uint64(live) * meanBytes * 10 / 9)
			ext := make([]extent, 0, live)
			for len(ext) < live {
				n := size()
				off, ok := a.Alloc(n)
				if !ok {
					break
				}
				ext = append(ext, extent{off, n})
			}
			sizes := make([]uint64, 1<<16)
			for i := range sizes {
				sizes[i] = size()
			}
			swap := func(i int) {
				k := rng.IntN(len(ext))
				if err := a.Free(ext[k].off, ext[k].size); err != nil {
					b.Fatal(err)
				}
				n := sizes[i&(len(sizes)-1)]
				off, ok := a.Alloc(n)
				if !ok { // keep the live set: the old size fits where it was
					n = ext[k].size
					off, _ = a.Alloc(n)
				}
				ext[k] = extent{off, n}
			}
			for i := range 2 * live {
				swap(i)
			}
			b.ReportAllocs()
			b.ReportMetric(float64(a.FreeExtents())/float64(len(ext)), "holes/live")
			b.ResetTimer()
			for i := range b.N {
				swap(i)
			}
			b.ReportMetric(float64(a.FreeExtents())/float64(len(ext)), "holes/live")
		})
	}
}

// BenchmarkLarge is the same for large ranges among small ones: what one put of a payload costs.
func BenchmarkLarge(b *testing.B) {
	a := New(64 << 30)
	for i := uint64(0); i < 1_000_000; i++ {
		a.Reserve(i*8192, 4096)
	}
	b.ReportAllocs()
	for b.Loop() {
		off, ok := a.Alloc(11 << 20)
		if !ok {
			b.Fatal("no room")
		}
		if err := a.Free(off, 11<<20); err != nil {
			b.Fatal(err)
		}
	}
}
