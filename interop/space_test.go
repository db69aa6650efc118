package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFreshSegment fills four segments to nine tenths and adds an empty fifth: it gets more than its share of what
// follows, but never most of it.
func TestFreshSegment(t *testing.T) {
	beside(t, works)
	const size, each, objects = 48 * mib, 16 << 10, 1000
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{Flags: []string{"--eviction_high_watermark_ratio=1"}})
	owner, err := r.StartClient(R13)
	if err != nil {
		t.Fatal(err)
	}
	// Several stores of one process are several clients; they share the process's handshake port, not their segments.
	for n := range 4 {
		setup(t, owner, StoreOptions{Name: fmt.Sprint("s", n), Master: m.RPC, SegmentBytes: size})
	}
	writer := startStore(t, r, R13, StoreOptions{Master: m.RPC})
	for _, s := range segments(t, m, 4) {
		items := itemsOf("fill/"+s.ID+"/", size/mib*9/10, func(int) int64 { return mib })
		codes, _, err := writer.PutFrom(items, Config{"preferred_segment": s.Name})
		if err != nil || slices.ContainsFunc(codes, func(c int) bool { return c != codeOK }) {
			t.Fatalf("filling %s: %v, %v", s.Name, codes, err)
		}
	}
	known := segments(t, m, 4)
	setup(t, owner, StoreOptions{Name: "fresh", Master: m.RPC, SegmentBytes: size})
	fresh := segments(t, m, 5)
	fresh = slices.DeleteFunc(fresh, func(s SegmentDetail) bool {
		return slices.ContainsFunc(known, func(k SegmentDetail) bool { return k.ID == s.ID })
	})
	var bad []string
	if err := writer.Do("write_many", map[string]any{"items": itemsOf("more/", objects, func(int) int64 { return each })}, &bad); err != nil || len(bad) != 0 {
		t.Fatalf("failed puts %q, %v", bad, err)
	}
	for _, s := range segments(t, m, 5) {
		if s.ID != fresh[0].ID {
			continue
		}
		share := float64(s.Used) / (objects * each)
		t.Logf("the fresh segment got %.1f %%", share*100)
		if share < 0.20 || share > 0.45 {
			t.Errorf("the fresh segment got %.1f %% of the objects, want 20 to 45", share*100)
		}
	}
}

// TestDistinctHosts mounts three segments on one host and one on another: of two copies each host gets one.
func TestDistinctHosts(t *testing.T) {
	beside(t, works)
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{})
	for n := range 3 {
		startSegment(t, r, m, n+1, SegmentOptions{SizeBytes: 32 * mib})
	}
	startSegment(t, r, m, 4, SegmentOptions{SizeBytes: 32 * mib, Host: "127.0.0.2"})
	for _, release := range otherReleases() {
		s := startStore(t, r, release, StoreOptions{Master: m.RPC})
		for n := range 100 {
			i := Item{Key: key("%s/%d", release, n), Size: 1000, Seed: 1}
			put(t, s, i, Config{"replica_num": 2})
			at := replicas(t, s, i.Key)
			if len(at) != 2 || strings.HasPrefix(at[0].Endpoint, "127.0.0.2:") == strings.HasPrefix(at[1].Endpoint, "127.0.0.2:") {
				t.Fatalf("copies of %q at %+v", i.Key, at)
			}
		}
	}
}

// TestConsumeUnderLongLease reads and removes by force under a lease that outlives the test: no put ever fails for want
// of room and nothing is evicted.
func TestConsumeUnderLongLease(t *testing.T) {
	beside(t, works)
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{LeaseMs: 300_000})
	startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 64 * mib})
	s := startStore(t, r, R13, StoreOptions{Master: m.RPC})
	for n := range 100 {
		i := Item{Key: key("round/%d", n), Size: 8 * mib, Seed: int64(n)}
		put(t, s, i, nil)
		get(t, s, i)
		callWant(t, s, codeOK, "remove", i.Key, true)
		wantMetric(t, m, "master_allocated_bytes", 0)
	}
	wantMetric(t, m, "master_evicted_key_count", 0)
	wantMetric(t, m, "master_put_start_alloc_failures_total", 0)
	wantMetric(t, m, "master_key_count", 0)
}

// TestLeasesHoldTheRoom fills the pool with objects that are being read: puts are refused, and the reason is counted. When
// the leases end the next put finds room by itself.
func TestLeasesHoldTheRoom(t *testing.T) {
	beside(t, waits)
	const lease = 15 * time.Second // all reads together have to take less, on a machine with other things to do
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{LeaseMs: int(lease.Milliseconds())})
	startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 32 * mib})
	s := startStore(t, r, R13, StoreOptions{Master: m.RPC})
	items := itemsOf("leased/", 15, func(int) int64 { return 2 * mib })
	for _, i := range items {
		put(t, s, i, nil)
		get(t, s, i)
	}
	began := time.Now()
	if good := goodReads(t, s, items); good != len(items) { // leases of all at once
		t.Fatalf("%d of %d objects", good, len(items))
	}
	read := time.Now()
	if took := read.Sub(began); took > lease {
		t.Fatalf("%d reads took %v: the first lease of %v is over, and nothing is shown", len(items), took, lease)
	}
	more := Item{Key: "more", Size: 4 * mib, Seed: 1}
	putCode(t, s, more, nil, codeNoHandle)
	if n := refusals(t, m, "leased"); n == 0 {
		t.Error("no refusal counted for leases")
	}
	if n := metric(t, m, "master_evicted_key_count"); n != 0 {
		t.Errorf("%v objects evicted under leases", n)
	}
	eventually(t, 2*lease, "the put fits", func() bool {
		code, err := s.Put(more, nil)
		return err == nil && code == codeOK
	})
	t.Logf("room %v after the last read, with a lease of %v", time.Since(read).Round(10*time.Millisecond), lease)
	get(t, s, more)
}

// refusals reads a sample of the refused puts by reason.
func refusals(t *testing.T, m *Master, reason string) float64 {
	t.Helper()
	return sample(t, m, `mooncake_go_put_refusals_total{reason="`+reason+`"}`)
}
