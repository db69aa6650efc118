package catalog

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"mooncake/internal/limits"
)

var seeds = flag.Int("trace_seeds", traceSeeds, "how many training loops TestTrainingTrace replays at each filling")

func mountAll(t testing.TB, c *replayed, count int, size uint64) {
	t.Helper()
	for i := range count {
		s := segmentNo(uint64(i), size)
		s.Base, s.Endpoint = uint64(i+1)<<40, fmt.Sprintf("host%d:1", i)
		if err := c.MountSegment(1, UUID{9, uint64(i)}, s); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFreshSegmentShare adds an empty segment to four that are nearly full: of the next thousand puts it takes more than its
// share, to even the load out, but at most twice as much.
func TestFreshSegmentShare(t *testing.T) {
	const size, segment = 64 << 10, 128 << 20
	cfg := testConfig()
	cfg.HighWatermark = 0
	c := newTest(t, cfg)
	mountAll(t, c, 4, segment)
	for i := range 4 * segment / size * 9 / 10 {
		key := fmt.Sprint("old", i)
		if _, err := c.PutStart(2, alice, key, size, one(), nil); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "end", c.PutEnd(2, alice, key, 0, false, ReplicaTypeAll), 0)
	}
	mountAll(t, c, 5, segment)
	fresh := 0
	for i := range 1000 {
		replicas, err := c.PutStart(3, alice, fmt.Sprint("new", i), size, one(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if replicas[0].Segment.ID == (UUID{100, 4}) {
			fresh++
		}
	}
	if fresh < 200 || fresh > 450 {
		t.Errorf("the fresh segment took %d of 1000 puts of %d bytes", fresh, size)
	}
}

// TestWeights draws large objects by the weight of the segments.
func TestWeights(t *testing.T) {
	c := newTest(t, testConfig())
	for i, size := range []uint64{1 << 40, 3 << 40} {
		s := segmentNo(uint64(i), size)
		s.Base, s.Endpoint = 1<<42, fmt.Sprintf("host%d:1", i)
		if err := c.MountSegment(1, alice, s); err != nil {
			t.Fatal(err)
		}
	}
	large := 0
	for i := range 1000 {
		replicas, err := c.PutStart(3, alice, fmt.Sprint(i), 4<<20, one(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if replicas[0].Segment.Size == 3<<40 {
			large++
		}
	}
	if large < 690 || large > 810 {
		t.Errorf("%d of 1000 went to the segment with three quarters of the space", large)
	}
}

// TestTrainingTrace replays the traffic of a training loop on four segments: a step drops the oldest bundles until its 31
// small and three large objects fit under the target, and writes them. Everything is hard pinned, so that nothing is
// evicted and a put that fails is one for which the placement left no hole.
func TestTrainingTrace(t *testing.T) {
	const segments, segment, steps = 4, 128 << 20, 1500
	for _, tc := range []struct {
		live      uint64
		failedMax float64 // percent of the large puts
	}{{75, 0}, {80, 0}, {85, 1}, {90, 12}} {
		large, failed := 0, 0
		for seed := uint64(1); seed <= uint64(*seeds); seed++ {
			cfg := testConfig()
			cfg.Seed, cfg.HighWatermark = seed, 0
			c := New(cfg)
			r := &replayed{Catalog: c, t: t}
			mountAll(t, r, segments, segment)
			dice := rand.New(rand.NewPCG(seed, 42))
			due := make([][]string, steps+4)
			sizes := map[string]uint64{}
			oldest, live, now := 0, uint64(0), Time(10)
			for step := range steps {
				var puts []uint64
				sum := uint64(0)
				for range 31 {
					puts = append(puts, uint64(16*math.Pow(70_000.0/16, dice.Float64())))
				}
				for range 3 {
					puts = append(puts, 21<<19+dice.Uint64N(124<<20/10-21<<19))
				}
				for _, n := range puts {
					sum += n
				}
				for live+sum > segments*segment/100*tc.live {
					for len(due[oldest]) == 0 {
						oldest++
					}
					key := due[oldest][0]
					due[oldest] = due[oldest][1:]
					wantErr(t, "remove", c.Remove(now, key, false), 0)
					live -= sizes[key]
					delete(sizes, key)
				}
				goes := step + 1 + dice.IntN(3)
				for i, n := range puts {
					now++
					key := fmt.Sprintf("%d/%d", step, i)
					if n >= 1<<20 {
						large++
					}
					if _, err := c.PutStart(now, alice, key, n, &PutOptions{Replicas: 1, HardPin: true}, nil); err != nil {
						if n >= 1<<20 {
							failed++
						}
						continue
					}
					wantErr(t, "end", c.PutEnd(now, alice, key, 0, false, ReplicaTypeAll), 0)
					live += n
					sizes[key] = n
					due[goes] = append(due[goes], key)
				}
			}
			c.Close()
		}
		got := 100 * float64(failed) / float64(large)
		t.Logf("%d %% live: %d of %d large puts failed (%.2f %%)", tc.live, failed, large, got)
		if got > tc.failedMax {
			t.Errorf("%d %% live: %.2f %% of the large puts failed, at most %.2f are allowed", tc.live, got, tc.failedMax)
		}
	}
}

// TestRuns puts small objects into many segments: they go in runs, and yet all segments get about as much. What is larger, or
// has several copies, is not drawn out of the run.
func TestRuns(t *testing.T) {
	const segments, puts, size = limits.StaySegments, 64 * limits.StaySegments, limits.StayBytes / limits.StayPuts
	c := newTest(t, testConfig())
	mountAll(t, c, segments, 1<<30)
	count, changes, last := map[UUID]int{}, 0, UUID{}
	for i := range puts {
		replicas, err := c.PutStart(2, alice, fmt.Sprint("small", i), size, one(), nil)
		if err != nil {
			t.Fatal(err)
		}
		id := replicas[0].Segment.ID
		if count[id]++; id != last {
			last = id
			changes++
		}
	}
	if changes > puts/limits.StayPuts || changes < puts/limits.StayPuts*9/10 {
		t.Errorf("%d puts went in %d runs", puts, changes)
	}
	for id, n := range count {
		if n > 2*puts/segments {
			t.Errorf("segment %v took %d of %d puts", id, n, puts)
		}
	}
	if len(count) != segments {
		t.Errorf("%d segments of %d took something", len(count), segments)
	}
	for i := range 8 {
		replicas, err := c.PutStart(2, alice, fmt.Sprint("two", i), size, &PutOptions{Replicas: 2}, nil)
		if err != nil || len(replicas) != 2 || replicas[0].Segment.ID == replicas[1].Segment.ID {
			t.Fatalf("two copies: %v, %v", replicas, err)
		}
	}
	apart := map[UUID]bool{}
	for i := range 32 {
		replicas, err := c.PutStart(2, alice, fmt.Sprint("large", i), limits.StayBytes, one(), nil)
		if err != nil {
			t.Fatal(err)
		}
		apart[replicas[0].Segment.ID] = true
	}
	if len(apart) < 8 {
		t.Errorf("32 larger objects went to %d segments", len(apart))
	}
}

// TestRunEnds fills the segment of a run, and takes it away: the run goes on elsewhere.
func TestRunEnds(t *testing.T) {
	const size = 1000
	c := newTest(t, testConfig())
	mountAll(t, c, limits.StaySegments, 5*size)
	for i := range 4 * limits.StaySegments {
		replicas, err := c.PutStart(2, alice, fmt.Sprint(i), size, one(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if i%16 == 15 {
			if _, err := c.UnmountSegment(2, replicas[0].Segment.ID, alice); err != nil {
				t.Fatal(err)
			}
		}
	}
}
