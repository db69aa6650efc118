package catalog

import (
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"syscall"
	"testing"
	"time"
)

var liveKeys = flag.Int("live_keys", 100_000, "objects that BenchmarkChurn keeps stored")

// BenchmarkPutBySegments stores and removes objects in pools of one size cut into ever more segments.
func BenchmarkPutBySegments(b *testing.B) {
	for _, segments := range []int{1, 16, 128, 1024} {
		b.Run(fmt.Sprintf("segments=%d/owners=1", segments), func(b *testing.B) { putInto(b, segments, 1) })
		b.Run(fmt.Sprintf("segments=%d/owners=all", segments), func(b *testing.B) { putInto(b, segments, segments) })
	}
}

func putInto(b *testing.B, segments, owners int) {
	cfg := testConfig()
	cfg.HighWatermark = 0
	c := New(cfg)
	b.Cleanup(c.Close)
	for i := range segments {
		if err := c.MountSegment(0, UUID{7, uint64(i % owners)}, segmentNo(uint64(i), 1<<40/uint64(segments))); err != nil {
			b.Fatal(err)
		}
	}
	churn(b, c, 20_000)
}

// BenchmarkChurn keeps -live_keys objects stored and goes on: each step removes the oldest and stores another one. With
// -benchtime=100000000x it is the life of a hundred million keys.
func BenchmarkChurn(b *testing.B) {
	c, _ := benchCatalog(b, 0)
	churn(b, c, *liveKeys)
	if st := c.Stats(); st.Keys != uint64(*liveKeys) {
		b.Fatalf("%d keys are left, want %d", st.Keys, *liveKeys)
	}
	b.ReportMetric(float64(c.s.arena.held.Load())/float64(*liveKeys), "arenaB/key")
}

func churn(b *testing.B, c *Catalog, live int) {
	o := one()
	var buf [1]Replica
	var number [20]byte
	var text [40]byte
	key := func(i int) string {
		binary.BigEndian.PutUint64(number[:], uint64(i)*0x9e3779b97f4a7c15)
		hex.Encode(text[:], number[:])
		return string(text[:])
	}
	put := func(i int) {
		k := key(i)
		if _, err := c.PutStart(2, bob, k, 4096, o, buf[:0]); err != nil {
			b.Fatal(err)
		}
		if err := c.PutEnd(2, bob, k, 0, false, ReplicaTypeAll); err != nil {
			b.Fatal(err)
		}
	}
	for i := range live {
		put(i)
	}
	b.ReportAllocs()
	before := spentNs(b)
	b.ResetTimer()
	for i := range b.N {
		if err := c.Remove(2, key(i), true); err != nil {
			b.Fatal(err)
		}
		put(live + i)
	}
	b.StopTimer()
	b.ReportMetric(float64(spentNs(b)-before)/float64(b.N), "cpu-ns/op")
}

// spentNs is the processor time of this process so far: what else the machine does is not in it.
func spentNs(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkRemoveAll takes a million objects away in one call: such as nobody read, such as were all read just now, and these
// between as many holes. Then a catalog that follows does so.
func BenchmarkRemoveAll(b *testing.B) {
	for _, bc := range []struct {
		name         string
		read, hollow bool
	}{{"unread", false, false}, {"read", true, false}, {"read with holes", true, true}} {
		b.Run(bc.name, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				removeAll(b, bc.read, bc.hollow)
			}
		})
	}
}

func removeAll(b *testing.B, read, hollow bool) {
	const objects = 1_000_000
	c, _ := benchCatalog(b, 0)
	twin := New(c.cfg)
	defer c.Close()
	defer twin.Close()
	mount := segmentNo(1, 1<<40)
	twin.Apply([]Change{{Kind: ChangeMount, Client: alice, Segment: &mount}})
	c.OnChange(twin.Apply)
	o := one()
	put := func(key string) {
		if _, err := c.PutStart(2, bob, key, 4096, o, nil); err != nil {
			b.Fatal(err)
		}
		if err := c.PutEnd(3, bob, key, 0, false, ReplicaTypeAll); err != nil {
			b.Fatal(err)
		}
	}
	for i := range objects {
		key := fmt.Sprintf("%040x", uint64(i)*0x9e3779b97f4a7c15)
		put(key)
		if read {
			if _, _, err := c.Get(4, key, nil); err != nil {
				b.Fatal(err)
			}
		}
		if hollow {
			put(fmt.Sprint("hole", i))
		}
	}
	for i := 0; hollow && i < objects; i++ {
		if err := c.Remove(5, fmt.Sprint("hole", i), true); err != nil {
			b.Fatal(err)
		}
	}
	var changes []Change
	c.OnChange(func(more []Change) { // the other follows afterwards
		for i := range more {
			changes = append(changes, more[i].Clone())
		}
	})
	longest := probe(c)
	before := spentNs(b)
	b.StartTimer()
	n := c.RemoveMatching(6, nil, true)
	b.StopTimer()
	b.ReportMetric(float64(spentNs(b)-before)/objects, "cpu-ns/object")
	b.ReportMetric(float64(longest().Microseconds())/1000, "longest-ms")
	if n != objects {
		b.Fatalf("%d objects went, want %d", n, objects)
	}
	began := time.Now()
	twin.Apply(changes)
	b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "follow-ms")
}

// probe asks for the lock once a millisecond; the function that it returns ends that and gives the longest wait.
func probe(c *Catalog) (longest func() time.Duration) {
	end, result := make(chan struct{}), make(chan time.Duration)
	go func() {
		most := time.Duration(0)
		for {
			select {
			case <-end:
				result <- most
				return
			case <-time.After(time.Millisecond):
				began := time.Now()
				c.KeyCount()
				most = max(most, time.Since(began))
			}
		}
	}()
	return func() time.Duration {
		close(end)
		return <-result
	}
}

// BenchmarkEvictGroup evicts one group of 200,000 members, which is one decision: the lock is held for all of it.
func BenchmarkEvictGroup(b *testing.B) {
	const members = 200_000
	for range b.N {
		b.StopTimer()
		cfg := testConfig()
		cfg.HighWatermark, cfg.EvictionRatio = 0.5, 0.1
		c := New(cfg)
		if err := c.MountSegment(0, alice, segmentNo(1, members*4096)); err != nil {
			b.Fatal(err)
		}
		o := one()
		o.Group = "all"
		for i := range members {
			key := fmt.Sprintf("%040x", uint64(i)*0x9e3779b97f4a7c15)
			if _, err := c.PutStart(2, bob, key, 4096, o, nil); err != nil {
				b.Fatal(err)
			}
			if err := c.PutEnd(3, bob, key, 0, false, ReplicaTypeAll); err != nil {
				b.Fatal(err)
			}
		}
		longest := probe(c)
		before := spentNs(b)
		b.StartTimer()
		if out := c.Sweep(4); out.EvictedKeys != members {
			b.Fatalf("%d members went, want %d", out.EvictedKeys, members)
		}
		b.StopTimer()
		b.ReportMetric(float64(spentNs(b)-before)/1e6, "cpu-ms/group")
		b.ReportMetric(float64(longest().Microseconds())/1000, "longest-ms")
		c.Close()
		b.StartTimer()
	}
}
