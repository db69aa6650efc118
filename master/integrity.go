package master

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/catalog"
	"mooncake/internal/limits"
)

// integrity has the sums of objects found, compared and kept. Daemons that keep a stream find them, in their own memory: when
// an object is complete, when somebody doubts a copy, and in a slow walk through everything that never ends. What does not
// have the sum of its object is looked at once more, and then never handed out again; the healing makes another copy.
//
// The sums are the catalog's, and so durable; who is to look at what, and when, only this leader knows. The lock is a leaf.
type integrity struct {
	on    bool
	scrub uint64 // bytes a second of each daemon; 0 is never

	mu      sync.Mutex
	daemons map[catalog.UUID]*sumDaemon
	info    IntegrityInfo
	keys    []string          // of stepIntegrity, used again
	tasks   []catalog.SumTask // the same
}

// sumDaemon is what one daemon is to look at. The lock of integrity guards it.
type sumDaemon struct {
	wake     chan struct{} // has one when there is more to do
	queue    []sumJob
	missing  bool // objects without a sum are to be looked for
	scrubNow bool // the next walk begins at once
	rounds   uint64
	bytes    uint64 // of this round
}

// sumJob is a copy that is being looked at, piece by piece.
type sumJob struct {
	catalog.SumTask
	sure bool   // it was wrong before
	at   uint64 // how far it is
	crc  uint32 // of what is before that
}

// IntegrityInfo tells of sums and of copies that did not have them.
type IntegrityInfo struct {
	On             bool          `json:"on"`
	ScrubBandwidth uint64        `json:"scrub_bandwidth"`
	Kept           uint64        `json:"sums_kept"`       // first sums of objects
	Right          uint64        `json:"copies_right"`    // copies that had the sum of their object
	Doubted        uint64        `json:"copies_doubted"`  // copies that had not, and were looked at again
	Stale          uint64        `json:"sums_stale"`      // the copy had gone, or was written over, before its sum was there
	Failures       uint64        `json:"failed_looks"`    // a daemon did not answer, or could not
	Bytes          uint64        `json:"looked_at_bytes"` // of all copies looked at
	Corrupt        uint64        `json:"corrupt_copies"`  // copies that were wrong twice
	Lost           uint64        `json:"corrupt_objects"` // objects that had no other copy
	Daemons        []SumsOf      `json:"daemons"`         // those that find sums
	Ranges         []BrokenRange `json:"corrupt_ranges"`  // not used again; the first thousand
	RangeCount     int           `json:"corrupt_range_count"`
	RangeBytes     uint64        `json:"corrupt_range_bytes"`
}

// SumsOf is a daemon that finds sums.
type SumsOf struct {
	Client  string `json:"client"`
	Waiting int    `json:"waiting_copies"`
	Rounds  uint64 `json:"scrub_rounds"`
	Bytes   uint64 `json:"scrub_bytes"` // of the round under way
}

// BrokenRange is a range whose bytes did not stay what they were.
type BrokenRange struct {
	Key     string       `json:"key"`
	Segment string       `json:"segment"`
	ID      string       `json:"segment_id"`
	Offset  uint64       `json:"offset"`
	Size    uint64       `json:"size"`
	Since   catalog.Time `json:"since_ms"`
}

// checkIntegrity refuses settings that mean nothing.
func (c *Config) checkIntegrity() error {
	switch {
	case c.ScrubBandwidth == 0:
		return nil
	case c.ScrubBandwidth < limits.ScrubBandwidthMin || c.ScrubBandwidth > limits.ScrubBandwidthMax:
		return fmt.Errorf("--scrub_bandwidth=%d: must be 0, or from %d to %d bytes a second", c.ScrubBandwidth, limits.ScrubBandwidthMin, uint64(limits.ScrubBandwidthMax))
	}
	return nil
}

