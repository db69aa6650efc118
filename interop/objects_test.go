package interop

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// pair is a cluster with two clients that bring no memory of their own: all bytes lie in the segment daemon.
type pair struct {
	master *Master
	write  *Store
	read   *Store
}

// TestObjects runs the plain object calls of each release, alone on the common port: one client writes, another reads.
func TestObjects(t *testing.T) {
	beside(t, works)
	eachRelease(t, func(t *testing.T, release Release) {
		r := newRig(t)
		m := startMaster(t, r, MasterOptions{LeaseMs: 2500})
		startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 128 * mib})
		p := &pair{master: m}
		p.write = startStore(t, r, release, StoreOptions{Master: m.RPC})
		// A first write shows which dialect the newcomers of this cluster speak.
		put(t, p.write, Item{Key: "first", Size: 1, Seed: 1}, nil)
		p.read = startStore(t, r, release, StoreOptions{Master: m.RPC, Positional: true})
		for _, c := range objectCases {
			if !t.Run(c.name, func(t *testing.T) { c.test(t, p) }) && p.write.Client.proc.exited() {
				t.Fatal("the writing client is gone")
			}
		}
	})
}

// testLeavesNothing empties the store and counts what is left.
func testLeavesNothing(t *testing.T, p *pair) {
	var n int
	if err := p.write.Call(&n, "remove_all", true); err != nil || n < 1 {
		t.Fatalf("remove_all: %d, %v", n, err)
	}
	wantMetric(t, p.master, "master_key_count", 0)
	wantMetric(t, p.master, "master_allocated_bytes", 0)
}

var objectCases = []struct {
	name string
	test func(t *testing.T, p *pair)
}{
	{"version", testVersion},
	{"sizes", testSizes},
	{"second put keeps the first value", testSecondPut},
	{"missing keys", testMissing},
	{"batches", testBatches},
	{"zero copy batches", testZeroCopy},
	{"parts and ranges", testRanges},
	{"lease", testLease},
	{"patterns", testPatterns},
	{"pins", testPins},
	{"refused sizes", testRefused},
	{"race of writers", testRacingWriters},
	{"odd keys", testOddKeys},
	{"leaves nothing", testLeavesNothing},
	{"upsert", testUpsert}, // last: what it replaced stays allocated for the release timeout, for readers that are under way
}

// testVersion makes sure that the environment holds what its name says.
func testVersion(t *testing.T, p *pair) {
	var v string
	if err := p.write.Client.Do("version", nil, &v); err != nil || v != p.write.Client.Release.Version() {
		t.Fatalf("version %q, %v", v, err)
	}
	// The driver itself: a wrong expectation must be noticed.
	put(t, p.write, Item{Key: "driver", Size: 100, Seed: 1}, nil)
	if got, err := p.read.Get(Item{Key: "driver", Size: 100, Seed: 2}); err != nil || got.Same {
		t.Fatalf("a wrong value counts as the same: %+v, %v", got, err)
	}
}

func testSizes(t *testing.T, p *pair) {
	for _, size := range []int64{1, 15, 16, 4095, 4096, 4097, 65536, mib - 1, mib + 1, 5*mib + 17, 48 * mib} {
		i := Item{Key: key("size/%d", size), Size: size, Seed: size}
		put(t, p.write, i, nil)
		callWant(t, p.read, 1, "is_exist", i.Key)
		callWant(t, p.read, int(size), "get_size", i.Key)
		get(t, p.read, i)
		if at := replicas(t, p.read, i.Key); len(at) != 1 || at[0].Size != size {
			t.Fatalf("replicas of %q: %+v", i.Key, at)
		}
	}
}

func testSecondPut(t *testing.T, p *pair) {
	first := Item{Key: "twice", Size: 1000, Seed: 1}
	put(t, p.write, first, nil)
	put(t, p.write, Item{Key: "twice", Size: 1000, Seed: 2}, nil)
	get(t, p.read, first)
	put(t, p.read, Item{Key: "twice", Size: 3, Seed: 3}, nil)
	get(t, p.read, first)
}

func testMissing(t *testing.T, p *pair) {
	k := Key("never/written")
	absent(t, p.read, k)
	callWant(t, p.read, 0, "is_exist", k)
	callWant(t, p.read, codeNotFound, "get_size", k)
	callWant(t, p.read, codeNotFound, "remove", k)
	callWant(t, p.read, codeNotFound, "remove", k, true)
	callWantAll(t, p.read, []int{0}, "batch_is_exist", []Key{k})
	callWantAll(t, p.read, []int{codeNotFound}, "batch_remove", []Key{k}, true)
	got, _, err := p.read.GetInto([]Item{{Key: k, Size: 64}})
	if err != nil || got[0].Size != codeNotFound {
		t.Fatalf("batch_get_into: %+v, %v", got, err)
	}
	if at := replicas(t, p.read, k); len(at) != 0 {
		t.Fatalf("replicas: %+v", at)
	}
}

