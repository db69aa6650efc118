package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// rules writes a file of rules for a master.
func rules(t *testing.T, r *Rig, text string) (flag string) {
	t.Helper()
	path := filepath.Join(r.Dir, "workloads.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--workloads_file=" + path
}

func setRules(t *testing.T, m *Master, text string) {
	t.Helper()
	if _, err := m.Request("PUT", "/api/v1/workloads", text); err != nil {
		t.Fatal(err)
	}
}

// TestTimeToLive reads an object all the time: its workload lets it live for two seconds, and reads do not prolong that.
func TestTimeToLive(t *testing.T) {
	beside(t, works)
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{})
	startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 64 * mib})
	s := startStore(t, r, R14, StoreOptions{Master: m.RPC})
	setRules(t, m, `{"workloads": [{"name": "short", "prefixes": ["short/"], "ttl_ms": 2000}]}`)
	item, other := Item{Key: "short/1", Size: 1000, Seed: 1}, Item{Key: "long/1", Size: 1000, Seed: 2}
	put(t, s, other, nil)
	began := time.Now()
	put(t, s, item, nil)
	written := time.Now()
	for {
		asked := time.Since(written)
		got, err := s.Get(item)
		if err != nil {
			t.Fatal(err)
		}
		if got.Size == 0 {
			// Its life began between the beginning and the end of the put.
			if age := time.Since(began); age < 1990*time.Millisecond {
				t.Errorf("gone after %v, want 2 to 3 s", age)
			}
			t.Logf("gone between %v and %v", asked.Round(10*time.Millisecond), time.Since(began).Round(10*time.Millisecond))
			break
		}
		if asked > 10*time.Second {
			t.Fatal("reads prolong its life")
		}
		time.Sleep(200 * time.Millisecond)
	}
	get(t, s, other)
	if n := sample(t, m, `mooncake_go_workload_expired_keys_total{workload="short"}`); n != 1 {
		t.Errorf("%v objects counted as expired", n)
	}
}

// TestHalves gives each of two workloads half of the pool, by the prefix of their keys and by the tenant of their client:
// one that puts more loses its own oldest objects and nobody else's.
func TestHalves(t *testing.T) {
	beside(t, works)
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{LeaseMs: 2000, Flags: []string{"--eviction_high_watermark_ratio=1"}})
	startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 64 * mib})
	setRules(t, m, `
workloads:
  - {name: a, prefixes: [a/], tenants: [team-a], hard_bytes: 32MiB}
  - {name: b, prefixes: [b/], tenants: [team-b], hard_bytes: 32MiB}
`)
	halves := func(a, b *Store, prefixA, prefixB string) {
		itemsB := itemsOf(prefixB, 30, func(int) int64 { return mib })
		for _, i := range itemsB {
			put(t, b, i, nil)
		}
		itemsA := itemsOf(prefixA, 100, func(int) int64 { return mib })
		for _, i := range itemsA {
			put(t, a, i, nil)
		}
		if n := goodReads(t, b, itemsB); n != len(itemsB) {
			t.Errorf("%d of %d objects of the other are left", n, len(itemsB))
		}
		if n := goodReads(t, a, itemsA[69:]); n != 31 {
			t.Errorf("%d of the youngest 31 objects are left", n)
		}
		if n := goodReads(t, a, itemsA[:68]); n != 0 {
			t.Errorf("%d of the oldest objects are left: more than the limit", n)
		}
		for s, prefix := range map[*Store]string{a: prefixA, b: prefixB} {
			var removed int
			if err := s.Call(&removed, "remove_by_regex", "^"+prefix, true); err != nil {
				t.Fatal(err)
			}
		}
		wantMetric(t, m, "master_allocated_bytes", 0)
		// The ranges that were read are nobody's until the lease is over; the next halves need all of the pool.
		eventually(t, 60*time.Second, "the end of the quarantine", func() bool { return sample(t, m, "mooncake_go_quarantined_bytes") == 0 })
	}
	for _, release := range otherReleases() {
		t.Run(release.String()+" by prefix", func(t *testing.T) {
			halves(startStore(t, r, release, StoreOptions{Master: m.RPC}), startStore(t, r, release, StoreOptions{Master: m.RPC}), "a/", "b/")
		})
		t.Run(release.String()+" by tenant", func(t *testing.T) {
			halves(startStore(t, r, release, StoreOptions{Master: m.RPC, Tenant: "team-a"}), startStore(t, r, release, StoreOptions{Master: m.RPC, Tenant: "team-b"}), "x/", "y/")
		})
	}
}

// isolated is a store that a training run and a cache share.
func isolated(t *testing.T, release Release, rule string) (c *trainingCluster, cache *Store) {
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{LeaseMs: 2000, Flags: []string{rules(t, r, rule)}})
	s := startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 64 * mib})
	c = joinTraining(t, r, m, release, release, "")
	c.segment = s
	return c, startStore(t, r, release, StoreOptions{Master: m.RPC})
}

