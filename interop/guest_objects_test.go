//go:build rdmavm

package interop

import (
	"fmt"
	"testing"
)

// rdmaSizes meet every way a wheel cuts an object: slices of 64 KiB, whose last one may be a quarter longer.
var rdmaSizes = []int64{1, 100, 4096, 65536, 81920, 81921, 1 << 20, 5_000_001, 16 << 20}

func rdmaItems(prefix string, sizes ...int64) []Item {
	return itemsOf(prefix, len(sizes), func(i int) int64 { return sizes[i] })
}

func putAll(t *testing.T, s *Store, items []Item) {
	t.Helper()
	for _, i := range items {
		put(t, s, i, nil)
	}
}

func getAll(t *testing.T, s *Store, items []Item) {
	t.Helper()
	for _, i := range items {
		get(t, s, i)
	}
}

// pool is a master, a daemon on rxe0 and a store of every release on rxe1, for the parts of one test to share.
type pool struct {
	rig    *Rig
	master *Master
	stores map[Release]*Store
}

// TestGuestClients lets every release put and get objects and bundles over RDMA through one daemon.
func TestGuestClients(t *testing.T) {
	r := newRig(t)
	p := &pool{rig: r, master: guestMaster(t, r, MasterOptions{V12Port: true}), stores: map[Release]*Store{}}
	rdmaSegment(t, r, p.master, 1, SegmentOptions{SizeBytes: largeArena})
	guests.ready(t, plain, Releases...)
	for _, release := range Releases {
		p.stores[release] = rdmaStore(t, guests.client(t, plain, release), StoreOptions{
			Master: p.master.addressFor(release), BufferBytes: largeBuffer,
		})
	}
	t.Run("objects", p.testObjects)
	t.Run("bundles", p.testBundles)
}

// testObjects puts and gets objects of all sizes; then each release reads what the others wrote, and clients of TCP share
// the segment.
func (p *pool) testObjects(t *testing.T) {
	all := map[Release][]Item{}
	perRelease(t, func(t *testing.T, release Release) {
		all[release] = rdmaItems(fmt.Sprintf("%v/", release), rdmaSizes...)
		putAll(t, p.stores[release], all[release])
		getAll(t, p.stores[release], all[release])
	})
	t.Run("others", func(t *testing.T) {
		for _, reader := range Releases {
			for _, writer := range Releases {
				get(t, p.stores[reader], all[writer][4])
				get(t, p.stores[reader], all[writer][6])
			}
		}
	})
	t.Run("batches", func(t *testing.T) {
		items := itemsOf("batch/", 8, func(i int) int64 { return int64(100_000*i + 1) })
		codes, _, err := p.stores[Releases[0]].PutFrom(items, nil)
		if err != nil {
			t.Fatal(err)
		}
		for n, code := range codes {
			if code != codeOK {
				t.Errorf("object %d: code %d", n, code)
			}
		}
		got, _, err := p.stores[Releases[len(Releases)-1]].GetInto(items)
		if err != nil {
			t.Fatal(err)
		}
		for n, g := range got {
			if !g.Same || g.Size != items[n].Size {
				t.Errorf("object %d: %+v", n, g)
			}
		}
	})
	t.Run("tcp beside", func(t *testing.T) { p.testTCPBeside(t, all) })
	callWant(t, p.stores[Releases[0]], len(keysOf(t, p.master, "")), "remove_by_regex", ".*", true)
}

// testTCPBeside lets a client read and write the same segment over TCP: one that a later test wants anyhow, or when soaking
// one of each release.
func (p *pool) testTCPBeside(t *testing.T, all map[Release][]Item) {
	for _, release := range Releases[:repeat(1, len(Releases))] {
		tcp := rdmaStore(t, guests.client(t, second, release), StoreOptions{Master: p.master.addressFor(release), Protocol: "tcp"})
		for _, writer := range Releases {
			get(t, tcp, all[writer][1])
			get(t, tcp, all[writer][6])
		}
		mine := rdmaItems(fmt.Sprintf("tcp %v/", release), 1, 81921, 3<<20)
		putAll(t, tcp, mine)
		getAll(t, p.stores[release], mine)
	}
}

// TestGuestTwoDevices gives the daemon two devices, and clients one or two.
func TestGuestTwoDevices(t *testing.T) {
	r := newRig(t)
	m := guestMaster(t, r, MasterOptions{V12Port: true})
	rdmaSegment(t, r, m, 1, SegmentOptions{Devices: "rxe0,rxe1"})
	var before []Item
	perRelease(t, func(t *testing.T, release Release) {
		for _, devices := range []string{"rxe0,rxe1", "rxe0"} {
			if !*soak && devices == "rxe0" && release != R13 {
				continue
			}
			s := rdmaStore(t, guests.client(t, plain, release), StoreOptions{
				Name: t.Name() + devices, Master: m.addressFor(release), Devices: devices,
			})
			mine := rdmaItems(fmt.Sprintf("%v %s/", release, devices), 1, 65536, 4<<20)
			putAll(t, s, mine)
			getAll(t, s, mine)
			getAll(t, s, before)
			before = mine
		}
	})
}

// TestGuestMetadataHTTP looks up the daemon's descriptor in the master's metadata store.
func TestGuestMetadataHTTP(t *testing.T) {
	r := newRig(t)
	m := guestMaster(t, r, MasterOptions{V12Port: true, HTTPMetadata: true})
	rdmaSegment(t, r, m, 1, SegmentOptions{Metadata: m.MetadataURL})
	perRelease(t, func(t *testing.T, release Release) {
		s := rdmaStore(t, guests.client(t, plain, release), StoreOptions{Master: m.addressFor(release), Metadata: m.MetadataURL})
		mine := rdmaItems(fmt.Sprintf("%v/", release), 1, 81921, 2<<20)
		putAll(t, s, mine)
		getAll(t, s, mine)
	})
}
