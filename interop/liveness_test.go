package interop

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// otherReleases is 13 in every run, and all of them when soaking: for tests in which the releases do not differ.
func otherReleases() []Release {
	if *soak {
		return Releases
	}
	return []Release{R13}
}

// goodReads reads all items from all stores' point of view and counts those that brought the right bytes.
func goodReads(t *testing.T, s *Store, items []Item) (good int) {
	t.Helper()
	for _, i := range items {
		got, err := s.Get(i)
		if err != nil {
			t.Fatal(err)
		}
		if got.Same {
			good++
		}
	}
	return good
}

// TestP14KilledOwner kills one of two owners of memory while every object has a copy on each: every read of a third process works
// once the master has asked the owner itself and got no answer, long before the client's time is up, and new objects go to the
// other one.
func TestP14KilledOwner(t *testing.T) {
	beside(t, works)
	for _, release := range otherReleases() {
		t.Run(release.String(), func(t *testing.T) {
			r := newRig(t)
			m := startMaster(t, r, MasterOptions{})
			doomed := startStore(t, r, release, StoreOptions{Master: m.RPC, SegmentBytes: 64 * mib})
			startStore(t, r, release, StoreOptions{Master: m.RPC, SegmentBytes: 64 * mib})
			reader := startStore(t, r, release, StoreOptions{Master: m.RPC})
			segments(t, m, 2)
			items := itemsOf("twice/", 100, func(i int) int64 { return int64(1000 + i*100) })
			codes, _, err := reader.PutFrom(items, Config{"replica_num": 2})
			if err != nil {
				t.Fatal(err)
			}
			for n, code := range codes {
				if code != codeOK {
					t.Fatalf("put %d: code %d", n, code)
				}
			}
			time.Sleep(1500 * time.Millisecond) // both have pinged and were asked once
			owners := 1
			for doomed.Client.Kill(); !foundByAsking(t, m, owners); doomed.Client.Kill() {
				if owners++; owners > 5 {
					t.Fatal("killed owners are only found out by the pings that they miss")
				}
				doomed = startStore(t, r, release, StoreOptions{Master: m.RPC, SegmentBytes: 64 * mib})
				segments(t, m, owners+1)
				time.Sleep(1500 * time.Millisecond)
			}
			if good := goodReads(t, reader, items); good != len(items) {
				t.Fatalf("%d of %d reads after the kill", good, len(items))
			}
			wantMetric(t, m, "mooncake_master_segments", float64(owners+1))
			for n := range 20 {
				put(t, reader, Item{Key: key("after/%d", n), Size: 1000, Seed: 1}, nil)
			}
		})
	}
}

// foundByAsking waits until n clients are no longer active, and tells whether the master asked one of them itself and heard
// nothing. On a machine that is busy with other things the pings that it misses may show first that a client is gone.
func foundByAsking(t *testing.T, m *Master, n int) bool {
	t.Helper()
	eventually(t, 60*time.Second, "the master knows that the owner is gone", func() bool {
		return metric(t, m, "mooncake_go_clients_suspect")+metric(t, m, "mooncake_go_clients_suspected")+metric(t, m, "mooncake_go_clients_lost") >= float64(n)
	})
	return strings.Contains(m.Log(), "client does not answer: nothing new goes to its segments")
}

// TestStalledOwner stops a client with memory until it is suspected, and again until it is lost: its objects are out of
// sight meanwhile and readable again within 2 s after it goes on.
func TestStalledOwner(t *testing.T) {
	beside(t, waits)
	for _, release := range otherReleases() {
		t.Run(release.String(), func(t *testing.T) {
			r := newRig(t)
			m := startMaster(t, r, MasterOptions{ClientTTLSec: 2, Flags: []string{"--client_suspicion_ttl_sec=6"}}) // suspected after 2 s, lost after 8 s
			owner := startStore(t, r, release, StoreOptions{Master: m.RPC, SegmentBytes: 64 * mib})
			reader := startStore(t, r, release, StoreOptions{Master: m.RPC})
			items := itemsOf("kept/", 40, func(i int) int64 { return int64(1 + i*5000) })
			for _, i := range items {
				put(t, reader, i, nil)
			}
			before := segments(t, m, 1)[0]
			for _, stage := range []string{"suspected", "lost"} {
				stall(t, owner.Client)
				eventually(t, 60*time.Second, stage, func() bool { return metric(t, m, "mooncake_go_clients_"+stage) == 1 })
				callWant(t, reader, 0, "is_exist", items[0].Key)
				absent(t, reader, items[0].Key)
				resume(t, owner.Client)
				eventually(t, 60*time.Second, "the first object is back", func() bool { return goodReads(t, reader, items[:1]) == 1 })
				if good := goodReads(t, reader, items); good != len(items) {
					t.Fatalf("%d of %d objects are back after %s", good, len(items), stage)
				}
				if after := segments(t, m, 1)[0]; after != before {
					t.Fatalf("the segment is %+v, it was %+v", after, before)
				}
			}
			wantMetric(t, m, "mooncake_master_expired_clients_total", 0)
			put(t, reader, Item{Key: "afterwards", Size: mib, Seed: 1}, nil)
			get(t, reader, Item{Key: "afterwards", Size: mib, Seed: 1})
		})
	}
}

// TestStalledMaster stops the master for longer than the clients' time: nobody pays for it.
func TestStalledMaster(t *testing.T) {
	beside(t, waits)
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{ClientTTLSec: 2})
	startStore(t, r, R13, StoreOptions{Master: m.RPC, SegmentBytes: 32 * mib})
	startStore(t, r, R14, StoreOptions{Master: m.RPC, SegmentBytes: 32 * mib})
	reader := startStore(t, r, R13, StoreOptions{Master: m.RPC})
	segments(t, m, 2)
	items := itemsOf("kept/", 20, func(i int) int64 { return int64(1 + i*5000) })
	for _, i := range items {
		put(t, reader, i, nil)
	}
	if err := m.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(7 * time.Second)
	if err := m.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, stage := range []string{"suspected", "lost"} {
			wantMetric(t, m, "mooncake_go_clients_"+stage, 0)
		}
	}
	if good := goodReads(t, reader, items); good != len(items) {
		t.Fatalf("%d of %d objects", good, len(items))
	}
	wantMetric(t, m, "mooncake_master_expired_clients_total", 0)
	wantMetric(t, m, "master_client_liveness_suspected_transitions_total", 0)
}

func stall(t *testing.T, c *Client) {
	t.Helper()
	if err := c.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

func resume(t *testing.T, c *Client) {
	t.Helper()
	if err := c.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