func newIntegrity(c *Config) *integrity {
	return &integrity{
		on: c.Checksum, scrub: c.ScrubBandwidth, daemons: map[catalog.UUID]*sumDaemon{},
		info: IntegrityInfo{On: c.Checksum, ScrubBandwidth: c.ScrubBandwidth},
	}
}

// pace is how many bytes a second a walk looks at; one that was asked for goes on where there is none by itself.
func (x *integrity) pace() uint64 { return cmp.Or(x.scrub, limits.ScrubBandwidth) }

// join lets a daemon take part. A later stream of it takes the place of the earlier.
func (x *integrity) join(client catalog.UUID) *sumDaemon {
	d := &sumDaemon{wake: make(chan struct{}, 1), missing: true}
	x.mu.Lock()
	defer x.mu.Unlock()
	if old := x.daemons[client]; old != nil {
		d.rounds = old.rounds
	}
	x.daemons[client] = d
	return d
}

// leave ends that. What it was to look at is found by the walk when it is back.
func (x *integrity) leave(client catalog.UUID, d *sumDaemon) (rest []catalog.SumTask) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.daemons[client] == d {
		delete(x.daemons, client)
	}
	for i := range d.queue {
		rest = append(rest, d.queue[i].SumTask)
	}
	d.queue = nil
	return rest
}

func (d *sumDaemon) stir() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// enqueue gives copies to the daemons that have them, and returns those that nobody can look at.
func (x *integrity) enqueue(tasks []catalog.SumTask, sure bool) (rest []catalog.SumTask) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range tasks {
		d := x.daemons[tasks[i].Segment.Client]
		switch {
		case d == nil:
			rest = append(rest, tasks[i])
			continue
		case len(d.queue) >= limits.SumQueue:
			d.missing = true
			rest = append(rest, tasks[i])
		default:
			d.queue = append(d.queue, sumJob{SumTask: tasks[i], sure: sure})
		}
		d.stir()
	}
	return rest
}

// stepIntegrity has what was completed since the last step looked at.
func (s *Service) stepIntegrity() {
	x := s.integrity
	if !x.on {
		return
	}
	var missed bool
	x.keys, missed = s.cat.TakeUnsummed(x.keys[:0])
	x.mu.Lock()
	anybody := len(x.daemons) > 0
	for _, d := range x.daemons {
		if missed {
			d.missing = true
			d.stir()
		}
	}
	x.mu.Unlock()
	if anybody {
		for _, key := range x.keys {
			x.tasks = s.cat.SumTasks(key, x.tasks[:0])
			s.cat.DropSums(x.enqueue(x.tasks, false))
		}
	}
	clear(x.keys)
	clear(x.tasks)
}

// lookAgain has one copy of an object looked at, and tells whether somebody can.
func (s *Service) lookAgain(key string, replica uint64, sure bool) bool {
	task, ok := s.cat.SumTaskOf(key, replica)
	if !ok {
		return false
	}
	rest := s.integrity.enqueue([]catalog.SumTask{task}, sure)
	s.cat.DropSums(rest)
	return len(rest) == 0
}

// doubted has copies looked at that somebody calls wrong.
func (s *Service) doubted(wrong []*mooncakev1.WrongCopy) (looked int) {
	if !s.integrity.on {
		return 0
	}
	for _, w := range wrong {
		if key, code := s.keyOf(w.GetTenant(), w.GetKey()); code == 0 && s.lookAgain(key, w.GetReplicaId(), false) {
			looked++
		}
	}
	return looked
}

