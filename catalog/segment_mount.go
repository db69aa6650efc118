package catalog

import "mooncake/internal/limits"

// MountSegment gives a segment to the cluster. The same again is fine and changes nothing; the same id with another base
// or size is ErrInvalidParams, and so is that of another client's segment, or a range that overlaps another segment of the
// endpoint; a silent client has to give way. The client's time starts, but it counts as remounted only after
// ReMountSegments.
func (c *Catalog) MountSegment(now Time, id UUID, s Segment) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.touch(now, id)
	return c.mount(now, id, cl, &s)
}

// possible tells whether a segment has a range of addresses that there may be. The catalog counts on it, whoever says so: a client, a
// master that leads, or a log that may be damaged.
func (s *Segment) possible() bool {
	return s.Base != 0 && s.Size != 0 && s.Size <= limits.CatalogSegmentBytesMax && s.Base+s.Size >= s.Base
}

func (c *Catalog) mount(now Time, id UUID, cl *client, s *Segment) error {
	if !s.possible() {
		return ErrInvalidParams
	}
	seg := c.s.segments.byID[s.ID]
	if seg != nil && seg.info.Client != id {
		if seg.at() < StageSuspected {
			return ErrInvalidParams
		}
		c.forgetSilent(now, []UUID{seg.info.Client})
		seg = c.s.segments.byID[s.ID]
	}
	if seg != nil {
		if seg.info.Base != s.Base || seg.info.Size != s.Size {
			return ErrInvalidParams
		}
	} else {
		if err := c.displace(now, id, s); err != nil {
			return err
		}
		if len(c.s.segments.list) >= limits.CatalogSegmentsMax {
			return ErrUnavailableStatus
		}
		c.begin()
		ch := c.note(ChangeMount, now)
		ch.Client, ch.Segment = id, s
		c.commit()
	}
	if s.HostID != "" {
		cl.host = s.HostID
	}
	return nil
}

// ReMountSegments mounts all segments of a client again and makes it count as alive. A segment that is mounted already
// must be the client's and equal in every field. A client that is alive keeps what it has: nothing more is mounted.
func (c *Catalog) ReMountSegments(now Time, id UUID, segments []Segment) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range segments {
		seg := c.s.segments.byID[segments[i].ID]
		if seg != nil && (seg.info.Client != id || !sameSegment(seg.info.Segment, segments[i])) {
			return ErrInvalidParams
		}
	}
	cl := c.touch(now, id)
	if cl.ok {
		return nil
	}
	for i := range segments {
		if err := c.mount(now, id, cl, &segments[i]); err != nil && err != ErrInvalidParams {
			return err
		}
	}
	cl.ok = true
	return nil
}

// sameSegment compares two segments. What they are close to does not make them others: older journals do not have it.
func sameSegment(a, b Segment) bool {
	a.Locality, b.Locality = "", ""
	return a == b
}

// UnmountSegment takes a segment away; whoever asks may. Its replicas are out of sight at once, and when it returns the
// objects that had no other copy are gone. It returns what was unmounted: nothing for an unknown id, which is fine.
func (c *Catalog) UnmountSegment(now Time, id, _ UUID) ([]SegmentInfo, error) {
	c.mu.Lock()
	seg := c.s.segments.byID[id]
	if seg == nil {
		c.mu.Unlock()
		return nil, nil
	}
	gone := []SegmentInfo{seg.info}
	c.begin()
	c.note(ChangeUnmount, now).Segment = &seg.info.Segment
	c.commit()
	c.mu.Unlock()
	c.tidyAll()
	return gone, nil
}

// Segments lists the mounted segments in the order of their mounts, without those of lost clients.
func (c *Catalog) Segments() []SegmentStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]SegmentStatus, 0, len(c.s.segments.mounted))
	for _, seg := range c.s.segments.mounted {
		if seg.at() < StageLost {
			list = append(list, statusOf(seg))
		}
	}
	return list
}

// AllSegments is Segments with those of lost clients.
func (c *Catalog) AllSegments() []SegmentStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return statusesOf(c.s.segments.mounted)
}

// AllSegmentsNamed lists the segments of a name, lost or not.
func (c *Catalog) AllSegmentsNamed(name string) []SegmentStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return statusesOf(c.s.segments.byName[name])
}

func statusesOf(segments []*segment) []SegmentStatus {
	list := make([]SegmentStatus, 0, len(segments))
	for _, seg := range segments {
		list = append(list, statusOf(seg))
	}
	return list
}

// SegmentsOf lists the segments of a client, lost or not.
func (c *Catalog) SegmentsOf(id UUID) []SegmentInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	return infosOf(c.s.segments.byOwner[id])
}

// SegmentsNamed lists the segments of a name, without those of lost clients. Several clients may have mounted under one.
func (c *Catalog) SegmentsNamed(name string) []SegmentStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []SegmentStatus
	for _, seg := range c.s.segments.byName[name] {
		if seg.at() < StageLost {
			list = append(list, statusOf(seg))
		}
	}
	return list
}

// SegmentByID returns the segment of an id, if it is mounted and its client is not lost.
func (c *Catalog) SegmentByID(id UUID) (SegmentStatus, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seg := c.s.segments.byID[id]
	if seg == nil || seg.at() >= StageLost {
		return SegmentStatus{}, false
	}
	return statusOf(seg), true
}

func statusOf(seg *segment) SegmentStatus {
	return SegmentStatus{
		SegmentInfo: seg.info,
		Used:        seg.used,
		Quarantined: seg.quarantined,
		LargestFree: seg.space.LargestFree(),
		ObjectCount: seg.objects,
		Status:      seg.state,
		Note:        seg.note,
		Reading:     seg.reading,
		Stage:       seg.at(),
	}
}

func infosOf(segments []*segment) []SegmentInfo {
	list := make([]SegmentInfo, 0, len(segments))
	for _, seg := range segments {
		list = append(list, seg.info)
	}
	return list
}
