package catalog

import (
	"fmt"
	"testing"
	"time"
)

// present is a time as the clock of a master counts it, in milliseconds since 1970.
const present Time = 1_796_000_000_000

// TestBucketsOfTimes keeps times in order, those of tests that begin at 0 and those of the years to come.
func TestBucketsOfTimes(t *testing.T) {
	for _, start := range []int64{0, int64(present), time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()} {
		for step := int64(128); step < 1<<35; step *= 2 {
			if bucketOf(start) >= bucketOf(start+step) {
				t.Errorf("%d has bucket %d, %d ms later %d", start, bucketOf(start), step, bucketOf(start+step))
			}
		}
	}
}

// TestEvictionAtPresentTimes fills a pool at the times of a real clock. The oldest object goes first whatever the order in
// which they were touched, and what is leased is neither evicted nor hidden for a moment by a search for room.
func TestEvictionAtPresentTimes(t *testing.T) {
	const mib = 1 << 20
	c := New(Config{LeaseMs: 10_000, PutDiscardMs: 30_000, PutReleaseMs: 600_000, HighWatermark: 0.9, EvictionRatio: 0.05})
	defer c.Close()
	owner := UUID{1, 1}
	if err := c.MountSegment(present, owner, Segment{ID: UUID{9, 9}, Name: "s", Base: 1 << 40, Size: 20 * mib}); err != nil {
		t.Fatal(err)
	}
	now := present
	put := func(i int) {
		t.Helper()
		key := fmt.Sprint("k", i)
		if _, err := c.PutStart(now, owner, key, mib, &PutOptions{Replicas: 1, Group: key}, nil); err != nil {
			t.Fatal(key, err)
		}
		if err := c.PutEnd(now, owner, key, 0, false, ReplicaTypeAll); err != nil {
			t.Fatal(key, err)
		}
	}
	exists := func(i int) bool {
		_, _, err := c.Peek(fmt.Sprint("k", i), nil)
		return err == nil
	}
	for i := range 20 {
		put(i)
		now += 1000
	}
	for i := range 10 { // the oldest are read, so they are leased and afterwards the youngest
		if _, _, err := c.Get(now, fmt.Sprint("k", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := 20; i < 26; i++ {
		put(i)
		c.Sweep(now)
		now += 100
	}
	for i := range 10 {
		if !exists(i) {
			t.Errorf("k%d went although it is leased", i)
		}
	}
	if exists(10) || exists(11) || !exists(25) {
		t.Error("not the oldest went")
	}
	now += 20_000
	put(26)
	if !exists(26) || exists(18) && !exists(0) {
		t.Error("what was read later went before what was not read")
	}
}
