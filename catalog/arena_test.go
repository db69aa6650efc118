package catalog

import (
	"testing"
	"unsafe"

	"mooncake/internal/limits"
	"pgregory.net/rapid"
)

func TestClassesCoverEverySize(t *testing.T) {
	for _, bytes := range []int{1, 15, 16, 17, 112, 1023, 1024, 1025, 1280, 1281, 70_112, spanBytes/2 + 1, spanBytes} {
		class := classOf(bytes)
		if got := int(slotBytes[class]); got < bytes {
			t.Errorf("class of %d bytes has slots of %d", bytes, got)
		}
		if got := int(slotBytes[class-1]); got >= bytes {
			t.Errorf("%d bytes would fit the smaller class of %d", bytes, got)
		}
	}
	if last := slotBytes[len(slotBytes)-1]; last != spanBytes {
		t.Errorf("the largest slot has %d bytes", last)
	}
	if recordBytes+limits.KeyBytesMax > spanBytes || unitBytes+limits.KeyBytesMax > spanBytes {
		t.Error("the longest key does not fit into a span")
	}
}

// TestArena allocates and releases at random and checks that no two live slots overlap and that every one keeps its
// bytes and starts zeroed.
func TestArena(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newArena()
		defer a.freeAll()
		type slot struct {
			n     name
			bytes int
			fill  byte
		}
		var live []slot
		content := func(s slot) []byte { return unsafe.Slice((*byte)(a.at(s.n)), s.bytes) }
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				s := slot{bytes: rapid.OneOf(rapid.IntRange(8, 300), rapid.IntRange(300, spanBytes/16)).Draw(t, "bytes"), fill: byte(len(live)) | 1}
				s.n = a.alloc(kind(rapid.IntRange(0, int(kinds)-1).Draw(t, "kind")), s.bytes)
				for i, b := range content(s) {
					if b != 0 {
						t.Fatalf("byte %d of a new slot is %d", i, b)
					}
				}
				for i := range content(s) {
					content(s)[i] = s.fill
				}
				live = append(live, s)
			},
			"release": func(t *rapid.T) {
				if len(live) == 0 {
					t.Skip("nothing is live")
				}
				i := rapid.IntRange(0, len(live)-1).Draw(t, "slot")
				s := live[i]
				for at, b := range content(s) {
					if b != s.fill {
						t.Fatalf("byte %d of a live slot changed", at)
					}
				}
				a.release(s.n)
				live[i] = live[len(live)-1]
				live = live[:len(live)-1]
			},
		})
		for _, s := range live {
			a.release(s.n)
		}
		if a.held.Load() != int64(spanBytes*len(a.spare)) || len(a.spare) > limits.CatalogSpareSpans {
			t.Fatalf("%d bytes are held, %d spans spare", a.held.Load(), len(a.spare))
		}
		for a.shrink() {
		}
		if a.held.Load() != 0 || len(a.spare) != 0 {
			t.Fatalf("%d bytes are held, %d spans spare after all were given back", a.held.Load(), len(a.spare))
		}
	})
}

// FuzzTable compares the table with a map. Hashes are few, so that tags collide.
func FuzzTable(f *testing.F) {
	f.Add([]byte{1, 2, 3, 1, 2, 3})
	f.Add([]byte{0x81, 1, 0x91, 0x11, 1, 0x81, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, ops []byte) {
		var table table
		have := map[name]uint64{}
		for i, op := range ops {
			// Sixteen tags that share their low bits, so that homes collide as well.
			hash := uint64(op%16) << 28
			n := name(op) + 1
			if _, ok := have[n]; ok {
				if !table.remove(hash, n) {
					t.Fatalf("step %d: %d was not there", i, n)
				}
				delete(have, n)
			} else {
				if table.remove(hash, n) {
					t.Fatalf("step %d: removed %d, which is not there", i, n)
				}
				table.insert(hash, n)
				have[n] = hash
			}
			if table.count != len(have) {
				t.Fatalf("step %d: %d entries of %d", i, table.count, len(have))
			}
			for n, hash := range have {
				found, at := table.first(hash)
				for found != 0 && found != n {
					found, at = table.next(hash, at)
				}
				if found != n {
					t.Fatalf("step %d: %d is lost", i, n)
				}
			}
		}
	})
}

func TestTableGrowsAndShrinks(t *testing.T) {
	var table table
	hash := func(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 }
	const n = 20_000
	for i := 1; i <= n; i++ {
		table.insert(hash(i), name(i))
	}
	if load := float64(n) / float64(len(table.slots)); load < 0.4 || load > 0.8 {
		t.Errorf("load %.2f", load)
	}
	for i := 1; i <= n; i++ {
		if !table.remove(hash(i), name(i)) {
			t.Fatalf("%d is lost", i)
		}
	}
	if len(table.slots) > tableSlotsMin {
		t.Errorf("%d slots are left", len(table.slots))
	}
}

func TestTimeHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h timeHeap[int]
		times := rapid.SliceOf(rapid.Int64Range(0, 20)).Draw(t, "times")
		for i, at := range times {
			h.push(Time(at), i)
		}
		last := Time(-1)
		for len(h) > 0 {
			if h.due(h[0].at-1) || !h.due(h[0].at) {
				t.Fatal("due at the wrong time")
			}
			top := h.pop()
			if top.at < last || Time(times[top.item]) != top.at {
				t.Fatalf("%d after %d", top.at, last)
			}
			last = top.at
		}
	})
}

