package catalog

import (
	"fmt"
	"sync"
	"testing"

	"mooncake/internal/limits"
)

// roomy is a catalog with a segment in which nothing is evicted.
func roomy(t *testing.T) *Catalog {
	t.Helper()
	cfg := testConfig()
	cfg.HighWatermark = 0
	c := New(cfg)
	t.Cleanup(c.Close)
	if err := c.MountSegment(0, alice, segmentNo(1, 1<<40)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Keys may be warmed while others write, whether they exist or not, and it changes nothing.
func TestWarm(t *testing.T) {
	c := roomy(t)
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

// In a turn the hashes of keys are kept. Decisions about these keys are right in every order, and so are those about others:
// keys with the same bytes elsewhere, keys that were left out, keys of an earlier turn.
func TestTurnWarm(t *testing.T) {
	c := roomy(t)
	text := []byte("first key, second key")
	name := func(i int) string { return fmt.Sprintf("%040d", i) }
	const batches, each = 500, limits.CatalogWarmKeys + 7 // the last ones are not kept
	for b := range batches {
		keys := make([]string, each)
		for i := range keys {
			keys[i] = name(b*each + i)
		}
		keys[3] = string(text[:9])[:len(text[:9])-b%2] // an object that is there, and one that is not at first
		turn := c.Turn()
		turn.Warm(keys, b%3 == 0)
		for i := range keys {
			key := keys[i]
			switch {
			case i == 5 || i == 6:
				continue // so the next is not the next
			case i == 9:
				key = keys[20] // twice: the later one is refused
			case i == 11:
				key = string([]byte(key)) // elsewhere
			}
			_, err := turn.PutStart(1, bob, key, 64, one(), nil)
			if refused := i == 20 || i == 3 && b > 1; (err != nil) != refused {
				t.Fatalf("batch %d, key %d %q: %v", b, i, key, err)
			}
			if c.s.hashOf(key) != c.s.hash(key) {
				t.Fatalf("batch %d, key %d %q has another hash", b, i, key)
			}
			if at := c.s.hashed.at; i < limits.CatalogWarmKeys && i != 9 && i != 11 && i != 3 && at != i {
				t.Fatalf("batch %d, key %d: its hash is looked for at %d", b, i, at)
			}
		}
		turn.End()
		turn = c.Turn()
		turn.Warm(keys[:min(each, limits.CatalogWarmKeys)], true)
		for i, key := range keys {
			if err := turn.PutEnd(1, bob, key, 0, false, ReplicaTypeAll); (err != nil) != (i == 5 || i == 6) && i != 9 {
				t.Fatalf("batch %d, key %d %q: %v", b, i, key, err)
			}
		}
		turn.End()
		if c.s.hashed.keys != nil {
			t.Fatal("keys are kept beyond the turn")
		}
	}
	if held := c.s.arena.held.Load(); held < limits.CatalogWarmBytes {
		t.Fatalf("the catalog holds %d bytes, too few to be warmed", held)
	}
	for i := range batches * each {
		if want := i%each != 5 && i%each != 6 && i%each != 3 && i%each != 9; c.Exist(2, name(i)) != want {
			t.Fatalf("key %d of batch %d: there %v, want %v", i%each, i/each, !want, want)
		}
	}
}

// BenchmarkTurnWithRefusals starts and revokes puts in turns of 64 keys, of which none is refused, or the first two are.
func BenchmarkTurnWithRefusals(b *testing.B) {
	for _, refused := range []int{0, 2} {
		b.Run(fmt.Sprint("refused=", refused), func(b *testing.B) {
			c, names := benchCatalog(b, limits.CatalogWarmKeys)
			o := one()
			var buf [1]Replica
			for b.Loop() {
				turn := c.Turn()
				turn.Warm(names, false)
				for i, key := range names {
					size := uint64(4096)
					if i < refused {
						size = 0
					}
					if _, err := turn.PutStart(2, bob, key, size, o, buf[:0]); (err != nil) != (i < refused) {
						b.Fatal(err)
					}
				}
				turn.End()
				for _, key := range names[refused:] {
					if err := c.PutRevoke(2, bob, key, ReplicaTypeAll); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
