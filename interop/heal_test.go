package interop

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestHealing kills one of three daemons for good while every object has two copies: all can be read before the client's time
// is up, and all have two copies again afterwards, no two on one host.
func TestHealing(t *testing.T) {
	beside(t, works)
	count := 300
	if *soak {
		count = 2000
	}
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{Flags: []string{"--client_active_ttl_sec=4", "--client_suspicion_ttl_sec=2"}})
	doomed := startSegment(t, r, m, 1, SegmentOptions{Host: "127.0.0.1"})
	startSegment(t, r, m, 2, SegmentOptions{Host: "127.0.0.2"})
	startSegment(t, r, m, 3, SegmentOptions{Host: "127.0.0.3"})
	reader := startStore(t, r, R13, StoreOptions{Master: m.RPC})
	items := itemsOf("kept/", count, func(i int) int64 { return int64(10_000 + i*7) })
	for some := range slices.Chunk(items, 100) { // a wheel writes all of a batch at a time, each over a connection of its own
		codes, _, err := reader.PutFrom(some, Config{"replica_num": 2})
		if err != nil {
			t.Fatal(err)
		}
		for n, code := range codes {
			if code != codeOK {
				t.Fatalf("put of %q: code %d", some[n].Key, code)
			}
		}
	}
	eventually(t, 30*time.Second, "the master has reached the daemons", func() bool {
		page, err := m.Page("/api/v1/segments")
		return err == nil && strings.Count(page, `"verified"`) == 3
	})
	doomed.Kill()
	killed := time.Now()
	eventually(t, 30*time.Second, "the master knows", func() bool {
		return metric(t, m, "mooncake_go_clients_suspect")+metric(t, m, "mooncake_go_clients_suspected")+metric(t, m, "mooncake_go_clients_lost") > 0
	})
	t.Logf("known %v after the kill", time.Since(killed).Round(time.Millisecond))
	if good := goodReads(t, reader, items); good != count {
		t.Fatalf("%d of %d reads after the kill", good, count)
	}
	eventually(t, 120*time.Second, "all have two copies on two hosts", func() bool {
		return metric(t, m, "mooncake_go_healed_objects_total") > 0 && metric(t, m, "mooncake_go_heal_waiting_objects") == 0 &&
			metric(t, m, "mooncake_go_heal_copying_objects") == 0
	})
	t.Logf("%.0f objects with %.0f bytes were copied, all until %v after the kill", metric(t, m, "mooncake_go_healed_objects_total"),
		metric(t, m, "mooncake_go_healed_bytes_total"), time.Since(killed).Round(time.Millisecond))
	twiceWithout(t, reader, items, "127.0.0.1")
	if good := goodReads(t, reader, items); good != count {
		t.Fatalf("%d of %d reads in the end", good, count)
	}
}

// twiceWithout looks that every object has two copies, on two hosts, none of which is the one given.
func twiceWithout(t *testing.T, reader *Store, items []Item, gone string) {
	t.Helper()
	for _, i := range items {
		at := replicas(t, reader, i.Key)
		hosts := map[string]bool{}
		for _, l := range at {
			host, _, err := net.SplitHostPort(l.Endpoint)
			if err != nil {
				t.Fatal(err)
			}
			hosts[host] = true
		}
		if len(at) != 2 || len(hosts) != 2 || hosts[gone] {
			t.Fatalf("copies of %q at %+v", i.Key, at)
		}
	}
}

// TestWheelsHeal has two of three copies' homes in the memory of wheels: when the daemon leaves, they copy what lay there from
// one to the other by tasks.
func TestWheelsHeal(t *testing.T) {
	beside(t, works)
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{})
	leaving := startSegment(t, r, m, 1, SegmentOptions{Host: "127.0.0.1", SizeBytes: 64 * mib})
	owners := []*Store{
		startStore(t, r, R13, StoreOptions{Master: m.RPC, Host: "127.0.0.2", SegmentBytes: 64 * mib}),
		startStore(t, r, R14, StoreOptions{Master: m.RPC, Host: "127.0.0.3", SegmentBytes: 64 * mib}),
	}
	segments(t, m, 3)
	items := itemsOf("kept/", 40, func(i int) int64 { return int64(10_000 + i*7) })
	for n, i := range items {
		put(t, owners[n%2], i, Config{"replica_num": 2})
	}
	if err := leaving.Stop(stopGrace); err != nil {
		t.Fatal(err)
	}
	eventually(t, 120*time.Second, "all have two copies", func() bool {
		for _, i := range items {
			if len(replicas(t, owners[0], i.Key)) != 2 {
				return false
			}
		}
		return true
	})
	twiceWithout(t, owners[0], items, "127.0.0.1")
	for _, s := range owners {
		if good := goodReads(t, s, items); good != len(items) {
			t.Fatalf("%d of %d reads in the end", good, len(items))
		}
	}
}
