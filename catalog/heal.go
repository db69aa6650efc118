package catalog

import (
	"strings"

	"mooncake/internal/limits"
)

// A Thin object has fewer replicas than its put asked for.
type Thin struct {
	Key    string
	Size   uint64
	Copies int // there are, on segments whose clients are not lost
	Wanted int
}

// A Copy is a complete replica of an object on a mounted segment, whether readers see it or not.
type Copy struct {
	Replica
	Stage Stage
	State uint8 // of the segment
	Host  string
}

// A HealWalk is how far a look for thin objects has come. The zero value is its start.
type HealWalk struct{ at cursor }

// wantedOf is Change.Wanted for a write that asked for copies and got places.
func wantedOf(asked uint64, places int) uint8 {
	asked = max(1, min(asked, limits.ReplicasPerObjectMax))
	if asked == uint64(places) {
		return 0
	}
	return uint8(asked)
}

// want notes how many replicas an object is to have. A copy under way is no object of its own.
func (s *state) want(r *record, c *Change) {
	r.wanted = 1
	switch {
	case c.Copy != CopyNone:
	case c.Wanted > 0:
		r.wanted = min(c.Wanted, limits.ReplicasPerObjectMax)
	case len(c.Replicas) > 1:
		r.wanted = uint8(min(len(c.Replicas), limits.ReplicasPerObjectMax))
	}
	if r.wanted > 1 {
		s.several++
	}
}

// unwant is for a record that goes.
func (s *state) unwant(r *record) {
	if r.wanted > 1 {
		s.several--
	}
}

// Filled gives the bytes that can be held in sight, and those that are: what the watermark looks at.
func (c *Catalog) Filled() (usable, allocated uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u, a := c.filled()
	return uint64(u), uint64(a)
}

// Host names the machine of a segment, by which replicas are kept apart.
func (s *Segment) Host() string { return hostOf(s) }

// HealSign changes whenever objects may have become thin, or may be healed that could not before: segments came, went, were
// lost or came back, changed their state, a replica turned out to be corrupt, or a put got fewer places than it asked for. 0 says that no object is to have
// more than one replica.
func (c *Catalog) HealSign() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.s.several == 0 {
		return 0
	}
	return mixed(mixed(c.segmentSign(), c.stats.PutStartPartialAllocs), c.stats.CorruptCopies) | 1
}

// SegmentSign changes whenever segments came, went, were lost or came back, or changed their state.
func (c *Catalog) SegmentSign() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.segmentSign()
}

// mixed adds a number to a hash.
func mixed(sum, v uint64) uint64 { return (sum ^ v) * 1099511628211 }

func (c *Catalog) segmentSign() uint64 {
	sum := uint64(14695981039346656037)
	for _, seg := range c.s.segments.mounted {
		for _, v := range [...]uint64{seg.info.ID.Hi, seg.info.ID.Lo, uint64(seg.state), uint64(seg.at()) / uint64(StageLost)} {
			sum = mixed(sum, v)
		}
	}
	return sum
}

// ThinSlice goes on with a look for thin objects, and for those that have more replicas than they are to have. It appends to dst
// what it finds in a slice of work.
func (c *Catalog) ThinSlice(w *HealWalk, dst []Thin) (found []Thin, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range limits.HealLooks {
		n := c.s.scan(&w.at)
		if n == 0 {
			return dst, false
		}
		r := c.s.record(n)
		if copies, _ := c.thin(n); copies > 0 && copies != int(r.wanted) {
			dst = append(dst, Thin{strings.Clone(r.key()), r.size, copies, int(r.wanted)})
		}
	}
	return dst, true
}

// thin counts the replicas of an object and tells whether it is to be given more now: it is complete, and nobody writes or
// copies it. Of an object that is not to be touched now, or is to have one replica, it counts none.
func (c *Catalog) thin(n name) (copies int, thin bool) {
	r := c.s.record(n)
	if r.wanted < 2 || r.isOpen() || r.marks&(markStaged|markReplaced) != 0 || r.flags&flagHidden != 0 {
		return 0, false
	}
	for rn := n; rn != 0; {
		rep := c.s.replica(rn)
		rn = rep.more
		if seg := c.s.segments.list[rep.segment]; rep.status == ReplicaComplete && !seg.dead.Load() && seg.at() < StageLost {
			copies++
		}
	}
	return copies, copies > 0 && copies < int(r.wanted)
}

// ThinCopies looks at one object again: it appends the replicas that it has to dst, and tells whether it is thin.
func (c *Catalog) ThinCopies(key string, dst []Copy) (Thin, []Copy, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.s.lookup(key)
	if n == 0 {
		return Thin{}, dst, false
	}
	copies, thin := c.thin(n)
	r := c.s.record(n)
	for rn := n; rn != 0; {
		rep := c.s.replica(rn)
		rn = rep.more
		seg := c.s.segments.list[rep.segment]
		if rep.status != ReplicaComplete || seg.dead.Load() || seg.at() >= StageLost {
			continue
		}
		dst = append(dst, Copy{
			Replica{ID: rep.id, Segment: &seg.info, Offset: rep.offset, Size: r.size, Status: rep.status}, seg.at(), seg.state, seg.host,
		})
	}
	return Thin{key, r.size, copies, int(r.wanted)}, dst, thin
}
