package figures

import (
	"math"
	"math/bits"
	"time"
)

// The histogram's buckets: up to 64 ns one by one, then 64 in each power of two, up to a day.
const (
	perOctave     = 64
	octaves       = 42
	perOctaveBits = 6
)

// Histogram counts times. The zero value is empty. It belongs to one goroutine.
type Histogram struct {
	buckets [perOctave * octaves]uint32
	count   uint64
	sum     float64
	longest int64
}

func bucketOf(ns int64) int {
	if ns < perOctave {
		return int(max(ns, 0))
	}
	octave := bits.Len64(uint64(ns)) - perOctaveBits // 1 for 64 to 127
	inside := int(ns>>(octave-1)) - perOctave
	return min(octave*perOctave+inside, perOctave*octaves-1)
}

// middleOf is the time in the middle of a bucket.
func middleOf(bucket int) float64 {
	octave, inside := bucket/perOctave, bucket%perOctave
	if octave == 0 {
		return float64(inside)
	}
	width := float64(int64(1) << (octave - 1))
	return (float64(perOctave+inside) + 0.5) * width
}

// Add counts one time.
func (h *Histogram) Add(d time.Duration) {
	h.buckets[bucketOf(int64(d))]++
	h.count++
	h.sum += float64(d)
	h.longest = max(h.longest, int64(d))
}

// Merge adds what another one has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
	h.count += other.count
	h.sum += other.sum
	h.longest = max(h.longest, other.longest)
}

// Count is how many times were added.
func (h *Histogram) Count() uint64 { return h.count }

// Quantile is the time below which a share of all times lies; 0 when there are none.
func (h *Histogram) Quantile(share float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	want, seen := uint64(math.Ceil(share*float64(h.count))), uint64(0)
	for i, n := range h.buckets {
		if seen += uint64(n); seen >= want && n > 0 {
			return time.Duration(min(middleOf(i), float64(h.longest)))
		}
	}
	return time.Duration(h.longest)
}

// Longest is the longest time.
func (h *Histogram) Longest() time.Duration { return time.Duration(h.longest) }

// Mean is the mean of all times; 0 when there are none.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return time.Duration(h.sum / float64(h.count))
}