// judgeSums takes up what a daemon found.
func (s *Service) judgeSums(results []catalog.SumResult) {
	verdicts := s.cat.SumsFound(s.clock.Now(), results, nil)
	x := s.integrity
	x.mu.Lock()
	for i, v := range verdicts {
		x.info.Bytes += results[i].Size
		switch v {
		case catalog.SumStale:
			x.info.Stale++
		case catalog.SumKept:
			x.info.Kept++
		case catalog.SumRight:
			x.info.Right++
		case catalog.SumWrong:
			x.info.Doubted++
		}
	}
	x.mu.Unlock()
	for i, v := range verdicts {
		f := &results[i]
		switch v {
		case catalog.SumWrong:
			s.lookAgain(f.Key, f.Replica, true)
		case catalog.SumCondemned, catalog.SumLost:
			text := "the bytes of a copy are not what they were: it is in quarantine, and other copies are handed out"
			if v == catalog.SumLost {
				text = "the bytes of a copy are not what they were, and there is no other: the object is gone"
			}
			_, key := s.plainKey(f.Key)
			s.log.Error(text, zap.String("action", "corrupt_copy"), zap.String("key", printable(shortened(key))), zap.String("segment", printable(f.Segment.Name)),
				zap.Stringer("segment_id", f.Segment.ID), zap.Uint64("offset", f.Offset), zap.Uint64("size", f.Size),
				zap.Uint64("copy", f.Replica), zap.String("crc32c", fmt.Sprintf("%08x", f.Found)), zap.Bool("copies_left", v == catalog.SumCondemned))
		}
	}
}

// figures are the counts for metrics.
func (x *integrity) figures() IntegrityInfo {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.info
}

// Integrity implements InspectSource.
func (s *Service) Integrity() IntegrityInfo {
	st, ranges := s.cat.Stats(), s.cat.CorruptRanges()
	names := map[catalog.UUID]string{}
	for _, seg := range s.cat.AllSegments() {
		names[seg.ID] = seg.Name
	}
	x := s.integrity
	x.mu.Lock()
	out := x.info
	for id, d := range x.daemons {
		out.Daemons = append(out.Daemons, SumsOf{id.String(), len(d.queue), d.rounds, d.bytes})
	}
	x.mu.Unlock()
	slices.SortFunc(out.Daemons, func(a, b SumsOf) int { return strings.Compare(a.Client, b.Client) })
	out.Corrupt, out.Lost, out.RangeCount, out.RangeBytes = st.CorruptCopies, st.CorruptObjects, len(ranges), st.CorruptBytes
	for _, r := range ranges[:min(len(ranges), limits.InspectPageMax)] {
		_, key := s.plainKey(r.Key)
		out.Ranges = append(out.Ranges, BrokenRange{printable(key), printable(names[r.Segment]), r.Segment.String(), r.Offset, r.Size, r.Since})
	}
	slices.SortFunc(out.Ranges, func(a, b BrokenRange) int {
		return cmp.Or(strings.Compare(a.Segment, b.Segment), cmp.Compare(a.Offset, b.Offset))
	})
	return out
}

// ScrubNow has every daemon begin a walk at once; it returns how many there are.
func (s *Service) ScrubNow() (daemons int) {
	x := s.integrity
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, d := range x.daemons {
		d.scrubNow = true
		d.stir()
	}
	return len(x.daemons)
}

// ReleaseCorrupt lets ranges be used again that held corrupt copies: of one segment, or all.
func (s *Service) ReleaseCorrupt(segment string) (ranges int) {
	if segment == "" {
		return s.cat.ReleaseCorrupt(s.clock.Now(), catalog.UUID{})
	}
	for _, seg := range s.cat.SegmentsNamed(segment) {
		ranges += s.cat.ReleaseCorrupt(s.clock.Now(), seg.ID)
	}
	return ranges
}

// pieceOf is how many bytes of a scrub are asked for at a time: an eighth of a second's.
func pieceOf(bandwidth uint64) uint64 {
	return min(max(bandwidth/8, limits.ScrubPieceMin), limits.SumPieceBytes)
}

// restAfter is how long a scrub rests after so many bytes.
func restAfter(bytes, bandwidth uint64) time.Duration {
	return time.Duration(float64(bytes) / float64(bandwidth) * float64(time.Second))
}
