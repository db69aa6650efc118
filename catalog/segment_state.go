package catalog

import (
	"slices"
	"strings"

	"mooncake/internal/limits"
)

// States of segments, numbered as on the wire. Only an SegmentOK one takes new objects; all of these can be read.
const (
	SegmentOK       uint8 = 1
	SegmentDraining uint8 = 2 // its objects move elsewhere
	SegmentDrained  uint8 = 3 // nothing is left on it
	SegmentLeaving  uint8 = 4 // unmounted by itself when its grace time is over
)

// open tells whether a segment takes new objects as far as its own state goes; that of its client counts apart.
func (seg *segment) open() bool { return seg.state == SegmentOK }

// applySegment puts a segment into a state.
func (s *state) applySegment(c *Change) {
	if c.Segment == nil || c.State < SegmentOK || c.State > SegmentLeaving {
		return
	}
	if seg := s.segments.byID[c.Segment.ID]; seg != nil {
		seg.state, seg.until, seg.note = c.State, c.Until, strings.Clone(c.Key)
	}
}

// noteState decides the state of a segment, and until when it stays if that is limited.
func (c *Catalog) noteState(now Time, seg *segment, state uint8, until Time, note string) {
	ch := c.note(ChangeSegment, now)
	ch.Segment, ch.State, ch.Until, ch.Key = &Segment{ID: seg.info.ID}, state, until, note
}

// LeaveSegment lets a segment of a client go when a grace time is over. Until then it can be read and takes nothing new.
// Asked again, the time begins anew.
func (c *Catalog) LeaveSegment(now Time, id, client UUID, graceMs int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.s.segments.byOwner[client]) == 0 {
		return ErrSegmentNotFound
	}
	seg := c.s.segments.byID[id]
	switch {
	case seg == nil || seg.info.Client != client:
		return ErrInvalidParams
	case seg.state == SegmentDrained:
		return ErrUnavailableStatus
	}
	c.begin()
	c.noteState(now, seg, SegmentLeaving, now+Time(min(max(0, graceMs), limits.GraceMsMax)), "")
	c.commit()
	return nil
}

// StaySegment takes back that a segment of a client goes. It tells whether it was going.
func (c *Catalog) StaySegment(now Time, id, client UUID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	seg := c.s.segments.byID[id]
	if seg == nil || seg.info.Client != client || seg.state != SegmentLeaving {
		return false
	}
	c.begin()
	c.noteState(now, seg, SegmentOK, 0, "")
	c.commit()
	return true
}

// endLeaving unmounts the segments whose grace time is over.
func (c *Catalog) endLeaving(now Time, out *Swept) {
	c.mu.Lock()
	c.begin()
	for _, seg := range c.s.segments.mounted {
		if seg.state == SegmentLeaving && seg.until <= now {
			info := seg.info
			out.LeftSegments = append(out.LeftSegments, &info)
			c.note(ChangeUnmount, now).Segment = &info.Segment
		}
	}
	c.commit()
	c.mu.Unlock()
	if len(out.LeftSegments) > 0 {
		c.tidyAll()
	}
}

// SetSegmentState puts all segments of a name into a state, if each of them is in one of those given. The note is kept with
// it for whoever leads later.
func (c *Catalog) SetSegmentState(now Time, name string, state uint8, note string, from ...uint8) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	named := c.s.segments.byName[name]
	if len(named) == 0 {
		return ErrSegmentNotFound
	}
	for _, seg := range named {
		ok := false
		for _, f := range from {
			ok = ok || seg.state == f
		}
		if !ok {
			return ErrUnavailableStatus
		}
	}
	c.begin()
	for _, seg := range named {
		if seg.state != state || seg.note != note {
			c.noteState(now, seg, state, 0, note)
		}
	}
	c.commit()
	return nil
}

// A DrainStep is what one look at a segment that is being drained found.
type DrainStep struct {
	Keys    []string // objects that can be moved now
	Blocked uint64   // objects met that cannot: pinned, leased, being written or copied
	Left    uint64   // all that is on the segments of the name
	Whole   bool     // everything was met in this step
	End     bool     // the walk came to its end; the next step begins anew
}

// DrainStep looks for up to most objects that can be moved off the segments of a name. It goes on where the step before
// ended, and looks at a bounded number of objects. With leaving set the segments go in any case: then pinned and leased
// objects can be moved as well, their ranges wait for who reads them.
func (c *Catalog) DrainStep(now Time, name string, most int, leaving bool) (step DrainStep) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := limits.DrainLooks
	step.Whole, step.End = true, true
	for _, seg := range c.s.segments.byName[name] {
		step.Left += seg.objects
		if seg.walked == 0 {
			seg.walked = seg.head
		} else {
			step.Whole = false
		}
		for ; seg.walked != 0; left-- {
			if left <= 0 || len(step.Keys) >= most {
				step.Whole, step.End = false, false
				break
			}
			rep := c.s.replica(seg.walked)
			seg.walked = rep.segNext
			if c.movable(now, rep.owner, leaving) {
				step.Keys = append(step.Keys, strings.Clone(c.s.record(rep.owner).key()))
			} else {
				step.Blocked++
			}
		}
	}
	return step
}

// movable tells whether an object may be moved now.
func (c *Catalog) movable(now Time, n name, leaving bool) bool {
	r := c.s.record(n)
	if r.isOpen() || r.marks&markReplaced != 0 {
		return false
	}
	return leaving || r.flags&flagHardPin == 0 && !c.leased(r, now)
}

// OwnersAt lists the clients whose segments are reached at an endpoint.
func (c *Catalog) OwnersAt(endpoint string) (owners []UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, seg := range c.s.segments.byPlace[endpoint] {
		if !slices.Contains(owners, seg.info.Client) {
			owners = append(owners, seg.info.Client)
		}
	}
	return owners
}
