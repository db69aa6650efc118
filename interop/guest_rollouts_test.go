//go:build rdmavm

package interop

import "testing"

// testBundles hands rollout bundles over RDMA: inside one process, from one process to another, and with two copies. When
// soaking each of these has bundles of its own; else one bundle of each release is read in both processes.
func (p *pool) testBundles(t *testing.T) {
	clusters := map[Release]*trainingCluster{}
	for _, release := range Releases {
		clusters[release] = &trainingCluster{rig: p.rig, master: p.master, produce: p.stores[release], consume: p.reader(t, release)}
	}
	if !*soak {
		perRelease(t, func(t *testing.T, release Release) { testBundleRead(t, clusters[release]) })
		return
	}
	t.Run("one process", func(t *testing.T) {
		perRelease(t, func(t *testing.T, release Release) {
			alone := *clusters[release]
			alone.consume = alone.produce
			alone.handOver(t, Bundle{Rows: 64, Seed: 1})
		})
	})
	t.Run("two processes", func(t *testing.T) {
		perRelease(t, func(t *testing.T, release Release) {
			clusters[release].handOver(t, Bundle{Rows: 500, Seed: 2})
		})
	})
	rdmaSegment(t, p.rig, p.master, 2, SegmentOptions{Devices: "rxe2"})
	t.Run("two copies", func(t *testing.T) {
		perRelease(t, func(t *testing.T, release Release) { testBundleTwice(t, clusters[release]) })
	})
}

// reader is a store in another process than the release's own. 13 and 14 understand each other and are there already.
func (p *pool) reader(t *testing.T, writer Release) *Store {
	t.Helper()
	if !*soak && *only == 0 {
		switch writer {
		case R13:
			return p.stores[R14]
		case R14:
			return p.stores[R13]
		}
	}
	return rdmaStore(t, guests.client(t, second, writer), StoreOptions{Name: t.Name() + " reader", Master: p.master.addressFor(writer)})
}

// testBundleRead writes a bundle and reads it in the same process and in another.
func testBundleRead(t *testing.T, c *trainingCluster) {
	b := Bundle{Rows: 12, Seed: 8, Chunk: 16 << 10}
	h := putBundle(t, c.produce, b)
	getBundle(t, c.produce, h, b)
	getBundle(t, c.consume, h, b)
	cleanBundle(t, c.consume, h)
	c.empty(t)
}

// testBundleTwice writes a bundle with a copy of everything on each of two daemons, and reads it in two processes. 0.3.12 asks for one copy of ragged fields
// whatever it is told.
func testBundleTwice(t *testing.T, c *trainingCluster) {
	b := Bundle{Rows: repeat(12, 60), Seed: 8, Chunk: 16 << 10, Config: Config{"replica_num": 2}}
	h := putBundle(t, c.produce, b)
	twice, keys := 0, keysOf(t, c.master, "miles-object-store/")
	for _, k := range keys {
		if at := replicas(t, c.consume, Key(k)); len(at) == 2 && at[0].Endpoint != at[1].Endpoint {
			twice++
		}
	}
	if twice == 0 || twice < len(keys) && c.produce.Client.Release != R12 {
		t.Errorf("%d of %d objects have two copies", twice, len(keys))
	}
	getBundle(t, c.produce, h, b)
	getBundle(t, c.consume, h, b)
	cleanBundle(t, c.consume, h)
	c.empty(t)
}
