//go:build rdmavm

package interop

import "testing"

// TestGuestBundles hands rollout bundles over RDMA: inside one process, from one process to another, and with two copies.
func TestGuestBundles(t *testing.T) {
	r := newRig(t)
	m := guestMaster(t, r, MasterOptions{V12Port: true})
	rdmaSegment(t, r, m, 1, SegmentOptions{})
	guests.ready(t, plain, Releases...)
	clusters := map[Release]*trainingCluster{}
	for _, release := range Releases {
		o := StoreOptions{Name: t.Name(), Master: m.addressFor(release)}
		clusters[release] = &trainingCluster{
			rig: r, master: m,
			produce: rdmaStore(t, guests.client(t, plain, release), o),
			consume: rdmaStore(t, otherProcess(t, release), StoreOptions{Name: t.Name() + " reader", Master: o.Master}),
		}
	}
	t.Run("one process", func(t *testing.T) {
		perRelease(t, func(t *testing.T, release Release) {
			alone := *clusters[release]
			alone.consume = alone.produce
			alone.handOver(t, Bundle{Rows: repeat(12, 64), Seed: 1})
		})
	})
	t.Run("two processes", func(t *testing.T) {
		perRelease(t, func(t *testing.T, release Release) {
			clusters[release].handOver(t, Bundle{Rows: repeat(20, 500), Seed: 2, Chunk: repeat(16<<10, 0)})
		})
	})
	rdmaSegment(t, r, m, 2, SegmentOptions{Devices: "rxe1"})
	t.Run("two copies", func(t *testing.T) {
		perRelease(t, func(t *testing.T, release Release) { testBundleTwice(t, clusters[release]) })
	})
}

// otherProcess is a reader for what a client of the release writes. 13 and 14 understand each other and are there already.
func otherProcess(t *testing.T, writer Release) *Client {
	t.Helper()
	switch {
	case !*soak && *only == 0 && writer == R13:
		return guests.client(t, plain, R14)
	case !*soak && *only == 0 && writer == R14:
		return guests.client(t, plain, R13)
	}
	return guests.client(t, second, writer)
}

// testBundleTwice writes a bundle with a copy of everything on each of two daemons. 0.3.12 asks for one copy of ragged fields
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
	getBundle(t, c.consume, h, b)
	cleanBundle(t, c.consume, h)
	c.empty(t)
}
