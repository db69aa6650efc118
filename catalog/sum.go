package catalog

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"mooncake/internal/limits"
)

// The sum of an object is the CRC32C of its bytes, found by whoever owns the memory of a replica once the object is
// complete. It is one more field of the record, in bytes that were unused. A new value has none at first, in place too.
//
// Finding a sum takes time, in which the object may go, and its range belong to another, or be written over in place. So
// what is to be looked at is named by the id of the replica, which no other ever has, and by a ticket, which ends when the
// replica is written to: a sum counts only while both are there.

// A SumTask asks for the sum of the bytes of one replica.
type SumTask struct {
	Key     string
	Replica uint64
	Segment *SegmentInfo
	Offset  uint64
	Size    uint64
	HasSum  bool // the object's is known already

	ticket uint64
}

// A SumResult is what was found.
type SumResult struct {
	SumTask
	Found uint32
	Sure  bool // that it is wrong was found before
}

// A SumVerdict says what a SumResult means.
type SumVerdict uint8

// The verdicts.
const (
	// SumStale says nothing: the replica is gone, or was written to meanwhile.
	SumStale SumVerdict = iota
	// SumKept is the first of the object: it is the object's from now on.
	SumKept
	// SumRight is the object's.
	SumRight
	// SumWrong differs, and is to be looked at once more.
	SumWrong
	// SumCondemned differs again: the replica is in quarantine, and other copies are left.
	SumCondemned
	// SumLost is SumCondemned without another copy in memory: the object is absent.
	SumLost
)

// A CorruptRange held a replica whose bytes did not stay what they were. It is not used again.
type CorruptRange struct {
	Key     string
	Segment UUID
	Offset  uint64
	Size    uint64
	Since   Time
}

type rangeStart struct {
	segment UUID
	offset  uint64
}

// unsummed lists keys that were completed, as far as there is room.
type unsummed struct {
	keys   []string
	missed bool
}

func (u *unsummed) add(key string) {
	if len(u.keys) >= limits.SumQueue {
		u.missed = true
		return
	}
	u.keys = append(u.keys, strings.Clone(key))
}

// sum gives the sum of the object, if it is known. Readers look under the shard's lock.
func (r *record) sum() (uint32, bool) {
	if r.flags&flagSummed == 0 {
		return 0, false
	}
	return uint32(r.sumHigh)<<16 | uint32(r.sumLow), true
}

func (r *record) setSum(sum uint32) {
	r.sumHigh, r.sumLow = uint16(sum>>16), uint16(sum)
	r.flags |= flagSummed
}

func (s *state) applySum(c *Change) {
	n := s.lookup(c.Key)
	if n == 0 || len(c.Replicas) == 0 || !c.HasSum || s.completeOf(n, c.Replicas[0].ID) == 0 {
		return
	}
	sh := s.shard(s.hash(c.Key))
	sh.mu.Lock()
	s.record(n).setSum(c.Sum)
	sh.mu.Unlock()
}

// completeOf finds the complete replica of an id.
func (s *state) completeOf(n name, id uint64) name {
	for rn := n; rn != 0; {
		rep := s.replica(rn)
		if rep.id == id && rep.status == ReplicaComplete && !s.segments.list[rep.segment].dead.Load() {
			return rn
		}
		rn = rep.more
	}
	return 0
}

// voidTickets lets what is being found out about replicas that are written to count for nothing.
func (s *state) voidTickets(replicas []ReplicaChange) {
	if len(s.summing) == 0 {
		return
	}
	for i := range replicas {
		delete(s.summing, replicas[i].ID)
	}
}

// noteCorrupt remembers whose bytes a range held.
func (q *quarantine) noteCorrupt(seg *segment, key string, offset, size uint64, since Time) {
	if q.corrupt == nil {
		q.corrupt = map[rangeStart]CorruptRange{}
	}
	q.corrupt[rangeStart{seg.info.ID, offset}] = CorruptRange{strings.Clone(key), seg.info.ID, offset, size, since}
}

