package master

import (
	"errors"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// trimSurplus takes copies away of objects that have more than they are to have: because a segment came back whose objects had
// been copied again meanwhile. A bounded number at a time; what cannot be trimmed now is looked at again later.
func (s *Service) trimSurplus(now catalog.Time) {
	h := s.healer
	if now < h.trimAt {
		return
	}
	n := min(len(h.surplus), limits.HealTrims)
	for _, key := range h.surplus[:n] {
		if s.trimOne(now, key) {
			h.kept = append(h.kept, key)
		}
	}
	if h.surplus = h.surplus[n:]; len(h.surplus) == 0 {
		h.surplus, h.kept = h.kept, nil
		h.trimAt = now + limits.HealTrimAgainMs
	}
}

// trimOne trims one object; true when there is more to do later.
func (s *Service) trimOne(now catalog.Time, key string) (later bool) {
	h := s.healer
	object, copies, _ := s.cat.ThinCopies(key, nil)
	if len(copies) <= object.Wanted || object.Wanted < 2 || s.heat.grewOf(key) {
		return false // copies on demand go when the object is read less
	}
	if _, own := s.tasks.purposeOf(key); own || object.Copies == 0 {
		return true
	}
	ids := h.surplusOf(now, copies, object.Wanted)
	for _, id := range ids {
		switch err := s.cat.TrimCopy(now, key, id, object.Wanted); {
		case err == nil:
			h.info.Trimmed++
		case errors.Is(err, catalog.ErrUnavailableStatus), errors.Is(err, catalog.ErrObjectNotFound):
			return false // pinned, or gone
		default:
			return true
		}
	}
	return len(copies)-len(ids) > object.Wanted
}

// surplusOf chooses the copies that an object can do without when keep are to stay. Only copies that readers are served from
// count, on segments that have been there for a while. First goes what shares a host with another copy, then what lies on the
// segment that came last, then the youngest copy.
func (h *healer) surplusOf(now catalog.Time, copies []catalog.Copy, keep int) (ids []uint64) {
	type held struct {
		*catalog.Copy
		since catalog.Time
	}
	var sure []held
	hosts := map[string]int{}
	for i := range copies {
		c := &copies[i]
		since, known := h.steady.since(c.Segment.ID)
		if c.Stage == catalog.StageActive && c.State == catalog.SegmentOK && known && now-since >= limits.HealTrimAfterMs {
			sure = append(sure, held{c, since})
			hosts[c.Host]++
		}
	}
	before := func(a, b held) bool {
		if x, y := hosts[a.Host] > 1, hosts[b.Host] > 1; x != y {
			return x
		}
		if a.since != b.since {
			return a.since > b.since
		}
		return a.ID > b.ID
	}
	for len(sure) > max(keep, 1) {
		at := 0
		for i := range sure {
			if before(sure[i], sure[at]) {
				at = i
			}
		}
		ids = append(ids, sure[at].ID)
		hosts[sure[at].Host]--
		sure = append(sure[:at], sure[at+1:]...)
	}
	return ids
}
