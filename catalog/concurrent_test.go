package catalog

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"mooncake/internal/limits"
)

// TestReadersAndWriters lets readers, writers and sweeps run at once. Under the race detector the records lie on the Go
// heap, where it sees them. A reader must never get a replica of another object: sizes tell them apart.
func TestReadersAndWriters(t *testing.T) {
	cfg := testConfig()
	cfg.LeaseMs, cfg.BundleStagingIdleMs, cfg.HideDamagedBundles = 2, 500, true
	cfg.Retention = []RetentionRule{{Prefix: "p/", MaxAgeMs: 1000}}
	c := newTest(t, cfg)
	c.clearReads = 0
	var clock atomic.Int64
	clock.Store(1000)
	now := func() Time { return Time(clock.Add(1)) }
	for i := range uint64(3) {
		if err := c.MountSegment(now(), alice, segmentNo(i, 64<<10)); err != nil {
			t.Fatal(err)
		}
	}
	const keys, rounds = 300, 1500
	size := func(i int) uint64 { return uint64(i)*7 + 1 }
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("p/%032x/buffer/%d", i%40, i)
		if i < 40 {
			names[i] = fmt.Sprintf("p/%032x/manifest", i)
		}
	}
	var wg sync.WaitGroup
	start := func(n int, deed func(dice *rand.Rand)) {
		for g := range n {
			wg.Go(func() {
				dice := rand.New(rand.NewPCG(uint64(g), uint64(n)))
				for range rounds {
					deed(dice)
				}
			})
		}
	}
	start(2, func(dice *rand.Rand) {
		i := dice.IntN(keys)
		o := &PutOptions{Replicas: 1 + uint64(i%2)}
		if i%3 == 0 {
			o.Group = fmt.Sprint("g", i%20)
		}
		by := UUID{8, dice.Uint64N(3)}
		if _, err := c.PutStart(now(), by, names[i], size(i), o, nil); err == nil {
			if dice.IntN(10) == 0 {
				_ = c.PutRevoke(now(), by, names[i], ReplicaTypeAll)
				return
			}
			_ = c.PutEnd(now(), by, names[i], uint64(i), true, ReplicaTypeAll)
		}
	})
	start(2, func(dice *rand.Rand) {
		i := dice.IntN(keys)
		o, replicas, err := c.Get(now(), names[i], nil)
		if err != nil {
			return
		}
		if o.Size != size(i) || o.Checksum != uint64(i) || len(replicas) == 0 || replicas[0].Size != size(i) {
			t.Errorf("%q: %+v %+v", names[i], o, replicas)
		}
		if !c.Exist(now(), names[i]) && replicas[0].Segment.Size > 0 {
			return // removed in the meantime
		}
	})
	start(1, func(dice *rand.Rand) {
		switch dice.IntN(40) {
		case 0:
			c.Sweep(now())
		case 1:
			id := segmentNo(dice.Uint64N(3), 64<<10)
			if _, err := c.UnmountSegment(now(), id.ID, alice); err != nil {
				t.Error(err)
			}
			if err := c.MountSegment(now(), alice, id); err != nil {
				t.Error(err)
			}
		case 2:
			c.RemoveMatching(now(), func(key string) bool { return key[len(key)-1] == '7' }, dice.IntN(2) == 0)
		case 3:
			for range c.Keys {
			}
			c.Segments()
			c.Stats()
		case 4:
			list, _ := c.Bundles(now(), BundleFilter{}, "", 10)
			for i := range list {
				c.Bundle(now(), list[i].ID)
			}
			c.BundleTotals(now())
		case 5:
			_, _ = c.ReclaimBundle(now(), fmt.Sprintf("p/%032x", dice.IntN(40)))
			c.CollectBundles(now(), dice.IntN(2) == 0)
		case 6:
			c.WritersGone(now(), []Departure{{UUID{8, dice.Uint64N(3)}, now()}})
		case 7:
			c.RemoveMatching(now(), nil, dice.IntN(2) == 0)
		default:
			_ = c.Remove(now(), names[dice.IntN(keys)], dice.IntN(2) == 0)
		}
	})
	wg.Wait()
	c.compare()
	c.RemoveMatching(now(), nil, true)
	if st := c.Stats(); st.AllocatedBytes != 0 || st.Keys != st.OpenKeys {
		t.Errorf("after all: %+v", st)
	}
}

