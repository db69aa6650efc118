package catalog

import (
	"runtime"
	"strconv"
	"testing"

	"mooncake/internal/limits"
)

// A client with thousands of segments must not hold everybody else up, neither when it comes nor when it goes. Time is
// measured in bytes: work for each segment that grows with their number shows as gigabytes of copied lists.
func TestClientWithThousandsOfSegments(t *testing.T) {
	const segments, budget = 8192, 64 << 20
	c := New(Config{ClientActiveTTLMs: 1000, ClientSuspicionTTLMs: 1, ClientLostTTLMs: 1, HighWatermark: 1})
	defer c.Close()
	owner, other := UUID{1, 1}, UUID{1, 2}
	allocated := func(f func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if err := c.MountSegment(0, other, Segment{ID: UUID{8, 1}, Name: "all", Base: 1 << 44, Size: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	for round := range 2 { // the second takes the places that the first gave back
		came := allocated(func() {
			for i := range uint64(segments) {
				if err := c.MountSegment(Time(round*10_000), owner, Segment{ID: UUID{9, i}, Name: "all", Base: 1 << 44, Size: 1 << 20}); err != nil {
					t.Fatal(err)
				}
			}
		})
		if got := len(c.SegmentsNamed("all")); got != segments+1 {
			t.Fatalf("%d segments of the name, want %d", got, segments+1)
		}
		c.Sweep(Time(round * 10_000))
		at := Time(round*10_000 + 1900)
		c.touch(at, other)
		var swept Swept
		went := allocated(func() { swept = c.Sweep(at) })
		if len(swept.LostSegments) != segments {
			t.Fatalf("%d segments lost, want %d", len(swept.LostSegments), segments)
		}
		if came > budget || went > budget {
			t.Fatalf("%d segments took %d bytes to come and %d to go", segments, came, went)
		}
		if left := c.SegmentsNamed("all"); len(left) != 1 || len(c.SegmentsOf(owner)) != 0 || len(c.Segments()) != 1 {
			t.Fatalf("left: %v", left)
		}
		c.touch(Time((round+1)*10_000), other)
	}
}

// The sizes of all segments must add up, or the eviction takes a full pool for an overfull one and empties it.
func TestSegmentSizesAddUp(t *testing.T) {
	c := New(Config{HighWatermark: 0.9, EvictionRatio: 0.05})
	defer c.Close()
	if err := c.MountSegment(0, UUID{1, 1}, segmentNo(1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		k := strconv.Itoa(i)
		if _, err := c.PutStart(0, UUID{1, 1}, k, 64<<10, one(), nil); err != nil {
			t.Fatal(err)
		}
		if err := c.PutEnd(0, UUID{1, 1}, k, 0, false, ReplicaTypeMemory); err != nil {
			t.Fatal(err)
		}
	}
	for i, size := range []uint64{1 << 63, 1<<63 - 600<<10, limits.CatalogSegmentBytesMax + 1} {
		err := c.MountSegment(0, UUID{1, 2}, Segment{ID: UUID{7, uint64(i)}, Name: "h", Base: 1, Size: size})
		wantErr(t, "segment of "+strconv.FormatUint(size, 10)+" bytes", err, ErrInvalidParams)
	}
	if got := c.Sweep(1000); got.EvictedKeys != 0 || c.Stats().Keys != 8 {
		t.Fatalf("%d objects evicted from a half empty pool, %d left", got.EvictedKeys, c.Stats().Keys)
	}
	if limits.CatalogSegmentBytesMax > (1<<63)/limits.CatalogSegmentsMax {
		t.Fatal("as many segments as are allowed, as large as is allowed, add up to more than 2^63")
	}
}

// A put may name as many preferred segments as it likes: so many are looked at in one pass, each once, however many copies it
// asks for.
func TestPreferredSegmentsAreLookedAtOnce(t *testing.T) {
	c := New(Config{})
	defer c.Close()
	for i := range uint64(4) {
		s := segmentNo(i, 1<<20)
		s.Name = "segment " + strconv.FormatUint(i, 10)
		if err := c.MountSegment(0, UUID{1, 1}, s); err != nil {
			t.Fatal(err)
		}
	}
	names := func(n int, then ...string) []string {
		list := make([]string, n, n+len(then))
		return append(list, then...)
	}
	const third = "segment 3"
	for _, tc := range []struct {
		what  string
		names []string
		want  bool
	}{
		{"the last that is looked at", names(limits.PreferredSegmentsMax-1, third), true},
		{"behind a name that is there twice", names(0, third, third, "segment 2"), true},
	} {
		w := c.newWrite(0, UUID{1, 1}, "k", 10, &PutOptions{Replicas: 4, Preferred: tc.names})
		places := append([]place(nil), c.place(&w)...)
		if len(places) != 4 || (places[0].seg.info.Name == third) != tc.want {
			t.Errorf("%s: %v", tc.what, places)
		}
	}
	w := c.newWrite(0, UUID{1, 1}, "k", 10, &PutOptions{Replicas: 4, Preferred: names(1<<20, third)})
	c.startPlaces(&w)
	if c.takeSome(&w, 4, false); len(c.placer.places) != 4 || w.wish != limits.PreferredSegmentsMax {
		t.Errorf("%d copies, %d names looked at in one pass", len(c.placer.places), w.wish)
	}
}
