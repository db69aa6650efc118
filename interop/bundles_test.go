package interop

import (
	"strings"
	"testing"
)

// trainingCluster is what a training run looks like: a producer without memory of its own, a consumer, a segment daemon.
type trainingCluster struct {
	rig     *Rig
	master  *Master
	segment *Segment // nil where the cluster was put together by hand
	produce *Store
	consume *Store
}

func newTrainingCluster(t *testing.T, producer, consumer Release, segmentBytes int64) *trainingCluster {
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{})
	s := startSegment(t, r, m, 1, SegmentOptions{SizeBytes: segmentBytes})
	c := joinTraining(t, r, m, producer, consumer, "")
	c.segment = s
	return c
}

// joinTraining starts the two clients of a training run.
func joinTraining(t *testing.T, r *Rig, m *Master, producer, consumer Release, metadata string) *trainingCluster {
	c := &trainingCluster{rig: r, master: m}
	c.produce = startStore(t, r, producer, StoreOptions{Master: m.RPC, Metadata: metadata, BufferBytes: 64 * mib})
	// A pure reader of 0.3.12 that comes first cannot be told from a newer one; in a training run the producer is first.
	put(t, c.produce, Item{Key: "hello", Size: 1, Seed: 1}, nil)
	callWant(t, c.produce, codeOK, "remove", "hello", true)
	c.consume = startStore(t, r, consumer, StoreOptions{Master: m.RPC, Metadata: metadata, BufferBytes: 128 * mib})
	return c
}

// handOver writes a bundle in one process, reads it in the other, reclaims it and looks that nothing is left.
func (c *trainingCluster) handOver(t *testing.T, b Bundle) {
	t.Helper()
	h := putBundle(t, c.produce, b)
	prefix := strings.TrimSuffix(h.ManifestKey(), "manifest")
	if keys := keysOf(t, c.master, prefix); len(keys) < 10 {
		t.Fatalf("%d keys below %q", len(keys), prefix)
	}
	getBundle(t, c.consume, h, b)
	cleanBundle(t, c.produce, h)
	c.empty(t)
}

func (c *trainingCluster) empty(t *testing.T) {
	t.Helper()
	if left := keysOf(t, c.master, ""); len(left) != 0 {
		t.Fatalf("keys left: %q", left)
	}
	wantMetric(t, c.master, "master_key_count", 0)
	wantMetric(t, c.master, "master_allocated_bytes", 0)
}

// TestBundles hands rollout bundles from a producer to a consumer, bytes in the segment daemon, in each release.
func TestBundles(t *testing.T) {
	beside(t, works)
	eachRelease(t, func(t *testing.T, release Release) {
		c := newTrainingCluster(t, release, release, 256*mib)
		runBundleCases(t, c)
	})
}

// runBundleCases is the list that also runs under the original's masters and with other metadata stores.
func runBundleCases(t *testing.T, c *trainingCluster) {
	for name, b := range map[string]Bundle{
		"default chunks": {Rows: 400, Seed: 1},
		"small chunks":   {Rows: 200, Seed: 2, Chunk: 16 << 10},
		"one row":        {Rows: 1, Seed: 3},
	} {
		t.Run(name, func(t *testing.T) { c.handOver(t, b) })
	}
	t.Run("parts of a bundle", func(t *testing.T) {
		b := Bundle{Rows: 60, Seed: 4, Chunk: 8 << 10}
		h := putBundle(t, c.produce, b)
		for _, rows := range [][]int{nil, {10, 11, 12}, {59, 0, 17, 17}} {
			diff, _, err := c.consume.GetBundle(h, b, []string{"tokens"}, rows)
			if err != nil || diff != "" {
				t.Fatalf("tokens of rows %v: %q, %v", rows, diff, err)
			}
		}
		cleanBundle(t, c.produce, h)
		c.empty(t)
	})
	t.Run("training rounds", func(t *testing.T) {
		trainingRounds(t, c, repeat(5, 60), 120)
	})
	t.Run("gone after cleaning", func(t *testing.T) {
		b := Bundle{Rows: 10, Seed: 5}
		h := putBundle(t, c.produce, b)
		getBundle(t, c.consume, h, b)
		cleanBundle(t, c.consume, h) // the lease of the read does not hold up a reclaim
		if _, _, err := c.consume.GetBundle(h, b, nil, nil); err == nil {
			t.Fatal("a cleaned bundle can be read")
		}
		c.empty(t)
	})
}

