package master

import (
	"go.uber.org/zap"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/catalog"
	"mooncake/internal/limits"
)

// balancer moves objects from the fullest segment to the emptiest, one pair at a time, as long as they are far apart: what is
// put anew prefers a fresh segment only a little, so a pool that is read more than written would stay uneven. It has what the
// healing leaves of the bandwidth. Pinned and leased objects stay where they are, and so do those that have a copy on the
// target's host. All of it is under healer.mu.
type balancer struct {
	on     bool // always
	once   bool // until they are even
	going  bool // the segments were far apart, and are not close yet
	active map[string]errand
	shift  map[string]int64 // bytes under way, by segment: to it, or with a minus off it
	pause  catalog.Time     // nothing before
}

// stepBalance brings the moves on.
func (s *Service) stepBalance(now catalog.Time) {
	h := s.healer
	b := &h.moves
	h.mu.Lock()
	defer h.mu.Unlock()
	s.hearBalance(now)
	if !b.on && !b.once {
		return
	}
	h.fill(now)
	if now < b.pause || len(h.queue) > 0 || len(h.active) > 0 || h.walk != nil {
		return
	}
	for h.budget > 0 && len(b.active) < h.tasks {
		from, to, apart := b.pair(s.healTargets(now))
		switch {
		case !b.going && !b.once && apart < limits.RebalanceStart, apart < limits.RebalanceStop:
			s.endBalance("the segments are even again")
			return
		case !b.going:
			b.going = true
			s.log.Info("objects move from the fullest segments to the emptiest", zap.String("action", "rebalance_begins"),
				zap.String("fullest", from.name), zap.String("emptiest", to.name))
		}
		if s.moveSome(now, from, to) == 0 {
			b.pause = now + limits.RebalancePauseMs // all that was met is pinned, leased or there already
			if b.once {
				s.endBalance("nothing more can be moved from the fullest segment to the emptiest")
			}
			return
		}
	}
}

// endBalance ends the moving when nothing is under way any more.
func (s *Service) endBalance(why string) {
	h := s.healer
	b := &h.moves
	if len(b.active) > 0 {
		return
	}
	if b.going || b.once {
		s.log.Info(why, zap.String("action", "rebalance_ends"), zap.Uint64("objects", h.info.Moved), zap.Uint64("bytes", h.info.MovedBytes))
	}
	b.going, b.once = false, false
}

// Rebalance begins to make the segments even, once, or ends what goes on. What is on its way comes to its end. Nothing of it
// outlives this leader.
func (s *Service) Rebalance(stop bool) {
	s.healer.mu.Lock()
	defer s.healer.mu.Unlock()
	b := &s.healer.moves
	switch {
	case stop:
		b.on, b.once, b.going = false, false, false
	case !b.on:
		b.once = true
	}
	b.pause = 0
}

// mode says in a word whether objects move.
func (b *balancer) mode() string {
	switch {
	case b.on:
		return "always"
	case b.once:
		return "once"
	}
	return "off"
}

// rebalancing tells how far the moves are.
func (s *Service) rebalancing(now catalog.Time) *mooncakev1.Rebalancing {
	h := s.healer
	h.mu.Lock()
	defer h.mu.Unlock()
	b := &h.moves
	out := &mooncakev1.Rebalancing{
		Mode: b.mode(), Going: b.going, MovingObjects: uint64(len(b.active)), MovedObjects: h.info.Moved, MovedBytes: h.info.MovedBytes, FailedMoves: h.info.FailedMoves,
	}
	if from, to, _ := b.pair(s.healTargets(now)); from != nil {
		out.Fullest, out.FullestPercent = from.name, 100*float64(from.used)/float64(from.size)
		out.Emptiest, out.EmptiestPercent = to.name, 100*float64(to.used)/float64(to.size)
	}
	return out
}

// hearBalance takes up how moves ended.
func (s *Service) hearBalance(now catalog.Time) {
	h := s.healer
	b := &h.moves
	hear(s.tasks, b.active, func(_ string, m errand, done bool) {
		if done {
			h.info.Moved++
			h.info.MovedBytes += m.size
		} else {
			h.info.FailedMoves++
			b.pause = now + limits.RebalancePauseMs
		}
		b.moved(m.from, int64(m.size))
		b.moved(m.to[0], -int64(m.size))
	})
}

// moved adds to what is under way.
func (b *balancer) moved(segment string, bytes int64) {
	if b.shift[segment] += bytes; b.shift[segment] == 0 {
		delete(b.shift, segment)
	}
}

// use is the used share of a segment once everything under way has arrived.
func (b *balancer) use(t *healTarget) float64 {
	return float64(int64(t.used)+b.shift[t.name]) / float64(t.size)
}

// pair gives the fullest and the emptiest segment, and how far they are apart.
func (b *balancer) pair(list []healTarget) (from, to *healTarget, apart float64) {
	for i := range list {
		t := &list[i]
		if from == nil || b.use(t) > b.use(from) {
			from = t
		}
		if to == nil || b.use(t) < b.use(to) {
			to = t
		}
	}
	if from == nil {
		return nil, nil, 0
	}
	return from, to, b.use(from) - b.use(to)
}

// moveSome asks for moves from one segment to another, and returns how many. The two come no closer than they have to be.
func (s *Service) moveSome(now catalog.Time, from, to *healTarget) (asked int) {
	h := s.healer
	b := &h.moves
	step := s.cat.DrainStep(now, from.name, min(h.tasks, limits.RebalanceLooks), false)
	for _, key := range step.Keys {
		if h.budget <= 0 || len(b.active) >= h.tasks || b.use(from)-b.use(to) < limits.RebalanceStop {
			break
		}
		if _, busy := b.active[key]; busy {
			continue
		}
		if m, ok := s.askToBalance(key, from, to); ok {
			b.active[key] = m
			b.moved(m.from, -int64(m.size))
			b.moved(m.to[0], int64(m.size))
			h.budget -= int64(m.size)
			asked++
		}
	}
	return asked
}

// askToBalance asks the owner of a segment to move an object, unless it has a copy on the target's host.
func (s *Service) askToBalance(key string, from, to *healTarget) (errand, bool) {
	object, copies, _ := s.cat.ThinCopies(key, nil)
	var source *catalog.SegmentInfo
	for i := range copies {
		switch c := &copies[i]; {
		case c.Segment.Name == from.name:
			source = c.Segment
		case c.Host == to.host:
			return errand{}, false
		}
	}
	if source == nil || object.Size > to.large || object.Size > to.size/limits.RebalanceShare {
		return errand{}, false
	}
	tenant, plain := s.plainKey(key)
	id, code := s.askForMove(tenant, plain, source, to.name)
	return errand{task: id, client: wireID(source.Client), size: object.Size, from: from.name, to: []string{to.name}}, code == 0
}
