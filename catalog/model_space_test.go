package catalog

import (
	"cmp"
	"slices"
	"strings"

	"mooncake/bundle"
)

// owns tells whether the client has a segment.
func (m *model) owns(id UUID) bool {
	for _, info := range m.segs {
		if info.Client == id {
			return true
		}
	}
	return false
}

// sweep does what time asks for, but for evictions.
func (m *model) sweep(now Time) {
	if !m.started || now-m.swept > 2000 {
		m.since = now
	}
	if gap := now - m.swept; m.started && gap > 2000 {
		for _, c := range m.clients {
			c.ping = min(now, c.ping+gap)
		}
	}
	m.swept, m.started = now, true
	ends := []int64{m.cfg.ClientActiveTTLMs, m.cfg.ClientSuspicionTTLMs, m.cfg.ClientLostTTLMs}
	for id, c := range m.clients {
		silent, was := int64(now-c.ping), c.stage
		if c.stage = StageActive; c.reported || silent >= m.cfg.SuspectMissedPingsMs {
			c.stage = StageSuspect
		}
		for i, sum := 0, int64(0); i < len(ends); i++ {
			if sum += ends[i]; silent > sum {
				c.stage = StageSuspected + Stage(i)
			}
		}
		switch {
		case c.stage > StageActive && c.stage != was && !m.owns(id):
			if c.stage >= StageSuspected {
				delete(m.clients, id)
			}
			c.stage = was
		case c.stage == StageGone:
			m.forget(now, id)
		}
	}
	for _, d := range m.away {
		m.dead(now, d)
	}
	m.away = nil
	for _, o := range m.all() {
		if o.open && o.time+Time(m.cfg.PutReleaseMs) <= now {
			until, handed := m.hold(now, o)
			m.drop(o, CauseRelease, until, handed)
		}
	}
	m.collect(now)
	m.held = slices.DeleteFunc(m.held, func(r modelRange) bool { return r.until <= now })
	for _, o := range m.objects {
		if o.pin <= now {
			o.pin = 0
		}
	}
}

// evictable judges a victim. key and group belong to the put that asks; "" when nobody does.
func (m *model) evictable(now Time, o *modelObject, key, group string, soft bool) bool {
	all := m.tied(o)
	for _, x := range all {
		if u := m.unit(x); u != nil && (u.lease > now || u.touch > now) {
			return false
		}
		if b := m.bundles[bundle.Prefix(x.key)]; b != nil && b.published == 0 && b.deadAt == 0 {
			return false
		}
	}
	if !m.givenUp(o) {
		return false
	}
	for _, x := range all {
		prefix := bundle.Prefix(x.key)
		switch {
		case x.open, x.next != nil, x.hard, x.pin > 0 && !soft, x.lease > now, x.time > now:
			return false
		case key != "" && (x.key == key || group != "" && x.group == group || prefix != "" && prefix == bundle.Prefix(key)):
			return false
		}
	}
	return true
}

// ripe tells whether the eviction is sure to know that an object may go: what became evictable only within the present
// step of the ages may be found a step later.
func (m *model) ripe(now Time, o *modelObject) bool {
	all, ends := m.tied(o), []Time{}
	for _, x := range all {
		if u := m.unit(x); u != nil {
			ends = append(ends, u.lease)
		}
	}
	for _, x := range all {
		ends = append(ends, x.lease)
	}
	return !slices.ContainsFunc(ends, func(end Time) bool { return end > 0 && bucketOf(int64(end)) == bucketOf(int64(now)) })
}

// unread tells whether an object goes together with a published bundle that nobody has read.
func (m *model) unread(o *modelObject) bool {
	return slices.ContainsFunc(m.tied(o), func(x *modelObject) bool {
		b := m.bundles[bundle.Prefix(x.key)]
		return b != nil && b.published != 0 && !b.read && !b.cut && m.manifest(b)
	})
}

// reading tells whether readers hold a range back.
func (m *model) reading(now Time) bool {
	return slices.ContainsFunc(m.held, func(r modelRange) bool { return r.handed != Never && r.until > now })
}

// An effort says how far a put may go to get room.
type effort struct{ soft, reuse, unread bool }

// roomFor tells whether room for a range can be made on a segment.
func (m *model) roomFor(now Time, seg SegmentInfo, key, group string, size uint64, e effort) bool {
	if m.stage(seg.ID) != StageActive || seg.Size < size {
		return false
	}
	var walls []modelRange
	for _, o := range m.all() {
		if m.evictable(now, o, key, group, e.soft) && m.ripe(now, o) && (e.unread || !m.unread(o)) && !m.reserved(o) {
			continue
		}
		for _, r := range o.replicas {
			if r.Segment.ID == seg.ID {
				walls = append(walls, modelRange{off: r.Offset, size: r.Size})
			}
		}
	}
	for _, r := range m.held {
		if r.seg == seg.ID && r.until > now && (r.handed == Never || !e.reuse) {
			walls = append(walls, r)
		}
	}
	slices.SortFunc(walls, func(a, b modelRange) int { return cmp.Compare(a.off, b.off) })
	end := uint64(0)
	for _, w := range walls {
		if w.off-end >= size {
			return true
		}
		end = w.off + w.size
	}
	return seg.Size-end >= size
}

func (m *model) allocated() (bytes uint64) {
	for _, o := range m.all() {
		for _, r := range o.replicas {
			if m.stage(r.Segment.ID) < StageLost {
				bytes += o.size
			}
		}
	}
	return bytes
}

// filled gives what the background eviction looks at.
func (m *model) filled() (usable, allocated float64) {
	for id, s := range m.segs {
		if m.stage(id) < StageSuspected {
			usable += float64(s.Size)
		}
	}
	for _, r := range m.held {
		if r.handed == Never && m.stage(r.seg) < StageSuspected {
			usable -= float64(r.size)
		}
	}
	for _, o := range m.all() {
		for _, r := range o.replicas {
			if m.stage(r.Segment.ID) < StageSuspected {
				allocated += float64(o.size)
			}
		}
	}
	return usable, allocated
}

func (m *model) lostKeys() (n int) {
	for _, o := range m.objects {
		if m.lost(o) {
			n++
		}
	}
	return n
}

func (m *model) heldBytes() (bytes uint64) {
	for _, r := range m.held {
		if m.stage(r.seg) < StageLost {
			bytes += r.size
		}
	}
	return bytes
}

func (m *model) capacity() (bytes uint64) {
	for id, s := range m.segs {
		if m.stage(id) < StageLost {
			bytes += s.Size
		}
	}
	return bytes
}

func (m *model) readableKeys() string {
	var list []string
	for key := range m.objects {
		if _, _, err := m.readable(key); err == nil {
			list = append(list, key)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}
