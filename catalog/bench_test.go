package catalog

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// benchCatalog has one segment and keys of 40 bytes.
func benchCatalog(b *testing.B, keys int) (*Catalog, []string) {
	cfg := testConfig()
	cfg.HighWatermark = 0
	c := New(cfg)
	b.Cleanup(c.Close)
	if err := c.MountSegment(0, alice, segmentNo(1, 1<<40)); err != nil {
		b.Fatal(err)
	}
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("%040d", i*7919)
	}
	return c, names
}

func fill(b *testing.B, c *Catalog, names []string, size uint64) {
	o := one()
	var buf [1]Replica
	for _, key := range names {
		if _, err := c.PutStart(1, bob, key, size, o, buf[:0]); err != nil {
			b.Fatal(err)
		}
		if err := c.PutEnd(1, bob, key, 0, false, ReplicaTypeAll); err != nil {
			b.Fatal(err)
		}
	}
}

const benchKeys = 100_000

func BenchmarkPutEndRemove(b *testing.B) {
	c, names := benchCatalog(b, benchKeys)
	fill(b, c, names, 4096)
	o := one()
	var buf [1]Replica
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		key := names[i%len(names)]
		if err := c.Remove(2, key, true); err != nil {
			b.Fatal(err)
		}
		if _, err := c.PutStart(2, bob, key, 4096, o, buf[:0]); err != nil {
			b.Fatal(err)
		}
		if err := c.PutEnd(2, bob, key, 0, false, ReplicaTypeAll); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPutOfBundleMember(b *testing.B) {
	c, _ := benchCatalog(b, 0)
	names := make([]string, 1<<16)
	for i := range names {
		names[i] = fmt.Sprintf("miles-object-store/default/%032x/buffer/non_tensor_batch.tokens.data/chunk/%d", i/32, i%32)
	}
	o := &PutOptions{Replicas: 1}
	var buf [1]Replica
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		key := names[i%len(names)]
		o.Group = names[i%len(names)/32*32]
		if i >= len(names) {
			if err := c.Remove(2, key, true); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := c.PutStart(2, bob, key, 4096, o, buf[:0]); err != nil {
			b.Fatal(err)
		}
		if err := c.PutEnd(2, bob, key, 0, false, ReplicaTypeAll); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	c, names := benchCatalog(b, benchKeys)
	fill(b, c, names, 4096)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		var buf [1]Replica
		for i := 0; pb.Next(); i++ {
			if _, _, err := c.Get(Time(i), names[i*31%len(names)], buf[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkExist(b *testing.B) {
	c, names := benchCatalog(b, benchKeys)
	fill(b, c, names, 4096)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i++; !c.Exist(Time(i), names[i*31%len(names)]) {
			b.Fatal("lost")
		}
	}
}

// BenchmarkPutIntoFullPool stores objects of mixed sizes into a pool that is always full.
func BenchmarkPutIntoFullPool(b *testing.B) {
	cfg := testConfig()
	cfg.HighWatermark = 0
	c := New(cfg)
	b.Cleanup(c.Close)
	for i := range uint64(4) {
		if err := c.MountSegment(0, alice, segmentNo(i, 128<<20)); err != nil {
			b.Fatal(err)
		}
	}
	o := one()
	var buf [1]Replica
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		size := uint64(16 + i*7919%70_000)
		if i%34 > 30 {
			size = 11 << 20
		}
		key := strconv.Itoa(i)
		now := Time(i)
		if _, err := c.PutStart(now, bob, key, size, o, buf[:0]); err != nil {
			b.Fatal(err)
		}
		if err := c.PutEnd(now, bob, key, 0, false, ReplicaTypeAll); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLargePutAmongSmall stores objects of 64 MiB into a full pool of 250,000 small ones, none of which makes the
// room alone.
func BenchmarkLargePutAmongSmall(b *testing.B) {
	cfg := testConfig()
	cfg.HighWatermark = 0
	c := New(cfg)
	b.Cleanup(c.Close)
	if err := c.MountSegment(0, alice, segmentNo(1, 1<<30)); err != nil {
		b.Fatal(err)
	}
	o := one()
	store := func(now Time, key string, size uint64) {
		if _, err := c.PutStart(now, bob, key, size, o, nil); err != nil {
			b.Fatal(err)
		}
		if err := c.PutEnd(now, bob, key, 0, false, ReplicaTypeAll); err != nil {
			b.Fatal(err)
		}
	}
	const small = 1 << 18
	for i := range small {
		c.Exist(Time(i*7919%small), strconv.Itoa(i*31%small)) // leases make the ages random
		store(Time(i), strconv.Itoa(i), 4096)
	}
	b.ResetTimer()
	for i := range b.N {
		store(Time(small+20_000+i*200), "large"+strconv.Itoa(i), 64<<20)
	}
}

// BenchmarkMemoryPerKey reports what a key of 40 bytes with one replica costs in resident memory.
func BenchmarkMemoryPerKey(b *testing.B) {
	const keys = 500_000
	for b.Loop() {
		c, names := benchCatalog(b, keys)
		debug.FreeOSMemory()
		before := residentBytes(b)
		fill(b, c, names, 64)
		full := residentBytes(b)
		debug.FreeOSMemory()
		b.ReportMetric(float64(full-before)/keys, "B/key")
		runtime.KeepAlive(names)
	}
}

func residentBytes(b *testing.B) int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// BenchmarkPutUnderRules is BenchmarkPutEndRemove with rules: none that fits the keys, one that fits, and one with limits.
func BenchmarkPutUnderRules(b *testing.B) {
	for _, rule := range []struct {
		name string
		list []Workload
	}{
		{"none", nil},
		{"other", []Workload{{Name: "roll", Prefixes: []string{"miles-object-store/"}}}},
		{"fits", []Workload{{Name: "kv", Prefixes: []string{"0"}}}},
		{"limits", []Workload{{Name: "kv", Prefixes: []string{"0"}, SoftBytes: 1 << 39, HardBytes: 1 << 39, ReservedBytes: 1 << 38}, {Name: "roll", Prefixes: []string{"miles-object-store/"}, ReservedBytes: 1 << 38}}},
		{"ttl", []Workload{{Name: "kv", Prefixes: []string{"0"}, TTLMs: 3_600_000}}},
	} {
		b.Run(rule.name, func(b *testing.B) {
			c, names := benchCatalog(b, benchKeys)
			fill(b, c, names, 4096)
			if err := c.SetWorkloads(1, rule.list); err != nil {
				b.Fatal(err)
			}
			o := one()
			var buf [1]Replica
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				key := names[i%len(names)]
				if err := c.Remove(2, key, true); err != nil {
					b.Fatal(err)
				}
				if _, err := c.PutStart(2, bob, key, 4096, o, buf[:0]); err != nil {
					b.Fatal(err)
				}
				if err := c.PutEnd(2, bob, key, 0, false, ReplicaTypeAll); err != nil {
					b.Fatal(err)
				}
				if i%10_000 == 0 {
					c.Sweep(2)
				}
			}
		})
	}
}

// BenchmarkPutAtHardLimit stores objects of a workload that is full in a pool that is not.
func BenchmarkPutAtHardLimit(b *testing.B) {
	c, names := benchCatalog(b, benchKeys)
	if err := c.SetWorkloads(1, []Workload{{Name: "kv", Prefixes: []string{"k"}, HardBytes: 4096 * 10_000}}); err != nil {
		b.Fatal(err)
	}
	fill(b, c, names, 4096)
	o := one()
	var buf [1]Replica
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		key := "k" + strconv.Itoa(i)
		now := Time(i)
		if _, err := c.PutStart(now, bob, key, 4096, o, buf[:0]); err != nil {
			b.Fatal(err)
		}
		if err := c.PutEnd(now, bob, key, 0, false, ReplicaTypeAll); err != nil {
			b.Fatal(err)
		}
	}
}