func (q *quarantine) corruptBytes() (sum uint64) {
	for _, r := range q.corrupt {
		sum += r.Size
	}
	return sum
}

// TakeUnsummed appends the keys that were completed since the last call to dst. If there were too many it says so: the rest
// is to be found by walks.
func (c *Catalog) TakeUnsummed(dst []string) (keys []string, missed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dst = append(dst, c.unsummed.keys...)
	clear(c.unsummed.keys)
	missed = c.unsummed.missed
	c.unsummed.keys, c.unsummed.missed = c.unsummed.keys[:0], false
	return dst, missed
}

// SumTasks appends what there is to look at of an object to dst: its complete replicas.
func (c *Catalog) SumTasks(key string, dst []SumTask) []SumTask {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.s.lookup(key); n != 0 {
		dst = c.sumTasks(n, nil, 0, dst)
	}
	return dst
}

// SumTaskOf is what there is to look at of one complete replica of an object. Looks at the others that are under way stay good.
func (c *Catalog) SumTaskOf(key string, replica uint64) (task SumTask, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.s.lookup(key)
	if n == 0 || replica == 0 {
		return SumTask{}, false
	}
	tasks := c.sumTasks(n, nil, replica, nil)
	if len(tasks) == 0 {
		return SumTask{}, false
	}
	return tasks[0], true
}

// A SumWalk is how far a walk through all objects has come. The zero value is its start.
type SumWalk struct{ at cursor }

// SumSlice goes on with a walk in a slice of work, and appends to dst what it finds on the segments of a client: everything,
// or what has no sum yet. It stops when the tasks found so far in this slice have so many bytes.
func (c *Catalog) SumSlice(w *SumWalk, client UUID, missing bool, bytes uint64, dst []SumTask) (tasks []SumTask, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := uint64(0)
	for range limits.SumLooks {
		n := c.s.scan(&w.at)
		if n == 0 {
			return dst, false
		}
		if r := c.s.record(n); r.marks&markStaged != 0 || missing && r.flags&flagSummed != 0 {
			continue
		}
		had := len(dst)
		dst = c.sumTasks(n, &client, 0, dst)
		for i := had; i < len(dst); i++ {
			found += dst[i].Size
		}
		if found >= bytes {
			break
		}
	}
	return dst, true
}

// sumTasks gives out tickets for the complete replicas of an object, or those on segments of one client, or only one of them.
func (c *Catalog) sumTasks(n name, client *UUID, only uint64, dst []SumTask) []SumTask {
	r := c.s.record(n)
	key := ""
	for rn := n; rn != 0; {
		rep := c.s.replica(rn)
		rn = rep.more
		seg := c.s.segments.list[rep.segment]
		if rep.status != ReplicaComplete || seg.dead.Load() || seg.at() >= StageSuspected || client != nil && seg.info.Client != *client || only != 0 && rep.id != only {
			continue
		}
		if key == "" {
			key = strings.Clone(r.key())
		}
		if c.s.summing == nil {
			c.s.summing = map[uint64]uint64{}
		}
		c.s.tickets++
		c.s.summing[rep.id] = c.s.tickets
		dst = append(dst, SumTask{
			Key: key, Replica: rep.id, Segment: &seg.info, Offset: rep.offset, Size: r.size, HasSum: r.flags&flagSummed != 0, ticket: c.s.tickets,
		})
	}
	return dst
}

// DropSums gives up tasks of which nothing was found.
func (c *Catalog) DropSums(tasks []SumTask) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range tasks {
		c.s.redeem(&tasks[i])
	}
}

// redeem ends a ticket, and tells whether it was good.
func (s *state) redeem(t *SumTask) bool {
	if s.summing[t.Replica] != t.ticket {
		return false
	}
	if delete(s.summing, t.Replica); len(s.summing) == 0 {
		s.summing = nil // a map never shrinks
	}
	return true
}

// SumsFound judges what was found, and appends a verdict for each result to dst. What is new is kept; a replica that is
// wrong for sure goes, and its range into quarantine for good.
func (c *Catalog) SumsFound(now Time, results []SumResult, dst []SumVerdict) []SumVerdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range results {
		dst = append(dst, c.judgeSum(now, &results[i]))
	}
	return dst
}

