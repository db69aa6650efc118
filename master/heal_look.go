package master

import (
	"cmp"
	"slices"

	"go.uber.org/zap"

	"mooncake/bundle"
	"mooncake/catalog"
	"mooncake/internal/limits"
)

// beginLook begins a look through all objects if there is a reason. A look under way comes to its end first: where segments
// come and go all the time none would else.
func (s *Service) beginLook(now catalog.Time) {
	h := s.healer
	sign := s.cat.HealSign()
	if sign == 0 {
		h.sign, h.looked, h.walk, h.found, h.queue, h.unhelped, h.surplus, h.kept = 0, 0, nil, nil, nil, 0, nil, nil
		return
	}
	if sign != h.sign {
		s.cancelCopies()
		h.sign = sign
	}
	news := sign != h.looked && now >= h.lookAt
	left := h.unhelped > 0 || h.beyond && len(h.surplus)+len(h.kept) < limits.HealQueue/2
	if h.walk != nil || !news && !(left && now >= h.again && len(h.queue) == 0) {
		return
	}
	h.looked, h.walk, h.found, h.surplus, h.kept = sign, new(catalog.HealWalk), nil, nil, nil
	h.beyond = false
	h.unhelped, h.again, h.lookAt = 0, now+limits.HealAgainMs, now+limits.HealLookMs
}

// cancelCopies takes back what nobody has begun and is not needed any more, because a segment is back, and what was asked
// of, or for, those who are gone themselves.
func (s *Service) cancelCopies() {
	h := s.healer
	for key, e := range h.active {
		_, copies, thin := s.cat.ThinCopies(key, nil)
		owns := slices.ContainsFunc(copies, func(c catalog.Copy) bool { return wireID(c.Segment.Client) == e.client })
		arrives := !slices.ContainsFunc(e.to, func(name string) bool { return len(s.cat.SegmentsNamed(name)) == 0 })
		if thin && owns && arrives {
			continue
		}
		if s.tasks.cancel(s.clock.Now(), e.task, "not needed any more") || !owns {
			h.info.Cancelled++
			delete(h.active, key)
			h.forget(e)
		}
	}
}

// lookThrough goes on with the look through the catalog. When it is done what it found is the queue: fewest copies first, what
// belongs to one bundle together.
func (s *Service) lookThrough(now catalog.Time) {
	h := s.healer
	for range limits.HealSlices {
		from := len(h.found)
		var more bool
		h.found, more = s.cat.ThinSlice(h.walk, h.found)
		h.sort(from)
		if len(h.found) > 2*limits.HealQueue {
			h.cut()
		}
		if more {
			continue
		}
		h.cut()
		h.queue, h.found, h.walk = h.found, nil, nil
		h.info.Looks++
		if len(h.queue) > 0 && h.began == 0 {
			h.began, h.before = now, h.info
			s.log.Warn("objects have fewer copies than they were put with", zap.String("action", "heal_begins"), zap.Int("objects", len(h.queue)),
				zap.Int("fewest_copies", h.queue[0].Copies))
		}
		return
	}
}

// sort takes what has more copies than it is to have out of what was found since.
func (h *healer) sort(from int) {
	kept := h.found[:from]
	for _, t := range h.found[from:] {
		if t.Copies < t.Wanted {
			kept = append(kept, t)
		} else {
			h.spare(t.Key)
		}
	}
	clear(h.found[len(kept):])
	h.found = kept
}

// cut brings what was found into order, and leaves out what is beyond the bound: the next look finds it. A bundle is worth as
// much as its weakest member, so all of them follow each other in the place of that one.
func (h *healer) cut() {
	fewest := map[string]int{}
	for i := range h.found {
		t := &h.found[i]
		if prefix := bundle.Prefix(t.Key); prefix != "" {
			if n, known := fewest[prefix]; !known || t.Copies < n {
				fewest[prefix] = t.Copies
			}
		}
	}
	rank := func(t *catalog.Thin, prefix string) int {
		if prefix == "" {
			return t.Copies
		}
		return fewest[prefix]
	}
	slices.SortFunc(h.found, func(a, b catalog.Thin) int {
		x, y := bundle.Prefix(a.Key), bundle.Prefix(b.Key)
		return cmp.Or(cmp.Compare(rank(&a, x), rank(&b, y)), cmp.Compare(x, y), cmp.Compare(a.Copies, b.Copies), cmp.Compare(a.Key, b.Key))
	})
	if len(h.found) > limits.HealQueue {
		clear(h.found[limits.HealQueue:])
		h.found = h.found[:limits.HealQueue]
		h.unhelped++ // there is more to do
	}
}