// TestFloodBesideTraining floods the pool with ten times its size while a training loop runs: no round fails and not a
// byte of the rollouts goes.
func TestFloodBesideTraining(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release Release) {
		beside(t, works)
		c, cache := isolated(t, release, `
workloads:
  - {name: rollout, prefixes: [miles-object-store/], reserved_bytes: 24MiB, evict: bundle, unread: keep, priority: 10}
  - {name: kv, prefixes: [""]}
`)
		flooding := make(chan error, 1)
		go func() {
			var bad []string
			for n := range 10 {
				items := itemsOf(fmt.Sprintf("kv/%d/", n), 64, func(int) int64 { return mib })
				if err := cache.Do("write_many", map[string]any{"items": items}, &bad); err != nil || len(bad) > 0 {
					flooding <- fmt.Errorf("puts of the flood: %q, %w", bad, err)
					return
				}
			}
			flooding <- nil
		}()
		times := quietRounds(t, c, repeat(12, 50))
		if err := <-flooding; err != nil {
			t.Error(err)
		}
		t.Logf("puts of a bundle beside the flood: median %v ms, p99 %v ms", times[len(times)/2], times[len(times)*99/100])
		for _, series := range []string{
			`mooncake_go_workload_evicted_bytes_total{workload="rollout"}`, `mooncake_go_workload_evicted_unread_keys_total{workload="rollout"}`,
			`mooncake_go_workload_put_refusals_total{reason="unread_kept",workload="rollout"}`,
		} {
			if n := sample(t, c.master, series); n != 0 {
				t.Errorf("%s is %v", series, n)
			}
		}
		if n := sample(t, c.master, `mooncake_go_workload_evicted_bytes_total{workload="kv"}`); n < 500*mib {
			t.Errorf("only %v bytes of the cache were evicted: no flood", n)
		}
	})
}

// quietRounds writes, reads and reclaims bundles, and answers with the sorted times of the writes in milliseconds.
func quietRounds(t *testing.T, c *trainingCluster, rounds int) (ms []int) {
	t.Helper()
	for n := range rounds {
		b := Bundle{Rows: 150, Seed: 100 + n, Longest: 1500}
		h, _, took, err := c.produce.PutBundle(b)
		if err != nil {
			t.Fatalf("round %d: %v", n, err)
		}
		ms = append(ms, int(took))
		getBundle(t, c.consume, h, b)
		cleanBundle(t, c.produce, h)
	}
	slices.Sort(ms)
	return ms
}

// TestBurstBesideCache writes three times the share of the rollouts without reclaiming any: the cache keeps what lies in
// its reservation, and the burst hears that there is no room, with the reason counted.
func TestBurstBesideCache(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release Release) {
		beside(t, works)
		c, cache := isolated(t, release, `
workloads:
  - {name: rollout, prefixes: [miles-object-store/], soft_bytes: 24MiB, hard_bytes: 32MiB, evict: bundle, unread: keep, priority: 10}
  - {name: kv, prefixes: [""], reserved_bytes: 30MiB}
`)
		items := itemsOf("kv/", 28, func(int) int64 { return mib })
		for _, i := range items {
			put(t, cache, i, nil)
		}
		over, quiet := make(chan struct{}), make(chan []time.Duration, 1)
		go func() { quiet <- quietPuts(t, cache, over) }()
		refused, written := 0, int64(0)
		for n := 0; written < 72*mib && n < 120; n++ {
			_, bytes, _, err := c.produce.PutBundle(Bundle{Rows: 150, Seed: n, Longest: 1500})
			written += max(bytes, mib)
			if err == nil {
				continue
			}
			if !strings.Contains(err.Error(), "-200") {
				t.Fatal(err)
			}
			refused++
		}
		close(over)
		times := <-quiet
		t.Logf("%d puts of 64 KiB into the cache beside the burst: median %v, p99 %v", len(times), times[len(times)/2], times[len(times)*99/100])
		if refused == 0 {
			t.Error("nothing of the burst was refused")
		}
		if good := goodReads(t, cache, items); good != len(items) {
			t.Errorf("%d of %d objects of the cache are left", good, len(items))
		}
		if n := sample(t, c.master, `mooncake_go_workload_evicted_bytes_total{workload="kv"}`); n != 0 {
			t.Errorf("%v bytes of the cache were evicted", n)
		}
		reasons := 0.0
		for _, reason := range []string{"quota", "reserved", "unread_kept"} {
			n := sample(t, c.master, `mooncake_go_workload_put_refusals_total{reason="`+reason+`",workload="rollout"}`)
			t.Logf("refused, %s: %v", reason, n)
			reasons += n
		}
		if reasons < float64(refused) {
			t.Errorf("%d bundles refused, %v puts counted with a reason", refused, reasons)
		}
	})
}

// quietPuts writes and removes a small object until over is closed, once at least, and answers with the sorted times of the
// writes.
func quietPuts(t *testing.T, s *Store, over <-chan struct{}) (times []time.Duration) {
	for n := 0; ; n++ {
		item := Item{Key: Key(fmt.Sprintf("kv/quiet/%d", n)), Size: 64 << 10, Seed: int64(n)}
		began := time.Now()
		if code, err := s.Put(item, nil); err != nil || code != codeOK {
			t.Errorf("a put within the reservation: %d, %v", code, err)
		}
		times = append(times, time.Since(began).Round(10*time.Microsecond))
		var code int
		if err := s.Call(&code, "remove", item.Key); err != nil || code != 0 {
			t.Errorf("remove: %d, %v", code, err)
		}
		select {
		case <-over:
			slices.Sort(times)
			return times
		default:
		}
	}
}
