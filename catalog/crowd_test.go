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
		s := Segment{ID: UUID{7, uint64(i)}, Name: "h", Base: 1, Size: size}
		c.Apply([]Change{{Kind: ChangeMount, Client: UUID{1, 2}, Segment: &s}}) // a damaged log
		if got := c.Stats(); got.CapacityBytes != 1<<20 {
			t.Errorf("%d bytes with a segment of %d", got.CapacityBytes, size)
		}
		err := c.MountSegment(0, UUID{1, 2}, s)
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

// decisions counts how often a Catalog decides while f runs.
func decisions(c *Catalog, f func()) (n int) {
	c.onChange = func([]Change) { n++ }
	defer func() { c.onChange = nil }()
	f()
	return n
}

// A rack that loses its power takes many clients at once through every stage. What has to go goes in one decision: client by
// client, each would put all lists in order anew.
func TestManyClientsGoAtOnce(t *testing.T) {
	const clients = limits.CatalogLostSegmentsMax + 1000
	c := New(Config{ClientActiveTTLMs: 1000, ClientSuspicionTTLMs: 1000, ClientLostTTLMs: 1000, HighWatermark: 1})
	defer c.Close()
	for i := range uint64(clients) {
		s := segmentNo(i, 1<<20)
		s.Endpoint = "node" + strconv.FormatUint(i, 10)
		if err := c.MountSegment(0, UUID{9, i}, s); err != nil {
			t.Fatal(err)
		}
	}
	c.Sweep(1)
	for _, step := range []struct {
		at    Time
		lost  int
		gone  int
		stage Stage
	}{{1100, 0, 0, StageSuspected}, {2100, clients, clients - limits.CatalogLostSegmentsMax, StageLost}, {3100, 0, limits.CatalogLostSegmentsMax, StageGone}} {
		var swept Swept
		n := decisions(c, func() { swept = c.Sweep(step.at) })
		if len(swept.LostClients) != step.lost || len(swept.GoneClients) != step.gone || len(swept.LostSegments) != step.gone || n > 1 {
			t.Errorf("at %d: %d lost, %d gone with %d segments in %d decisions, want %d, %d in one", step.at,
				len(swept.LostClients), len(swept.GoneClients), len(swept.LostSegments), n, step.lost, step.gone)
		}
	}
	if st := c.Stats(); st.Segments != 0 || st.LostClients != 0 || st.ExpiredClients != clients {
		t.Errorf("%+v", st)
	}
}

// Many writers die at once, each in the middle of a put, while others have as many puts under way: one walk finds all.
func TestManyWritersDieAtOnce(t *testing.T) {
	const writers = 4 * limits.CatalogSliceItems
	c := newTest(t, testConfig())
	if err := c.MountSegment(1, alice, segmentNo(1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	var gone []Departure
	put := func(id UUID, key string) {
		t.Helper()
		if _, err := c.PutStart(2, id, key, 10, one(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(writers) {
		put(bob, "bob"+strconv.FormatUint(i, 10))
		put(UUID{9, i}, "k"+strconv.FormatUint(i, 10))
		gone = append(gone, Departure{UUID{9, i}, 2})
	}
	gone = append(gone, Departure{UUID{9, writers}, 2}, Departure{bob, 1})
	aborted := c.WritersGone(10, gone)
	for i, n := range aborted {
		want := 1
		if i >= writers {
			want = 0
		}
		if n != want {
			t.Fatalf("%d writes of %v ended, want %d", n, gone[i], want)
		}
	}
	if st := c.Stats(); st.OpenKeys != writers || st.AbortedPuts != writers || st.QuarantinedBytes != writers*10 {
		t.Errorf("%+v", st)
	}
	c.Sweep(10 + Time(c.cfg.WriterQuarantineMs))
	if st := c.Stats(); st.QuarantinedBytes != 0 || st.AllocatedBytes != writers*10 {
		t.Errorf("after the quarantine: %+v", st)
	}
}

// Ranges that wait for writers have one end more each when the writer dies, however often it does, and none stays behind.
func TestEndsOfQuarantineAreBounded(t *testing.T) {
	const puts = 100
	c := newTest(t, testConfig())
	if err := c.MountSegment(1, alice, segmentNo(1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	for i := range puts {
		key := "k" + strconv.Itoa(i)
		if _, err := c.PutStart(2, bob, key, 10, one(), nil); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "remove", c.Remove(3, key, true), 0)
	}
	for now := range Time(50) {
		c.WritersGone(10+now, []Departure{{bob, 10 + now}})
	}
	if n := len(c.s.heldBack.ends); n != 2*puts {
		t.Errorf("%d ends of %d ranges", n, puts)
	}
	c.Sweep(10 + Time(c.cfg.WriterQuarantineMs))
	if st := c.Stats(); st.QuarantinedBytes != 0 || len(c.s.heldBack.ends) != 0 {
		t.Errorf("%+v, %d ends", st, len(c.s.heldBack.ends))
	}
}
