package figures

import (
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestQuantiles compares the histogram with sorted times.
func TestQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64Range(0, int64(time.Hour)), 1, 200).Draw(t, "times")
		share := rapid.SampledFrom([]float64{0.5, 0.9, 0.99, 1}).Draw(t, "share")
		var h, half Histogram
		for i, ns := range times {
			if i%2 == 0 {
				h.Add(time.Duration(ns))
			} else {
				half.Add(time.Duration(ns))
			}
		}
		h.Merge(&half)
		slices.Sort(times)
		want := float64(times[int(math.Ceil(share*float64(len(times))))-1])
		if got := float64(h.Quantile(share)); math.Abs(got-want) > want*0.016+1 {
			t.Fatalf("quantile %v of %v is %v, want %v", share, times, got, want)
		}
		if h.Count() != uint64(len(times)) || int64(h.Longest()) != times[len(times)-1] {
			t.Fatalf("%d times, the longest %v", h.Count(), h.Longest())
		}
	})
}

func TestHistogramOfNothing(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Mean() != 0 {
		t.Error("an empty histogram has times")
	}
	h.Add(2 * time.Second)
	h.Add(4 * time.Second)
	if h.Mean() != 3*time.Second {
		t.Errorf("mean %v", h.Mean())
	}
}

func TestMedianAndRatio(t *testing.T) {
	for _, tc := range []struct {
		of   []float64
		want float64
	}{{[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}, {[]float64{7}, 7}} {
		if got := Median(tc.of); got != tc.want {
			t.Errorf("median of %v is %v", tc.of, got)
		}
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("the median of nothing is a number")
	}
	// The ratios of the rounds are 2, 0.5 and 1; the ratio of the medians would be another one.
	of, base := map[int]float64{0: 20, 1: 5, 2: 7, 3: 9, 5: 3}, map[int]float64{0: 10, 1: 10, 2: 7, 4: 1, 5: 0}
	if got := Ratio(of, base); got != 1 {
		t.Errorf("ratio %v", got)
	}
	if !math.IsNaN(Ratio(of, nil)) {
		t.Error("a ratio to nothing")
	}
}

// TestRead looks at this very process while it works.
func TestRead(t *testing.T) {
	before, err := Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after, deadline := before, time.Now().Add(time.Minute)
	for after.Processor-before.Processor < 50*time.Millisecond && time.Now().Before(deadline) {
		for range 1000 {
			if after, err = Read(os.Getpid()); err != nil {
				t.Fatal(err)
			}
			if after.Processor-before.Processor >= 50*time.Millisecond {
				break
			}
		}
	}
	u := Between(before, after)
	if u.Processor < 50*time.Millisecond || u.Own <= 0 || u.Wall <= 0 {
		t.Errorf("a process that worked has used %+v", u)
	}
	if after.RSSBytes <= 0 || after.Threads <= 0 || after.Switches <= 0 || after.Scheduled <= 0 {
		t.Errorf("nothing is known of it: %+v", after)
	}
	if _, err := Read(1 << 30); err == nil {
		t.Error("a process that does not exist could be read")
	}
}
