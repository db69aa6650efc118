package catalog

import (
	"cmp"
	"slices"

	"mooncake/internal/limits"
)

// stageOf gives the stage that a client's silence puts it in.
func (c *Catalog) stageOf(now Time, cl *client) Stage {
	silent, cfg := int64(now-cl.lastPing), &c.cfg
	switch active := cfg.ClientActiveTTLMs; {
	case active > 0 && silent > active+cfg.ClientSuspicionTTLMs+cfg.ClientLostTTLMs:
		return StageGone
	case active > 0 && silent > active+cfg.ClientSuspicionTTLMs:
		return StageLost
	case active > 0 && silent > active:
		return StageSuspected
	case cl.reported || cfg.SuspectMissedPingsMs > 0 && silent >= cfg.SuspectMissedPingsMs:
		return StageSuspect
	}
	return StageActive
}

// judge moves every client to the stage of its silence. It returns those that are gone, whose writes are still to be
// ended.
func (c *Catalog) judge(now Time, out *Swept) []Departure {
	var gone []UUID
	for id, cl := range c.clients {
		stage := c.stageOf(now, cl)
		if stage == cl.stage {
			continue
		}
		if stage > StageActive && !c.keepsAnything(id) {
			// It took its memory back, most likely to leave: nothing of it can be hidden or lost. Should it only pause, its
			// next ping asks it to remount, which costs it nothing.
			if stage >= StageSuspected {
				delete(c.clients, id)
			}
			continue
		}
		switch stage {
		case StageSuspect:
			out.SuspectClients = append(out.SuspectClients, id)
		case StageSuspected:
			out.SuspectedClients = append(out.SuspectedClients, id)
		case StageLost:
			out.LostClients = append(out.LostClients, id)
			cl.lostAt = now
		case StageGone:
			gone = append(gone, id)
			continue
		}
		c.setStage(id, cl, stage)
	}
	c.forget(now, gone...)
	c.forget(now, c.beyondBounds()...)
	out.GoneClients, out.LostSegments = c.away.GoneClients, c.away.LostSegments
	left := c.left
	c.away, c.left = Swept{}, nil
	return left
}

// setStage moves a client to a stage, and its segments with it: readers see that at once. What it changes in the count of
// lost objects follows in the next Sweep.
func (c *Catalog) setStage(id UUID, cl *client, stage Stage) {
	if cl.stage == stage {
		return
	}
	recount := cl.stage == StageLost || stage == StageLost
	cl.stage = stage
	if o := c.s.disks.owners[id]; o != nil {
		o.stage.Store(uint32(stage))
	}
	for _, seg := range c.s.segments.byOwner[id] {
		seg.stage.Store(uint32(stage))
		c.s.setLost(seg, stage == StageLost)
		if recount {
			seg.counted, seg.counting = seg.head, true
		}
	}
}

// countLost brings the count of lost objects up to date with the segments whose clients were lost or came back.
func (c *Catalog) countLost() (more bool) {
	left := limits.CatalogSliceItems
	for _, seg := range c.s.segments.mounted {
		if !seg.counting {
			continue
		}
		for seg.counted != 0 {
			if left == 0 {
				return true
			}
			left--
			rep := c.s.replica(seg.counted)
			c.s.countLost(rep.owner)
			seg.counted = rep.segNext
		}
		seg.counting = false
	}
	return false
}

// forget ends the time of clients, in one decision: their segments go, and their writes with the next Sweep. The segments'
// replicas are out of sight at once; tidy does the rest.
func (c *Catalog) forget(now Time, ids ...UUID) {
	if len(ids) == 0 {
		return
	}
	c.begin()
	for _, id := range ids {
		delete(c.clients, id)
		c.loseDisk(id)
		c.stats.ExpiredClients++
		c.away.GoneClients = append(c.away.GoneClients, id)
		c.left = append(c.left, Departure{Client: id, At: now - 1})
		for _, seg := range c.s.segments.byOwner[id] {
			info := seg.info
			c.away.LostSegments = append(c.away.LostSegments, &info)
			c.note(ChangeUnmount, now).Segment = &info.Segment
		}
	}
	c.commit()
}

// beyondBounds lists the clients lost longest ago, as many as have to be forgotten because the lost ones keep more memory
// than they may.
func (c *Catalog) beyondBounds() (ids []UUID) {
	type keeper struct {
		id       UUID
		since    Time
		objects  uint64
		segments int
	}
	var lost []keeper
	objects, segments := uint64(0), 0
	for id, cl := range c.clients {
		if cl.stage != StageLost {
			continue
		}
		k := keeper{id: id, since: cl.lostAt}
		for _, seg := range c.s.segments.byOwner[id] {
			k.objects += seg.objects
			k.segments++
		}
		objects, segments = objects+k.objects, segments+k.segments
		lost = append(lost, k)
	}
	slices.SortFunc(lost, func(a, b keeper) int { return cmp.Compare(a.since, b.since) })
	for _, k := range lost {
		if objects <= c.lostMax && segments <= limits.CatalogLostSegmentsMax {
			break
		}
		ids = append(ids, k.id)
		objects, segments = objects-k.objects, segments-k.segments
	}
	return ids
}

// displace makes way for a segment that another client mounts. A silent client whose endpoint somebody else uses now
// will not come back, nor will a lost one whose name somebody else uses. Another's segment under the same bytes that is
// alive makes the mount invalid, as does an own one.
func (c *Catalog) displace(now Time, id UUID, s *Segment) error {
	var gone []UUID
	for _, seg := range c.s.segments.byPlace[s.Endpoint] {
		stage, other := seg.at(), seg.info.Client != id
		overlaps := seg.info.ID != s.ID && s.Base < seg.info.Base+seg.info.Size && seg.info.Base < s.Base+s.Size
		switch {
		case other && (stage >= StageSuspected || stage == StageSuspect && overlaps):
			gone = append(gone, seg.info.Client)
		case overlaps:
			return ErrInvalidParams
		}
	}
	for _, seg := range c.s.segments.byName[s.Name] {
		if seg.info.Client != id && seg.at() == StageLost {
			gone = append(gone, seg.info.Client)
		}
	}
	c.forgetSilent(now, gone)
	return nil
}

// forgetSilent forgets clients that are still known, each once.
func (c *Catalog) forgetSilent(now Time, ids []UUID) {
	slices.SortFunc(ids, func(a, b UUID) int { return cmp.Or(cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.Lo, b.Lo)) })
	ids = slices.DeleteFunc(slices.Compact(ids), func(id UUID) bool { return c.clients[id] == nil })
	c.forget(now, ids...)
}
