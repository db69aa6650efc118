package interop

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"
)

// killing is a couple of masters whose leader is killed again and again, a client that writes and two that read.
type killing struct {
	*couple
	writer  *Store
	readers []*Store
	full    bool      // the pool is full: old objects go to make room
	last    time.Time // when the leader was killed last
	evicted float64
	pinned  []Item // acknowledged, and never evicted
}

// TestKills kills the leader of two masters again and again under clients that write and read: whatever was acknowledged,
// and whatever a reader has seen, is there afterwards. In a full pool the oldest objects go to make room. What the loss of
// a leader could take are the newest ones, so there the newest half of the pool must be there, and all that is pinned.
func TestKills(t *testing.T) {
	if !*soak { // when soaking, the two have the machine for themselves
		t.Parallel()
	}
	for _, pool := range []struct {
		name         string
		full         bool
		paced, flood int
	}{{"half", false, repeat(3, 25), repeat(1, 10)}, {"full", true, repeat(2, 25), repeat(1, 10)}} {
		t.Run(pool.name, func(t *testing.T) {
			if *soak {
				t.Parallel()
			} else {
				beside(t, elects)
			}
			k := startKilling(t, pool.full)
			for n := range pool.paced {
				k.round(n, Flood{Prefix: fmt.Sprintf("paced-%d", n), Threads: 1, Batch: 1, PaceMs: 5, SizeBytes: 1000, PinEvery: 40})
			}
			for n := range pool.flood {
				k.round(n, Flood{Prefix: fmt.Sprintf("flood-%d", n), Threads: 4, Batch: 100, SizeBytes: 1000, PinEvery: 40})
			}
			if k.full == (k.evicted == 0) {
				t.Errorf("%v objects were evicted", k.evicted)
			}
			if missing := missingOf(k.pinned, k.keys("")); len(missing) > 0 || k.full && len(k.pinned) == 0 {
				t.Errorf("%d of %d pinned objects are lost", len(missing), len(k.pinned))
			}
			k.times.tell(t, promises)
		})
	}
}

const (
	killLeaseMs   = 3000
	halfPoolBytes = 512 * mib
	fullPoolBytes = 128 * mib
)

func startKilling(t *testing.T, full bool) *killing {
	t.Helper()
	k := &killing{couple: startCouple(t, killLeaseMs), full: full}
	bytes := int64(halfPoolBytes)
	if full {
		bytes = fullPoolBytes
	}
	startStore(t, k.r, R13, StoreOptions{Master: k.address(), SegmentBytes: bytes})
	k.writer = startStore(t, k.r, R13, StoreOptions{Master: k.address()})
	k.readers = []*Store{
		startStore(t, k.r, R12, StoreOptions{Master: k.address(), Host: "127.0.0.3"}),
		startStore(t, k.r, R14, StoreOptions{Master: k.address()}),
	}
	filler := itemsOf("filler/", halfPoolBytes/2/(16*mib), func(int) int64 { return 16 * mib })
	if full {
		filler = itemsOf("filler/", 140, func(int) int64 { return mib })
	}
	var bad []string
	if err := k.writer.Do("write_many", map[string]any{"items": filler}, &bad); err != nil || len(bad) != 0 {
		t.Fatalf("filling the pool: %v, failed %v", err, bad)
	}
	return k
}