func (c *Catalog) judgeSum(now Time, f *SumResult) SumVerdict {
	good := c.s.redeem(&f.SumTask)
	n := c.s.lookup(f.Key)
	if !good || n == 0 {
		return SumStale
	}
	rn := c.s.completeOf(n, f.Replica)
	if rn == 0 {
		return SumStale
	}
	rep := c.s.replica(rn)
	switch sum, known := c.s.record(n).sum(); {
	case !known:
		c.begin()
		c.replicas = append(c.replicas, ReplicaChange{ID: rep.id, Segment: c.s.segments.list[rep.segment].info.ID, Offset: rep.offset, Size: c.s.record(n).size})
		ch := c.note(ChangeSum, now)
		ch.Key, ch.Size, ch.Replicas, ch.Sum, ch.HasSum = f.Key, c.s.record(n).size, c.replicas, f.Found, true
		c.commit()
		return SumKept
	case sum == f.Found:
		return SumRight
	case !f.Sure:
		return SumWrong
	}
	if c.condemn(now, n, rn) > 0 {
		return SumCondemned
	}
	return SumLost
}

// condemn decides that a replica goes for its bytes are wrong, and returns how many good ones are left. A copy of it that is
// being made goes as well.
func (c *Catalog) condemn(now Time, n, bad name) (left int) {
	r, rep := c.s.record(n), c.s.replica(bad)
	for rn := n; rn != 0; {
		other := c.s.replica(rn)
		if seg := c.s.segments.list[other.segment]; rn != bad && other.status == ReplicaComplete && !seg.dead.Load() {
			left++
		}
		rn = other.more
	}
	c.begin()
	if st := c.s.copyOf(n); st != 0 && st != n && (left == 0 || c.s.copies[st].source == rep.id) {
		c.noteAside(now, st, CauseAbort)
	}
	at := len(c.replicas)
	c.replicas = append(c.replicas, ReplicaChange{ID: rep.id, Segment: c.s.segments.list[rep.segment].info.ID, Offset: rep.offset, Size: r.size})
	key := c.keep(r.key())
	ch := c.note(ChangeDrop, now)
	ch.Key, ch.Cause, ch.Until, ch.HandedOut, ch.Replicas = key, CauseCorrupt, Never, Never, c.replicas[at:]
	c.stats.CorruptCopies++
	if left == 0 {
		c.stats.CorruptObjects++
	}
	c.commit()
	return left
}

// SumOf gives the sum of an object that has a replica, if it is known.
func (c *Catalog) SumOf(key string, replica uint64) (uint32, bool) {
	hash := c.s.hash(key)
	sh := c.s.shard(hash)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	n := c.s.find(sh, hash, key)
	if n == 0 || !c.s.liesAt(n, replica) {
		return 0, false
	}
	return c.s.record(n).sum()
}

// CorruptRanges lists the ranges that are not used again, by segment and place.
func (c *Catalog) CorruptRanges() []CorruptRange {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Collect(maps.Values(c.s.heldBack.corrupt))
	slices.SortFunc(list, func(a, b CorruptRange) int {
		return cmp.Or(cmp.Compare(a.Segment.Hi, b.Segment.Hi), cmp.Compare(a.Segment.Lo, b.Segment.Lo), cmp.Compare(a.Offset, b.Offset))
	})
	return list
}

// ReleaseCorrupt lets ranges be used again that held corrupt replicas: those of one segment, or all with the zero id. It
// returns how many there were.
func (c *Catalog) ReleaseCorrupt(now Time, segment UUID) (released int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin()
	for at, r := range c.s.heldBack.corrupt {
		if segment == (UUID{}) || segment == at.segment {
			c.replicas = append(c.replicas, ReplicaChange{Segment: at.segment, Offset: at.offset, Size: r.Size})
		}
	}
	if released = len(c.replicas); released > 0 {
		c.note(ChangeRelease, now).Replicas = c.replicas
	}
	c.commit()
	return released
}