// TestBestWindow compares the sliding window with a look at every offset.
func TestBestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segmentSize := rapid.Uint64Range(1, 60).Draw(t, "segment")
		size := rapid.Uint64Range(1, segmentSize).Draw(t, "size")
		c := &Catalog{}
		for at := uint64(0); ; {
			at += rapid.Uint64Range(0, 5).Draw(t, "gap")
			end := at + rapid.Uint64Range(1, 8).Draw(t, "bytes")
			if end > segmentSize {
				break
			}
			age := rapid.SampledFrom([]uint32{1, 2, 3, 4, wall}).Draw(t, "age")
			c.placer.cells = append(c.placer.cells, cell{offset: at, end: end, age: age})
			at = end
		}
		youngest := func(start uint64) uint32 {
			age := uint32(0)
			for _, cl := range c.placer.cells {
				if cl.offset < start+size && start < cl.end {
					age = max(age, cl.age)
				}
			}
			return age
		}
		best := wall
		for start := uint64(0); start+size <= segmentSize; start++ {
			best = min(best, youngest(start))
		}
		start, _, ok := c.bestWindow(segmentSize, size)
		if ok != (best != wall) {
			t.Fatalf("found %v, want %v", ok, best != wall)
		}
		if ok && (start+size > segmentSize || youngest(start) != best) {
			t.Fatalf("window at %d covers age %d; the best is %d", start, youngest(start), best)
		}
	})
}

// TestArenaPairs fills spans of one sort: after the first few they come in pairs, and all go back.
func TestArenaPairs(t *testing.T) {
	a := newArena()
	defer a.freeAll()
	const spans = limits.CatalogPairSpans + 5
	var slots []name
	for len(a.spans)-1 < spans {
		n := a.alloc(kindRecord, spanBytes/2)
		*(*uint64)(a.at(n)) = uint64(n)
		*(*uint64)(unsafe.Add(a.at(n), spanBytes/2-8)) = uint64(n)
		slots = append(slots, n)
	}
	if got := a.held.Load(); got != (spans+1)*spanBytes || len(a.spare) != 1 {
		t.Errorf("%d bytes are held for %d spans, %d are spare", got, spans, len(a.spare))
	}
	for id := limits.CatalogPairSpans + 1; id < spans; id += 2 {
		if a.base[id+1] != unsafe.Add(a.base[id], spanBytes) {
			t.Errorf("spans %d and %d are no pair", id, id+1)
		}
	}
	for _, n := range slots {
		if first, last := *(*uint64)(a.at(n)), *(*uint64)(unsafe.Add(a.at(n), spanBytes/2-8)); first != uint64(n) || last != first {
			t.Errorf("slot %x holds %x and %x", n, first, last)
		}
		a.release(n)
	}
	for a.shrink() {
	}
	if a.held.Load() != 0 || len(a.spare) != 0 || a.count[kindRecord][classOf(spanBytes/2)] != 0 {
		t.Errorf("%d bytes, %d spans and %d of the sort are left", a.held.Load(), len(a.spare), a.count[kindRecord][classOf(spanBytes/2)])
	}
}

// TestDoomOfTheLastSpan has survivors in the span behind which no name is left.
func TestDoomOfTheLastSpan(t *testing.T) {
	a := newArena()
	defer a.freeAll()
	a.spans = make([]span, spansMax-1)
	class := classOf(64)
	id := a.open(kindRecord, class)
	if id != spansMax-1 {
		t.Fatalf("span %d", id)
	}
	var kept []name
	for range 3 {
		kept = append(kept, a.alloc(kindRecord, 64))
	}
	for _, list := range [][]name{kept[1:2], kept[1:2]} { // twice: what is torn can be fenced again
		if !a.fence(kindRecord) {
			t.Fatal("no fence")
		}
		a.doom(list)
		s := &a.spans[id]
		if !s.live || s.used != 1 || !s.lives(kept[1]) || s.lives(kept[0]) || s.lives(kept[2]) {
			t.Fatalf("%+v", s)
		}
		for a.mend() {
		}
	}
	a.release(kept[1])
	if a.base[id] != nil {
		t.Error("an empty span is kept")
	}
}

// Memory for the next records is got before the last of the present is taken, once, and none after the end.
func TestProvide(t *testing.T) {
	c := New(testConfig())
	a := c.s.arena
	records := func() {
		for len(a.spare) > 0 || a.room[kindRecord][classOf(recordBytes)] != 0 {
			if a.alloc(kindRecord, recordBytes) == 0 {
				t.Fatal("no memory")
			}
		}
	}
	for range limits.CatalogPairSpans {
		c.Provide()
		if a.alloc(kindRecord, recordBytes) == 0 {
			t.Fatal("no memory")
		}
		records()
	}
	if held := a.held.Load(); held != limits.CatalogPairSpans*spanBytes || a.thin.Load() {
		t.Fatalf("%d bytes are held before memory comes in pairs, thin %v", held, a.thin.Load())
	}
	for range 3 {
		before := a.held.Load()
		if a.alloc(kindRecord, recordBytes) == 0 {
			t.Fatal("no memory")
		}
		taken := a.held.Load() - before
		for len(a.spare) > 0 {
			if a.alloc(kindRecord, recordBytes) == 0 {
				t.Fatal("no memory")
			}
		}
		if !a.thin.Load() {
			t.Fatal("the last spare span was taken, and nobody is told")
		}
		c.Provide()
		c.Provide()
		if more := a.held.Load() - before - taken; more != 2*spanBytes || len(a.spare) != 2 {
			t.Fatalf("%d bytes were provided, %d spans are spare", more, len(a.spare))
		}
		records()
		a.thin.Store(false)
	}
	a.thin.Store(true)
	c.Close()
	c.Provide()
	if a.held.Load() != 0 || len(a.spare) != 0 {
		t.Fatalf("%d bytes are held after the end", a.held.Load())
	}
}