// round kills the leader once while f is written, and looks at what is left.
func (k *killing) round(n int, f Flood) {
	t := k.t
	t.Helper()
	if k.full { // while all that is old is leased, new objects would go to make room
		time.Sleep(time.Until(k.last.Add(2 * killLeaseMs * time.Millisecond)))
	}
	for _, r := range k.readers {
		if err := r.StartFollowing(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.writer.StartFlood(f); err != nil {
		t.Fatal(err)
	}
	enough := 150
	if f.Batch > 1 {
		enough = 60
	}
	eventually(t, 60*time.Second, "writing to be under way", func() bool {
		acked, _, err := k.writer.FloodState(f)
		if err != nil {
			t.Fatal(err)
		}
		return acked >= enough
	})
	k.evicted += metric(t, k.leader, "master_evicted_key_count")
	restart := !*soak || n%3 != 2
	l := k.lose(syscall.SIGKILL, restart, k.writer, f)
	out, err := k.writer.StopFlood(f)
	if err != nil {
		t.Fatal(err)
	}
	k.last = l.at.Add(l.served)
	gap, first := recovery(out, l)
	var seen []Followed
	for _, r := range k.readers {
		s, err := r.StopFollowing(f)
		if err != nil || len(s.Errors) > 0 || len(s.Wrong) > 0 {
			t.Fatalf("a reader: %v, %v, wrong bytes in %v", err, s.Errors, s.Wrong)
		}
		seen = append(seen, s)
	}
	t.Logf("%s, restarted at once %v: served after %v, first put after %v, gap %v; %d calls acknowledged, failed by code %s; readers compared %d and %d objects, showed themselves %d and %d times",
		f.Prefix, restart, l.served.Round(time.Millisecond), first.Round(time.Millisecond), gap.Round(time.Millisecond), len(out.Acked), codes(out.Failed),
		seen[0].Reads, seen[1].Reads, seen[0].Shown, seen[1].Shown)
	k.times.add(servesAfterKill, l.served)
	if f.Batch == 1 && !k.full { // a full pool takes nothing until the leases that a new leader grants are over
		k.times.add(map[bool]string{true: firstPutAnswered, false: firstPutDead}[restart], first)
	}
	k.check(f, out, seen)
}

// check looks for everything that must be there after a kill.
func (k *killing) check(f Flood, out Flooded, seen []Followed) {
	t := k.t
	t.Helper()
	there := k.keys(f.Prefix + "/")
	excused := int(metric(t, k.leader, "master_evicted_key_count"))
	calls, oldest := k.due(f, out)
	var items []Item
	for _, c := range calls {
		for n := c.Number * f.Batch; n < (c.Number+1)*f.Batch; n++ {
			items = append(items, f.Item(c.Lane, n))
		}
	}
	missing := missingOf(items, there)
	if len(missing) > excused {
		t.Fatalf("%d of %d acknowledged objects are lost, %d evicted meanwhile; the first of them %v", len(missing), len(items), excused, missing[:min(len(missing), 5)])
	}
	sighted := 0
	for n, s := range seen {
		for lane, numbers := range s.Seen {
			var due []Item
			for _, number := range numbers {
				if number/f.Batch >= oldest[lane] {
					due = append(due, f.Item(lane, number))
				}
			}
			if missing := missingOf(due, there); len(missing) > excused {
				t.Fatalf("reader %d saw %d objects of which %d are gone, %d were evicted meanwhile; the first of them %v", n, len(due), len(missing), excused, missing[:min(len(missing), 5)])
			}
			sighted += len(due)
		}
	}
	if len(items) == 0 || sighted == 0 {
		t.Fatalf("nothing to see: %d acknowledged objects, %d seen by readers", len(items), sighted)
	}
	if k.full { // reading takes a while, in which more may go
		return
	}
	if most := repeat(2000, 10_000); len(items) > most { // the newest ones
		items = items[len(items)-most:]
	}
	for _, r := range k.readers {
		// A connection may have ended, which a client learns with its next call.
		tries := 0
		eventually(t, 60*time.Second, "a reader to read", func() bool {
			if tries++; tries > 1 { // it shows of which release it is, see StartFollowing
				if _, err := r.Put(Item{Key: key("shown/%s/%s/again/%d", r.Client.Release, f.Prefix, tries), Size: 5}, nil); err != nil {
					t.Fatal(err)
				}
			}
			got, err := r.Get(items[len(items)-1])
			return err == nil && got.Same
		})
		readAll(t, []*Store{r}, items)
	}
	var removed int
	if err := k.writer.Call(&removed, "remove_by_regex", "^"+f.Prefix+"/", true); err != nil || removed < len(there) {
		t.Fatalf("%d of %d objects removed, %v", removed, len(there), err)
	}
	if left := k.keys(f.Prefix + "/"); len(left) != 0 {
		t.Fatalf("%d of %d objects are there after their removal", len(left), len(there))
	}
}

// due picks the acknowledged calls whose objects must be there, in order of time, and tells the first of each lane. In a
// full pool these are the newest ones that together fill half of it, and the pinned ones, which are noted for the end.
func (k *killing) due(f Flood, out Flooded) (calls []FloodCall, oldest []int) {
	calls = slices.Clone(out.Acked)
	slices.SortStableFunc(calls, func(a, b FloodCall) int { return a.At.Compare(b.At) })
	oldest = make([]int, f.Threads)
	if !k.full {
		return calls, oldest
	}
	for _, c := range calls {
		if c.Number%f.PinEvery == 0 {
			for n := c.Number * f.Batch; n < (c.Number+1)*f.Batch; n++ {
				k.pinned = append(k.pinned, f.Item(c.Lane, n))
			}
		}
	}
	if most := fullPoolBytes / 2 / int(f.SizeBytes) / f.Batch; len(calls) > most {
		calls = calls[len(calls)-most:]
	}
	for n := len(calls) - 1; n >= 0; n-- {
		oldest[calls[n].Lane] = calls[n].Number
	}
	return calls, oldest
}

// missingOf names the items that are not there.
func missingOf(items []Item, there map[string]bool) (missing []string) {
	for _, i := range items {
		if !there[string(i.Key)] {
			missing = append(missing, string(i.Key))
		}
	}
	return missing
}
