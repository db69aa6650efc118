package catalog

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// begunCopy is a copy or move that was begun.
type begunCopy struct {
	host int
	key  string
	move bool
}

// copyWalk does random deeds around copies and moves. What must hold is not predicted: it is that no bytes have two owners
// or none, that replaying the Changes and a snapshot give the same state, and that an object that nothing took away can be
// read from its copies.
type copyWalk struct {
	t       *testing.T
	r       *replayed
	dice    *rand.Rand
	now     Time
	hosts   []UUID
	mounted map[int]Segment
	serial  uint64
	ended   int // copies and moves that succeeded
	trimmed int // copies that were taken away
	aborted int // copies and moves of clients that began anew
	begun   []begunCopy
}

func (w *copyWalk) host() int { return w.dice.IntN(len(w.hosts)) }

func (w *copyWalk) segmentName(i int) string { return fmt.Sprint("host", i) }

func (w *copyWalk) key() string {
	k := w.dice.IntN(8)
	if k < 3 {
		return fmt.Sprintf("run/%032x/%d", 7, k)
	}
	return fmt.Sprint("k", k)
}

func (w *copyWalk) mount(i int) {
	w.serial++
	s := Segment{ID: UUID{Hi: 9, Lo: w.serial}, Name: w.segmentName(i), Base: w.serial << 30, Size: 4000, Endpoint: w.segmentName(i), Protocol: "tcp"}
	if err := w.r.MountSegment(w.now, w.hosts[i], s); err != nil {
		w.t.Fatal(err)
	}
	w.mounted[i] = s
}

func (w *copyWalk) step() {
	c, i, j, key := w.r.Catalog, w.host(), w.host(), w.key()
	source := w.segmentName(i)
	if _, replicas, err := c.Peek(key, nil); err == nil {
		source = replicas[0].Segment.Name
	}
	switch w.dice.IntN(20) {
	case 0, 1, 2, 3:
		o := &PutOptions{Replicas: 1 + w.dice.Uint64N(2), Preferred: []string{w.segmentName(i)}}
		if w.dice.IntN(3) == 0 {
			o.Group = "g"
		}
		if _, err := c.PutStart(w.now, w.hosts[j], key, 1+w.dice.Uint64N(500), o, nil); err == nil && w.dice.IntN(4) > 0 {
			w.must(c.PutEnd(w.now, w.hosts[j], key, 5, true, ReplicaTypeAll))
		}
	case 4, 5, 6, 7, 8:
		move := w.dice.IntN(2) == 0
		if move {
			_, _, err := c.MoveStart(w.now, w.hosts[i], key, source, w.segmentName(j), nil)
			w.note(err, i, key, move)
			break
		}
		_, _, err := c.CopyStart(w.now, w.hosts[i], key, source, []string{w.segmentName(j), w.segmentName(w.host())}, nil)
		w.note(err, i, key, move)
	case 9, 10, 11, 12, 13:
		if len(w.begun) == 0 {
			break
		}
		at := w.dice.IntN(len(w.begun))
		b := w.begun[at]
		w.begun = append(w.begun[:at], w.begun[at+1:]...)
		end := c.CopyEnd
		if w.dice.IntN(2) == 0 {
			end = c.CopyEndMore
		}
		if b.move {
			end = c.MoveEnd
		}
		w.endKeepsReadable(b.key, func() { w.count(end(w.now, w.hosts[b.host], b.key)) })
	case 14:
		w.endKeepsReadable(key, func() { _ = c.CopyRevoke(w.now, w.hosts[i], key); _ = c.MoveRevoke(w.now, w.hosts[i], key) })
		w.trim(w.key())
		if w.dice.IntN(2) == 0 {
			w.endKeepsReadable(key, func() { w.aborted += c.AbortCopies(w.now, w.hosts[i]) })
			if again := c.AbortCopies(w.now, w.hosts[i]); again != 0 {
				w.t.Fatalf("%d copies of a client that has given up all", again)
			}
		}
	case 15:
		if _, err := c.UpsertStart(w.now, w.hosts[j], key, 1+w.dice.Uint64N(500), &PutOptions{Replicas: 1}, nil); err == nil {
			_ = c.UpsertEnd(w.now, w.hosts[j], key, 0, false, ReplicaTypeAll)
		}
	case 16:
		_ = c.Remove(w.now, key, w.dice.IntN(2) == 0)
	case 17:
		if s, ok := w.mounted[i]; ok && w.dice.IntN(2) == 0 {
			_, err := c.UnmountSegment(w.now, s.ID, UUID{})
			w.must(err)
			w.mount(i)
		} else {
			c.WritersGone(w.now, []Departure{{w.hosts[i], w.now}})
		}
	case 18:
		states := []uint8{SegmentOK, SegmentDraining, SegmentDrained}
		_ = c.SetSegmentState(w.now, w.segmentName(i), states[max(0, w.dice.IntN(6)-3)], fmt.Sprint("note", w.dice.IntN(3)), states...)
	case 19:
		w.now += Time(w.dice.Int64N(200_000))
		for _, id := range w.hosts {
			c.Ping(w.now, id)
		}
		c.Sweep(w.now)
	}
	w.now += Time(w.dice.Int64N(5000))
}

// trim takes a copy away if it is to spare: never are fewer left than there are to be.
func (w *copyWalk) trim(key string) {
	object, copies, _ := w.r.ThinCopies(key, nil)
	if len(copies) == 0 {
		return
	}
	id := copies[w.dice.IntN(len(copies))].ID
	w.endKeepsReadable(key, func() {
		if w.r.TrimCopy(w.now, key, id, 1) != nil {
			return
		}
		w.trimmed++
		if _, left, _ := w.r.ThinCopies(key, nil); len(left) != len(copies)-1 || len(left) < object.Wanted {
			w.t.Fatalf("%q is to have %d copies, had %d and has %d", key, object.Wanted, len(copies), len(left))
		}
	})
}

func (w *copyWalk) note(err error, host int, key string, move bool) {
	if err == nil {
		w.begun = append(w.begun, begunCopy{host, key, move})
	}
}

func (w *copyWalk) count(err error) {
	if err == nil {
		w.ended++
	}
}

func (w *copyWalk) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

// endKeepsReadable ends a copy in some way: whatever could be read before can be read afterwards.
func (w *copyWalk) endKeepsReadable(key string, end func()) {
	_, _, before := w.r.Peek(key, nil)
	end()
	if _, _, after := w.r.Peek(key, nil); before == nil && after != nil {
		w.t.Fatalf("%q could be read and cannot any more: %v", key, after)
	}
}

func TestCopiesAtRandom(t *testing.T) {
	ended, trimmed, aborted := 0, 0, 0
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &copyWalk{t: t, r: newTest(t, testConfig()), dice: rand.New(rand.NewPCG(seed, 1)), now: 1_800_000_000_064, mounted: map[int]Segment{}}
			for i := range 4 {
				w.hosts = append(w.hosts, UUID{Hi: 8, Lo: uint64(i)})
				w.mount(i)
			}
			for i := range 200 {
				w.step()
				w.r.now = max(w.r.now, w.now)
				if i%8 == 0 {
					w.r.compare()
				}
			}
			w.r.compare()
			w.r.compareSnapshot()
			ended += w.ended
			trimmed += w.trimmed
			aborted += w.aborted
		})
	}
	if ended < 100 || trimmed < 5 || aborted < 5 {
		t.Errorf("only %d copies came to their end, %d were taken away, %d given up: the deeds do not meet each other", ended, trimmed, aborted)
	}
}
