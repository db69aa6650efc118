package catalog

import (
	"fmt"
	"sync"
	"testing"

	"mooncake/internal/limits"
)

// Keys may be warmed while others write, whether they exist or not, and it changes nothing.
func TestWarm(t *testing.T) {
	cfg := testConfig()
	cfg.HighWatermark = 0
	c := New(cfg)
	t.Cleanup(c.Close)
	if err := c.MountSegment(0, alice, segmentNo(1, 1<<40)); err != nil {
		t.Fatal(err)
	}
	keys := make([]string, 0, 40_000)
	for i := range cap(keys) {
		keys = append(keys, fmt.Sprintf("%040d", i))
	}
	put := func(key string) {
		if _, err := c.PutStart(1, bob, key, 64, one(), nil); err != nil {
			t.Error(err)
		}
		if err := c.PutEnd(1, bob, key, 0, false, ReplicaTypeAll); err != nil {
			t.Error(err)
		}
	}
	half := len(keys) / 2
	for _, key := range keys[:half] {
		put(key)
	}
	if held := c.s.arena.held.Load(); held < limits.CatalogWarmBytes {
		t.Fatalf("the catalog holds %d bytes, too few to be warmed", held)
	}
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range 2000 {
			put(keys[half+i])
			if err := c.Remove(1, keys[i], true); err != nil {
				t.Error(err)
			}
		}
	})
	for i := 0; i < len(keys); i += limits.CatalogWarmKeys {
		c.Warm(keys[i:])
	}
	writer.Wait()
	c.Warm(nil)
	for i, key := range keys {
		if want := i >= 2000 && i < half+2000; c.Exist(2, key) != want {
			t.Fatalf("%s: there %v, want %v", key, !want, want)
		}
	}
}

// BenchmarkLookUps asks for keys in the order of chance, as batches of 100: with and without warming them.
func BenchmarkLookUps(b *testing.B) {
	c, names := benchCatalog(b, 1_000_000)
	fill(b, c, names, 4096)
	for _, warm := range []bool{false, true} {
		b.Run(fmt.Sprint("warm=", warm), func(b *testing.B) {
			b.ReportAllocs()
			keys := make([]string, 100)
			at := uint64(1)
			for b.Loop() {
				for i := range keys {
					at = at*6364136223846793005 + 1442695040888963407
					keys[i] = names[(at>>33)%uint64(len(names))]
				}
				for i, key := range keys {
					if warm && i%limits.CatalogWarmKeys == 0 {
						c.Warm(keys[i:])
					}
					if !c.Exist(1, key) {
						b.Fatal("lost")
					}
				}
			}
		})
	}
}