func testBatches(t *testing.T, p *pair) {
	items := itemsOf("batch/", 40, func(i int) int64 { return int64(100 + 137*i) })
	var code int
	if err := p.write.Do("put_batch", map[string]any{"items": items}, &code); err != nil || code != codeOK {
		t.Fatalf("put_batch: %d, %v", code, err)
	}
	var keys []Key
	for _, i := range items {
		keys = append(keys, i.Key)
	}
	callWantAll(t, p.read, append(slices.Repeat([]int{1}, 40), 0), "batch_is_exist", append(slices.Clone(keys), "batch/none"))
	var got []Got
	if err := p.read.Do("get_batch", map[string]any{"items": items}, &got); err != nil {
		t.Fatal(err)
	}
	for n, g := range got {
		if !g.Same {
			t.Fatalf("get_batch: item %d has %d bytes", n, g.Size)
		}
	}
	callWantAll(t, p.write, slices.Repeat([]int{0}, 20), "batch_remove", keys[:20], true)
	callWantAll(t, p.read, append(slices.Repeat([]int{0}, 20), slices.Repeat([]int{1}, 20)...), "batch_is_exist", keys)
}

func testZeroCopy(t *testing.T, p *pair) {
	items := itemsOf("direct/", 12, func(i int) int64 { return int64(1 + i*i*9973) })
	codes, _, err := p.write.PutFrom(items, nil)
	if err != nil || !slices.Equal(codes, make([]int, 12)) {
		t.Fatalf("batch_put_from: %v, %v", codes, err)
	}
	asked := slices.Clone(items)
	asked[5].Key = "direct/none"
	got, _, err := p.read.GetInto(asked)
	if err != nil {
		t.Fatal(err)
	}
	for n, g := range got {
		if n == 5 {
			if g.Size != codeNotFound {
				t.Fatalf("the missing item answers %d", g.Size)
			}
		} else if g.Size != items[n].Size || !g.Same {
			t.Fatalf("item %d: %+v", n, g)
		}
	}
}

func testRanges(t *testing.T, p *pair) {
	args := map[string]any{"key": "parts", "size": 90_000, "seed": 4, "cuts": []int{10, 4000, 70_000}}
	var code int
	if err := p.write.Do("put_parts", args, &code); err != nil || code != codeOK {
		t.Fatalf("put_parts: %d, %v", code, err)
	}
	get(t, p.read, Item{Key: "parts", Size: 90_000, Seed: 4})
	args["ranges"] = [][2]int{{89_990, 10}, {5, 50}, {4000, 66_000}}
	var got struct {
		Sizes []int `json:"sizes"`
		Same  bool  `json:"same"`
	}
	if err := p.read.Do("get_ranges", args, &got); err != nil || !slices.Equal(got.Sizes, []int{10, 50, 66_000}) || !got.Same {
		t.Fatalf("ranges: %+v, %v", got, err)
	}
	args["ranges"] = [][2]int{{89_995, 10}}
	if err := p.read.Do("get_ranges", args, &got); err != nil || got.Sizes[0] >= 0 {
		t.Fatalf("a range past the end: %+v, %v", got, err)
	}
}

func testUpsert(t *testing.T, p *pair) {
	for n, size := range []int64{5000, 5000, 70_000, 3} {
		i := Item{Key: "replaced", Size: size, Seed: int64(n)}
		code, err := p.write.Upsert(i)
		if err != nil || code != codeOK {
			t.Fatalf("upsert to %d bytes: %d, %v", size, code, err)
		}
		get(t, p.read, i)
	}
	items := []Item{{Key: "replaced", Size: 100, Seed: 9}, {Key: "replaced/new", Size: 200, Seed: 10}}
	var reply struct {
		RCs []int `json:"rcs"`
	}
	if err := p.write.Do("put_from", map[string]any{"items": items, "upsert": true}, &reply); err != nil || !slices.Equal(reply.RCs, []int{0, 0}) {
		t.Fatalf("batch_upsert_from: %v, %v", reply.RCs, err)
	}
	get(t, p.read, items[0])
	get(t, p.read, items[1])
}

func testLease(t *testing.T, p *pair) {
	put(t, p.write, Item{Key: "lease/unread", Size: 10, Seed: 1}, nil)
	callWant(t, p.write, codeOK, "remove", "lease/unread")
	put(t, p.write, Item{Key: "lease/asked", Size: 10, Seed: 1}, nil)
	callWant(t, p.read, 1, "is_exist", "lease/asked")
	callWant(t, p.write, codeHasLease, "remove", "lease/asked")
	read := Item{Key: "lease/read", Size: 10, Seed: 1}
	put(t, p.write, read, nil)
	start := time.Now() // the lease begins later, however long the read takes
	get(t, p.read, read)
	callWant(t, p.write, codeHasLease, "remove", read.Key)
	callWant(t, p.write, codeOK, "remove", "lease/asked", true)
	eventually(t, 60*time.Second, "the lease ends", func() bool {
		var code int
		return p.write.Call(&code, "remove", read.Key) == nil && code == codeOK
	})
	if held := time.Since(start); held < 2200*time.Millisecond {
		t.Fatalf("a lease of 2.5 s ended after %v", held)
	}
}

