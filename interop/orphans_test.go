package interop

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// knownGone is when a killed writer is known to be gone: none of its connections came back for 5 s.
const knownGone = 5 * time.Second

// TestKilledProducers kills producers at random points of their bundles, between two objects and in the middle of one. Ten
// seconds after their death is known no byte of theirs is left, while a slow writer that lives keeps everything.
func TestKilledProducers(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release Release) {
		beside(t, waits)
		r := newRig(t)
		m := startMaster(t, r, MasterOptions{})
		startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 512 * mib})
		slow := startStore(t, r, release, StoreOptions{Master: m.RPC})
		put(t, slow, Item{Key: "hello", Size: 1, Seed: 1}, nil) // shows its release
		dice := rand.New(rand.NewPCG(uint64(release), 20))
		for n := range repeat(2, 15) {
			killTwo(t, r, m, slow, release, n, dice)
		}
		if n := metric(t, m, "master_bundle_orphans_total"); n == 0 {
			t.Error("no orphan was counted")
		}
	})
}

// killTwo kills one producer before a random write and one at a random time of a bundle with large members, while a third
// one writes a bundle slowly.
func killTwo(t *testing.T, r *Rig, m *Master, slow *Store, release Release, round int, dice *rand.Rand) {
	t.Helper()
	lives := Bundle{Rows: 40, Seed: 1000 + round, PauseAfter: 3 + dice.IntN(10), PauseSec: 25}
	handle := make(chan Handle, 1)
	go func() {
		h, _, _, err := slow.PutBundle(lives)
		if err != nil {
			t.Errorf("the writer that lives: %v", err)
		}
		handle <- h
	}()
	var living string
	eventually(t, 60*time.Second, "the slow bundle has begun", func() bool {
		for _, b := range bundles(t, m, "?state=STAGING") {
			living = b.ID
		}
		return living != ""
	})
	between := startStore(t, r, release, StoreOptions{Master: m.RPC})
	within := startStore(t, r, release, StoreOptions{Master: m.RPC, BufferBytes: 128 * mib})
	after, wait := dice.IntN(24), time.Duration(dice.IntN(200))*time.Millisecond
	var dying sync.WaitGroup
	dying.Go(func() {
		if between.Do("bundle_die", map[string]any{"rows": 60, "seed": round, "after": after}, nil) == nil {
			t.Error("the producer survived")
		}
	})
	dying.Go(func() {
		if _, _, _, err := within.PutBundle(Bundle{Rows: 4000, Seed: round, Longest: 4000, Chunk: 8 * mib}); err == nil {
			t.Log("the bundle was complete before its writer was killed")
		}
	})
	eventually(t, 60*time.Second, "the large bundle is being written", func() bool { return metric(t, m, "master_allocated_bytes") > 16*mib })
	time.Sleep(wait)
	within.Client.Kill()
	dying.Wait()
	t.Logf("killed before write %d, and %v into a large bundle; left: %s", after, wait, held(t, m))
	time.Sleep(knownGone + 10*time.Second)
	var left []string
	for _, b := range bundles(t, m, "") {
		if b.Allocated > 0 && b.State != "PUBLISHED" && b.ID != living {
			left = append(left, fmt.Sprintf("%s %s %d", b.ID, b.State, b.Allocated))
		}
	}
	if len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	h := <-handle
	if h == nil {
		return
	}
	getBundle(t, slow, h, lives)
	cleanBundle(t, slow, h)
	for _, b := range bundles(t, m, "?state=PUBLISHED") { // the large one was complete
		if _, err := m.Request("DELETE", "/api/v1/bundles/"+b.ID, ""); err != nil {
			t.Error(err)
		}
	}
	wantMetric(t, m, "master_key_count", 1)
	wantMetric(t, m, "master_allocated_bytes", 1)
}

// held says what there is, by state.
func held(t *testing.T, m *Master) string {
	var out []string
	for _, state := range []string{"STAGING", "ORPHAN", "PUBLISHED"} {
		if n := sample(t, m, `master_bundles{state="`+state+`"}`); n > 0 {
			out = append(out, fmt.Sprintf("%v %s with %v bytes", n, state, sample(t, m, `master_bundle_bytes{state="`+state+`"}`)))
		}
	}
	return strings.Join(out, ", ")
}