// trainingRounds overlaps rounds as a trainer does: the next rollout is written before the last one is read and reclaimed.
func trainingRounds(t *testing.T, c *trainingCluster, rounds, rows int) {
	var last Handle
	var lastBundle Bundle
	for n := range rounds {
		b := Bundle{Rows: rows, Seed: 100 + n, Longest: 1500}
		h := putBundle(t, c.produce, b)
		if last != nil {
			getBundle(t, c.consume, last, lastBundle)
			cleanBundle(t, c.produce, last)
		}
		last, lastBundle = h, b
	}
	getBundle(t, c.consume, last, lastBundle)
	cleanBundle(t, c.produce, last)
	c.empty(t)
}

// TestBundlesAcrossReleases writes with one release and reads with another.
func TestBundlesAcrossReleases(t *testing.T) {
	beside(t, works)
	for _, pair := range [][2]Release{{R13, R14}, {R14, R13}} {
		t.Run(pair[0].String()+" to "+pair[1].String(), func(t *testing.T) {
			newTrainingCluster(t, pair[0], pair[1], 128*mib).handOver(t, Bundle{Rows: 200, Seed: 7, Chunk: 64 << 10})
		})
	}
}

// TestBoundedRoom runs rounds through a segment that holds three bundles at most; a put never fails for want of room.
func TestBoundedRoom(t *testing.T) {
	beside(t, works)
	c := newTrainingCluster(t, R13, R13, 24*mib)
	trainingRounds(t, c, repeat(12, 100), 400)
}

// TestProducerDies kills a producer between two objects of its bundle: what it left can be seen and removed, the manifest
// is not there, and the next round works.
func TestProducerDies(t *testing.T) {
	c := newTrainingCluster(t, R13, R13, 128*mib)
	doomed := startStore(t, c.rig, R13, StoreOptions{Master: c.master.RPC})
	err := doomed.Do("bundle_die", map[string]any{"rows": 100, "seed": 1, "chunk": 20_000, "after": 9}, nil)
	if err == nil {
		t.Fatal("the producer survived")
	}
	left := keysOf(t, c.master, "miles-object-store/")
	if len(left) != 9 || strings.Contains(strings.Join(left, " "), "/manifest") {
		t.Fatalf("left by the killed producer: %q", left)
	}
	b := Bundle{Rows: 100, Seed: 2}
	h := putBundle(t, c.produce, b)
	getBundle(t, c.consume, h, b)
	cleanBundle(t, c.produce, h)
	callWant(t, c.consume, len(left), "remove_by_regex", "^miles-object-store/", true)
	c.empty(t)
}

// TestTrainerRanks hands one shard of a rollout to each of two ranks, as data parallel training does: the first rank brings
// memory, the second has none, the manager writes, and the first rank reclaims what the manager wrote.
func TestTrainerRanks(t *testing.T) {
	beside(t, works)
	eachRelease(t, func(t *testing.T, release Release) {
		r := newRig(t)
		m := startMaster(t, r, MasterOptions{})
		ranks := []*Store{
			startStore(t, r, release, StoreOptions{Master: m.RPC, SegmentBytes: 48 * mib, BufferBytes: 64 * mib}),
			startStore(t, r, release, StoreOptions{Master: m.RPC, BufferBytes: 64 * mib}),
		}
		segments(t, m, 1)
		manager := startStore(t, r, release, StoreOptions{Master: m.RPC})
		for round := range repeat(3, 30) {
			var shards []Handle
			for n := range ranks {
				shards = append(shards, putBundle(t, manager, Bundle{Rows: 64, Seed: 10*round + n}))
			}
			for n, rank := range ranks {
				getBundle(t, rank, shards[n], Bundle{Rows: 64, Seed: 10*round + n})
			}
			for _, h := range shards {
				cleanBundle(t, ranks[0], h)
			}
		}
		wantMetric(t, m, "master_key_count", 0)
		wantMetric(t, m, "master_allocated_bytes", 0)
	})
}

// TestBundleWithTwoCopies lets a wheel's own segment and the daemon's serve one bundle: one copy of every object on each.
func TestBundleWithTwoCopies(t *testing.T) {
	beside(t, works)
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{})
	startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 128 * mib})
	trainer := startStore(t, r, R13, StoreOptions{Master: m.RPC, SegmentBytes: 128 * mib, BufferBytes: 128 * mib})
	both := segments(t, m, 2)
	producer := startStore(t, r, R13, StoreOptions{Master: m.RPC})
	b := Bundle{Rows: 150, Seed: 8, Chunk: 64 << 10, Config: Config{"replica_num": 2}}
	h := putBundle(t, producer, b)
	for _, k := range keysOf(t, m, "miles-object-store/") {
		at := replicas(t, trainer, Key(k))
		if len(at) != 2 || at[0].Endpoint == at[1].Endpoint {
			t.Fatalf("%q lies at %+v; segments are %+v", k, at, both)
		}
	}
	getBundle(t, trainer, h, b)
	getBundle(t, producer, h, b)
	cleanBundle(t, trainer, h)
	wantMetric(t, m, "master_allocated_bytes", 0)
}