// TestNoRangeIsTornFromReaders lets readers, writers, upserts and forced removals run at once in a pool with room: no range
// may be given to a writer within the lease of a reader who got its address.
func TestNoRangeIsTornFromReaders(t *testing.T) {
	for _, clearReads := range []int{limits.ClearReads, 0} {
		t.Run(fmt.Sprint("held back one by one up to ", clearReads), func(t *testing.T) { noRangeIsTorn(t, clearReads) })
	}
}

func noRangeIsTorn(t *testing.T, clearReads int) {
	cfg := testConfig()
	cfg.LeaseMs = 40
	c := newTest(t, cfg)
	c.clearReads = clearReads
	if err := c.MountSegment(1, alice, segmentNo(1, 16<<20)); err != nil {
		t.Fatal(err)
	}
	var clock atomic.Int64
	clock.Store(1000)
	now := func() Time { return Time(clock.Add(1)) }
	type reading struct {
		offset, end uint64
		until       Time
	}
	var mu sync.Mutex
	readings := map[uint64]reading{} // by replica
	const keys, rounds = 8, 5000
	var wg sync.WaitGroup
	start := func(n int, deed func(dice *rand.Rand, key string)) {
		for g := range n {
			wg.Go(func() {
				dice := rand.New(rand.NewPCG(uint64(g), uint64(n)))
				for range rounds {
					deed(dice, fmt.Sprint("k", dice.IntN(keys)))
					runtime.Gosched() // so that they meet
				}
			})
		}
	}
	start(2, func(_ *rand.Rand, key string) {
		at := now()
		_, replicas, err := c.Get(at, key, nil)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, r := range replicas {
			readings[r.ID] = reading{r.Offset, r.Offset + r.Size, max(readings[r.ID].until, at+Time(cfg.LeaseMs))}
		}
	})
	start(2, func(dice *rand.Rand, key string) {
		at, size := now(), 1000+dice.Uint64N(1000)
		begin := c.PutStart
		if dice.IntN(2) == 0 {
			begin = c.UpsertStart
		}
		replicas, err := begin(at, bob, key, size, one(), nil)
		if err != nil {
			return
		}
		at = Time(clock.Load()) // others may have gone on while this one waited, and a sweep may have freed the range
		mu.Lock()
		for id, r := range readings {
			if p := replicas[0]; id < p.ID && r.until > at && p.Offset < r.end && r.offset < p.Offset+p.Size {
				t.Errorf("replica %d lies over %d, which a reader may be at until %d; it is %d", p.ID, id, r.until, at)
			}
			if r.until+1000 < at {
				delete(readings, id)
			}
		}
		mu.Unlock()
		_ = c.PutEnd(now(), bob, key, 0, false, ReplicaTypeAll)
	})
	start(1, func(dice *rand.Rand, key string) {
		switch dice.IntN(20) {
		case 0:
			c.Sweep(now())
		case 1:
			c.Suspect(now(), alice)
		case 2:
			c.Ping(now(), alice)
		case 3:
			c.WritersGone(now(), []Departure{{bob, now()}})
		case 4:
			c.RemoveMatching(now(), nil, dice.IntN(3) > 0)
		default:
			_ = c.Remove(now(), key, dice.IntN(3) > 0)
		}
	})
	wg.Wait()
	if n := c.Stats().HandOutReuses; n != 0 {
		t.Errorf("%d ranges were taken from readers though there was room", n)
	}
}