// TestStagingUnderFlood floods the store with other objects while a bundle is half written: it is published whole.
func TestStagingUnderFlood(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release Release) {
		beside(t, works)
		c := newTrainingCluster(t, release, release, 32*mib)
		b := Bundle{Rows: 200, Seed: 1, Longest: 1500, Chunk: 128 << 10, PauseAfter: 25, PauseSec: 8}
		handle := make(chan Handle, 1)
		go func() {
			h, _, _, err := c.produce.PutBundle(b)
			if err != nil {
				t.Error(err)
			}
			handle <- h
		}()
		eventually(t, 60*time.Second, "the bundle is being written", func() bool { return len(keysOf(t, c.master, "miles-object-store/")) >= 25 })
		flood := itemsOf("flood/", 150, func(int) int64 { return mib })
		var bad []string
		if err := c.consume.Do("write_many", map[string]any{"items": flood}, &bad); err != nil {
			t.Fatal(err)
		}
		if len(bad) > 0 {
			t.Logf("%d of %d puts of the flood were refused", len(bad), len(flood))
		}
		if n := metric(t, c.master, "master_evicted_key_count"); n < 100 {
			t.Errorf("only %v objects evicted: no flood", n)
		}
		if h := <-handle; h != nil {
			getBundle(t, c.consume, h, b)
			cleanBundle(t, c.consume, h)
		}
	})
}

// TestUnreadBundles writes 60 bundles that nobody reclaims into room for about 22: the oldest go, and never in part. Where
// the rules keep unread ones, puts are refused instead.
func TestUnreadBundles(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release Release) {
		beside(t, works)
		c := newTrainingCluster(t, release, release, 32*mib)
		const count = 60
		var handles []Handle
		b := Bundle{Rows: 200, Seed: 3, Longest: 900, Chunk: 200_000}
		for range count {
			handles = append(handles, putBundle(t, c.produce, b))
		}
		whole := wholeBundles(t, c.master, handles)
		t.Logf("%d of %d bundles are there", whole, count)
		if whole < 10 || whole > 40 {
			t.Errorf("%d bundles in a room for about 22", whole)
		}
		getBundle(t, c.consume, handles[count-1], b)
		if n := metric(t, c.master, "mooncake_go_bundles_evicted_unread_total"); int(n) != count-whole {
			t.Errorf("%v bundles counted as evicted unread, %d are gone", n, count-whole)
		}
		if !strings.Contains(c.master.Log(), "evicted_unread") {
			t.Error("the log says nothing of them")
		}
		keepUnread(t, c, b, handles)
	})
}

// keepUnread sets the rule that unread bundles stay: with the pool full of them a put is refused, and none goes.
func keepUnread(t *testing.T, c *trainingCluster, b Bundle, handles []Handle) {
	t.Helper()
	rule := `{"prefixes": ["miles-object-store/"], "evict": "bundle", "unread": "keep"}`
	if _, err := c.master.Request("PUT", "/api/v1/workloads/rollout", rule); err != nil {
		t.Fatal(err)
	}
	gone := metric(t, c.master, "mooncake_go_bundles_evicted_unread_total")
	refused := 0
	for refused < 3 {
		h, _, _, err := c.produce.PutBundle(b)
		switch {
		case err == nil:
			handles = append(handles, h)
		case strings.Contains(err.Error(), "-200"):
			refused++
		default:
			t.Fatal(err)
		}
		if len(handles) > 100 {
			t.Fatal("no put is refused")
		}
	}
	wholeBundles(t, c.master, handles)
	if n := metric(t, c.master, "mooncake_go_bundles_evicted_unread_total"); n != gone {
		t.Errorf("%v unread bundles evicted although the rule keeps them", n-gone)
	}
	if n := sample(t, c.master, `mooncake_go_workload_put_refusals_total{reason="unread_kept",workload="rollout"}`); n == 0 {
		t.Error("no refusal counted for unread bundles")
	}
}

// wholeBundles counts the bundles that are there; none may be there in part.
func wholeBundles(t *testing.T, m *Master, handles []Handle) (whole int) {
	t.Helper()
	counts := map[int]int{}
	keys := keysOf(t, m, "miles-object-store/")
	for _, h := range handles {
		prefix, n := strings.TrimSuffix(h.ManifestKey(), "manifest"), 0
		for _, k := range keys {
			if strings.HasPrefix(k, prefix) {
				n++
			}
		}
		counts[n]++
	}
	if len(counts) > 2 || len(counts) == 2 && counts[0] == 0 {
		t.Errorf("bundles in part: number of keys -> bundles: %v", counts)
	}
	return len(handles) - counts[0]
}