func testPatterns(t *testing.T, p *pair) {
	for _, i := range itemsOf("pattern-", 10, func(int) int64 { return 64 }) {
		put(t, p.write, i, nil)
	}
	callWant(t, p.write, 4, "remove_by_regex", "^pattern-[0-3]$")
	callWant(t, p.write, 0, "remove_by_regex", "^pattern-[0-3]$")
	callWant(t, p.read, 0, "is_exist", "pattern-3")
	callWant(t, p.read, 1, "is_exist", "pattern-4")
	callWant(t, p.write, 5, "remove_by_regex", "ern-[4-9]") // a search, not a match; the read one has a lease
	callWant(t, p.write, 1, "remove_by_regex", "ern-4", true)
	callWant(t, p.write, codeInvalid, "remove_by_regex", "([unclosed")
}

func testPins(t *testing.T, p *pair) {
	for _, pin := range []Config{{"with_hard_pin": true}, {"soft_pin": true}} {
		i := Item{Key: key("pinned/%v", pin), Size: 3000, Seed: 1}
		put(t, p.write, i, pin)
		get(t, p.read, i)
		callWant(t, p.write, codeOK, "remove", i.Key, true)
		callWant(t, p.read, 0, "is_exist", i.Key)
	}
}

func testRefused(t *testing.T, p *pair) {
	putCode(t, p.write, Item{Key: "", Size: 10, Seed: 1}, nil, codeInvalid)
	putCode(t, p.write, Item{Key: "empty", Size: 0, Seed: 1}, nil, codeInvalid)
	codes, _, err := p.write.PutFrom([]Item{{Key: "fits", Size: 1000, Seed: 1}, {Key: "too/big", Size: 130 * mib, Seed: 2}}, nil)
	if err != nil || !slices.Equal(codes, []int{codeOK, codeNoHandle}) {
		t.Fatalf("codes %v, %v; want the second refused", codes, err)
	}
	callWant(t, p.read, 0, "is_exist", "too/big")
	get(t, p.read, Item{Key: "fits", Size: 1000, Seed: 1})
}

func testRacingWriters(t *testing.T, p *pair) {
	for n := range repeat(3, 30) {
		var got struct {
			RCs   []int `json:"rcs"`
			Whole bool  `json:"whole"`
		}
		if err := p.write.Do("race_put", map[string]any{"key": key("race/%d", n), "size": 20_000, "threads": 8}, &got); err != nil {
			t.Fatal(err)
		}
		if !got.Whole || len(got.RCs) != 8 {
			t.Fatalf("codes %v, whole=%v", got.RCs, got.Whole)
		}
	}
}

// testOddKeys stores under keys of any bytes. The listing shows each key on a line of its own whatever it holds.
func testOddKeys(t *testing.T, p *pair) {
	keys := []Key{
		" ", "a b", "ü/数学/🙂", "tab\tkey", "new\nline", "nul\x00key", "percent%2Fkey", `quo"te\`, "../../etc/passwd",
		"key=value&x", "\x7f", "\x80\xff\xfe", Key(strings.Repeat("long/", 1000)),
	}
	dice := rand.New(rand.NewPCG(38, 38))
	for range repeat(40, 400) {
		raw := make([]byte, 1+dice.IntN(60))
		for i := range raw {
			raw[i] = byte(dice.IntN(256))
		}
		keys = append(keys, "odd/"+Key(raw))
	}
	for n, k := range keys {
		i := Item{Key: k, Size: int64(1 + n), Seed: int64(n)}
		put(t, p.write, i, nil)
		get(t, p.read, i)
		callWant(t, p.read, 1, "is_exist", k)
	}
	if !replaced("master") {
		listed := keysOf(t, p.master, "")
		if known := metric(t, p.master, "master_key_count"); float64(len(listed)) != known {
			t.Errorf("the listing has %d lines for %v keys", len(listed), known)
		}
		for _, k := range []string{"a b", "ü/数学/🙂", "percent%2Fkey", "../../etc/passwd"} {
			if !slices.Contains(listed, k) {
				t.Errorf("%q is not listed as it is", k)
			}
		}
	}
	for _, k := range keys {
		callWant(t, p.write, codeOK, "remove", k, true)
		callWant(t, p.read, 0, "is_exist", k)
	}
	if left := fmt.Sprint(keysOf(t, p.master, "odd/")); left != "[]" {
		t.Errorf("left behind: %s", left)
	}
}
