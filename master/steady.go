package master

import (
	"mooncake/catalog"
	"mooncake/internal/limits"
)

// steadiness remembers since when segments are there, and how often segments of a host went lately. A host whose segments come
// and go gets no copies until they have stayed for a while, longer each time: else every return would draw a flood of copies
// that the next departure loses. All of it is under healer.mu; a new leader begins anew.
type steadiness struct {
	seen map[catalog.UUID]sighting
	lost map[string]departures // by host
}

type sighting struct {
	host  string
	since catalog.Time
}

type departures struct {
	count int
	last  catalog.Time
}

// notice compares the segments there are with those of the last time. Those of lost clients are not there.
func (st *steadiness) notice(now catalog.Time, list []catalog.SegmentStatus) {
	if st.seen == nil {
		st.seen, st.lost = map[catalog.UUID]sighting{}, map[string]departures{}
	}
	here := make(map[catalog.UUID]bool, len(list))
	for i := range list {
		if s := &list[i]; s.Stage < catalog.StageLost {
			here[s.ID] = true
			if _, known := st.seen[s.ID]; !known {
				st.seen[s.ID] = sighting{s.Host(), now}
			}
		}
	}
	gone := map[string]bool{}
	for id, s := range st.seen {
		if !here[id] {
			delete(st.seen, id)
			gone[s.host] = true
		}
	}
	for host, d := range st.lost {
		if now-d.last >= limits.HealForgiveMs {
			delete(st.lost, host)
		}
	}
	for host := range gone { // however many segments of a host go at once: it went once
		if d, known := st.lost[host]; known || len(st.lost) < limits.HealHosts {
			st.lost[host] = departures{d.count + 1, now}
		}
	}
}

// takes tells whether a segment has been there for long enough to be given copies.
func (st *steadiness) takes(now catalog.Time, id catalog.UUID, host string) bool {
	d := st.lost[host]
	s, known := st.seen[id]
	if d.count == 0 || !known {
		return true
	}
	wait := catalog.Time(limits.HealHoldMs)
	for n := 1; n < d.count && wait < limits.HealHoldMaxMs; n++ {
		wait *= 2
	}
	return now-s.since >= min(wait, limits.HealHoldMaxMs)
}

// since tells since when a segment is there; it may not have been noticed yet.
func (st *steadiness) since(id catalog.UUID) (at catalog.Time, known bool) {
	s, known := st.seen[id]
	return s.since, known
}
