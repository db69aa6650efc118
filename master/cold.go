package master

import (
	"errors"
	"maps"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// grown is an object that got copies because it was read much.
type grown struct {
	epoch  uint64 // the value that was copied
	copies int    // made on demand
	reads  uint32 // in the window under way
	cold   int    // windows in a row with few reads
	fresh  bool   // the window under way had begun before
}

// grew notes that a copy on demand was made.
func (h *heat) grew(kept string, epoch uint64) {
	if h.mode == dynamicOff {
		return
	}
	sh := h.shardOf(kept)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.grown == nil {
		sh.grown = map[string]grown{}
	}
	g, known := sh.grown[kept]
	if !known {
		h.grown.Add(1)
	}
	if g.epoch != epoch {
		g = grown{epoch: epoch}
	}
	g.copies, g.cold, g.fresh = g.copies+1, 0, true
	h.made.Add(1)
	sh.grown[kept] = g
}

// more tells whether an object has more copies than when the last one on demand was asked for.
func (h *heat) more(kept string, copies int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, known := h.acts[kept]
	return known && copies > a.copies
}

// grewOf tells whether an object has copies that were made on demand.
func (h *heat) grewOf(kept string) bool {
	if h.grown.Load() == 0 {
		return false
	}
	sh := h.shardOf(kept)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, known := sh.grown[kept]
	return known
}

// shrink notes that an object has fewer copies on demand, or none any more.
func (h *heat) shrink(kept string, left int) {
	sh := h.shardOf(kept)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	g, known := sh.grown[kept]
	switch {
	case !known:
	case left <= 0:
		delete(sh.grown, kept)
		h.grown.Add(-1)
	default:
		g.copies, g.cold = left, 0
		sh.grown[kept] = g
	}
}

// cooled ends the windows that are over, and returns the objects that were read little for several of them.
func (h *heat) cooled(now catalog.Time) map[string]grown {
	if h.grown.Load() == 0 {
		return nil
	}
	out := map[string]grown{}
	for i := range h.shards {
		sh := &h.shards[i]
		sh.mu.Lock()
		if now >= sh.coolAt && len(sh.grown) > 0 {
			sh.coolAt = now + h.window
			for key, g := range sh.grown {
				if g.cold++; g.fresh || 2*uint64(g.reads) >= uint64(h.threshold) {
					g.cold = 0
				}
				g.reads, g.fresh = 0, false
				sh.grown[key] = g
			}
			maps.Copy(out, sh.grown)
		}
		sh.mu.Unlock()
	}
	maps.DeleteFunc(out, func(_ string, g grown) bool { return g.cold < limits.HeatColdWindows })
	return out
}

// loseCold takes copies away that were made on demand, of objects that are not read much any more.
func (s *Service) loseCold(now catalog.Time) {
	for key, g := range s.heat.cooled(now) {
		s.loseOf(now, key, g)
	}
}

// loseOf takes the copies on demand of one object away, but for those that are not to spare.
func (s *Service) loseOf(now catalog.Time, key string, g grown) {
	object, copies, _ := s.cat.ThinCopies(key, nil)
	if uint64(s.cat.ValueTime(key)) != g.epoch || len(copies) < 2 {
		s.heat.shrink(key, 0) // another value, or gone
		return
	}
	keep := max(len(copies)-g.copies, object.Wanted, 1)
	s.healer.mu.Lock()
	ids := s.healer.surplusOf(now, copies, keep)
	s.healer.mu.Unlock()
	left := g.copies
	for _, id := range ids {
		switch err := s.cat.TrimCopy(now, key, id, keep); {
		case err == nil:
			left--
			s.heat.dropped.Add(1)
		case errors.Is(err, catalog.ErrUnavailableStatus), errors.Is(err, catalog.ErrObjectNotFound):
			left = 0 // pinned: it keeps all it has
		}
	}
	if s.heat.shrink(key, left); left < g.copies {
		s.log.Info("an object is read less: its copies on demand go", zap.String("key", shortened(key)), zap.Int("copies", g.copies-left))
	}
}
