package catalog

import (
	"fmt"
	"testing"
	"time"
)

// putMany writes objects onto the one segment of a client.
func putMany(t testing.TB, c *Catalog, now Time, prefix string, count int, o *PutOptions) {
	t.Helper()
	for i := range count {
		key := prefix + fmt.Sprint(i)
		if _, err := c.PutStart(now, bob, key, 100, o, nil); err != nil {
			t.Fatal(err)
		}
		if err := c.PutEnd(now, bob, key, 0, false, ReplicaTypeAll); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLossOfManyKeys takes a client with many keys through all stages. No step may hold the lock for the whole of its
// keys: others get in between two slices.
func TestLossOfManyKeys(t *testing.T) {
	const keys = 30_000
	c := New(testConfig())
	defer c.Close()
	r := &replayed{Catalog: c, t: t}
	mountAll(t, r, 2, 4<<20)
	lost, other := UUID{9, 0}, UUID{9, 1}
	segments := c.Segments()
	segments[0].Client, segments[1].Client = lost, other
	putMany(t, c, 2, "k", keys, &PutOptions{Replicas: 1, HardPin: true, Preferred: []string{segments[0].Name}})
	total := c.Stats().Keys

	step := func(now Time) (slices int) {
		c.mu.Lock()
		var out Swept
		c.sweeper.last, c.sweeper.started = now, true
		c.judge(now, &out)
		c.mu.Unlock()
		for _, work := range []func() bool{c.countLost, func() bool { return c.s.tidy(256) }} {
			for more := true; more; slices++ {
				c.mu.Lock()
				more = work()
				c.mu.Unlock()
			}
		}
		return slices
	}
	held := c.Segments()[0].ObjectCount
	c.Ping(40_000, other)
	if n := step(40_000); n < int(held/256) {
		t.Errorf("%d keys were counted as lost in %d slices", held, n)
	}
	if st := c.Stats(); st.LostKeys != held || st.Keys != total-held || st.LostBytes != held*100 || st.CapacityBytes != 4<<20 {
		t.Errorf("lost: %+v", st)
	}
	c.Ping(41_000, lost)
	c.Ping(41_000, other)
	step(41_000)
	if st := c.Stats(); st.LostKeys != 0 || st.Keys != total || st.CapacityBytes != 8<<20 {
		t.Errorf("back: %+v", st)
	}
	c.Ping(400_000, other)
	if n := step(400_000); n < int(held/256) {
		t.Errorf("%d keys were removed in %d slices", held, n)
	}
	if st := c.Stats(); st.Keys != total-held || st.LostKeys != 0 || st.Segments != 1 {
		t.Errorf("gone: %+v", st)
	}
}

// TestLostAreBounded forgets the client lost longest ago when the lost ones keep too much.
func TestLostAreBounded(t *testing.T) {
	c := newTest(t, testConfig())
	c.lostMax = 25
	for i := range uint64(3) {
		s := segmentNo(i, 1<<20)
		s.Name, s.Endpoint = fmt.Sprint("n", i), fmt.Sprintf("host%d:1", i)
		if err := c.MountSegment(Time(1+i*1000), UUID{9, i}, s); err != nil {
			t.Fatal(err)
		}
		putMany(t, c.Catalog, Time(1+i*1000), s.Name+"/", 10, &PutOptions{Replicas: 1, Preferred: []string{s.Name}})
	}
	for now := Time(3000); now < 36_000; now += 500 {
		c.Sweep(now)
	}
	for i, want := range []Stage{StageGone, StageLost, StageLost} {
		if got := c.ClientStage(UUID{9, uint64(i)}); got != want {
			t.Errorf("client %d is %v, want %v", i, got, want)
		}
	}
	if st := c.Stats(); st.LostKeys != 20 || st.LostClients != 2 || st.Keys != 0 {
		t.Errorf("%+v", st)
	}
}

// TestSuspects lets a sweep make a client suspect that missed pings, and not one that did not.
func TestSuspects(t *testing.T) {
	c := newTest(t, testConfig())
	mountAll(t, c, 2, 1000)
	c.Sweep(1)
	c.Ping(2500, UUID{9, 1})
	c.Sweep(1900)
	c.Sweep(3100)
	if c.ClientStage(UUID{9, 0}) != StageSuspect || c.ClientStage(UUID{9, 1}) != StageActive || c.Stats().SuspectClients != 1 {
		t.Error("the sweep did not make it suspect")
	}
	if s, ok := c.SegmentByID(UUID{100, 0}); !ok || s.Stage != StageSuspect || s.Stage.String() != "suspect" {
		t.Errorf("%+v", s)
	}
}

// BenchmarkExpiry measures the longest time that the lock is held while a client with 300,000 keys is forgotten.
func BenchmarkExpiry(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		c := New(testConfig())
		r := &replayed{Catalog: c, t: b}
		mountAll(b, r, 1, 64<<20)
		putMany(b, c, 2, "k", 300_000, one())
		b.StartTimer()
		longest := time.Duration(0)
		c.mu.Lock()
		c.forget(3, UUID{9, 0})
		c.mu.Unlock()
		for more := true; more; {
			start := time.Now()
			c.mu.Lock()
			more = c.s.tidy(256)
			c.mu.Unlock()
			longest = max(longest, time.Since(start))
		}
		b.ReportMetric(float64(longest.Microseconds()), "µs/slice")
		c.Close()
	}
}
