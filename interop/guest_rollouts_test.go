//go:build rdmavm

package interop

import "testing"

// TestGuestBundles hands rollout bundles over RDMA: inside one process, from one process to another, and with two copies.
func TestGuestBundles(t *testing.T) {
	r := newRig(t)
	m := guestMaster(t, r, MasterOptions{V12Port: true})
	rdmaSegment(t, r, m, 1, SegmentOptions{})
	guests.ready(t, plain, Releases...)
	guests.ready(t, second, Releases...)
	clusters := map[Release]*trainingCluster{}
	for _, release := range Releases {
		o := StoreOptions{Name: t.Name(), Master: m.addressFor(release)}
		clusters[release] = &trainingCluster{
			rig: r, master: m,
			produce: rdmaStore(t, guests.client(t, plain, release), o), consume: rdmaStore(t, guests.client(t, second, release), o),
		}
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
			clusters[release].handOver(t, Bundle{Rows: repeat(150, 500), Seed: 2})
			clusters[release].handOver(t, Bundle{Rows: 60, Seed: 3, Chunk: 16 << 10})
		})
	})
	rdmaSegment(t, r, m, 2, SegmentOptions{Devices: "rxe1"})
	t.Run("two copies", func(t *testing.T) {
		perRelease(t, func(t *testing.T, release Release) { testBundleTwice(t, clusters[release]) })
	})
}

// testBundleTwice writes a bundle with a copy of everything on each of two daemons. 0.3.12 asks for one copy of ragged fields
// whatever it is told.
func testBundleTwice(t *testing.T, c *trainingCluster) {
	b := Bundle{Rows: 60, Seed: 8, Chunk: 64 << 10, Config: Config{"replica_num": 2}}
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
