package master

import (
	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// balancer moves objects from the fullest segment to the emptiest, one pair at a time, as long as they are far apart: what is
// put anew prefers a fresh segment only a little, so a pool that is read more than written would stay uneven. It has what the
// healing leaves of the bandwidth. Pinned and leased objects stay where they are, and so do those that have a copy on the
// target's host. All of it is under healer.mu.
type balancer struct {
	on     bool
	going  bool // the segments were far apart, and are not close yet
	active map[string]moving
	shift  map[string]int64 // bytes under way, by segment: to it, or with a minus off it
	pause  catalog.Time     // nothing before
}

// moving is one move that was asked for.
type moving struct {
	task     wire.UUID
	from, to string
	size     uint64
}

// stepBalance brings the moves on.
func (s *Service) stepBalance(now catalog.Time) {
	h := s.healer
	b := &h.moves
	if !b.on {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.hearBalance(now)
	h.fill(now)
	if now < b.pause || len(h.queue) > 0 || len(h.active) > 0 || h.walk != nil {
		return
	}
	for h.budget > 0 && len(b.active) < h.tasks {
		from, to, apart := b.pair(s.healTargets())
		switch {
		case !b.going && apart < limits.RebalanceStart, apart < limits.RebalanceStop:
			if b.going && len(b.active) == 0 {
				b.going = false
				s.log.Info("the segments are even again", zap.String("action", "rebalance_ends"), zap.Uint64("objects", h.info.Moved), zap.Uint64("bytes", h.info.MovedBytes))
			}
			return
		case !b.going:
			b.going = true
			s.log.Info("objects move from the fullest segments to the emptiest", zap.String("action", "rebalance_begins"),
				zap.String("fullest", from.name), zap.String("emptiest", to.name))
		}
		if s.moveSome(now, from, to) == 0 {
			b.pause = now + limits.RebalancePauseMs // all that was met is pinned, leased or there already
			return
		}
	}
}

// hearBalance takes up how moves ended.
func (s *Service) hearBalance(now catalog.Time) {
	h := s.healer
	b := &h.moves
	for key, m := range b.active {
		t, known := s.tasks.query(m.task)
		switch {
		case known && t.Status == wire.TaskStatusSuccess:
			h.info.Moved++
			h.info.MovedBytes += m.size
		case !known || t.Status == wire.TaskStatusFailed:
			h.info.FailedMoves++
			b.pause = now + limits.RebalancePauseMs
		default:
			continue
		}
		delete(b.active, key)
		b.moved(m.from, int64(m.size))
		b.moved(m.to, -int64(m.size))
	}
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
			b.moved(m.to, int64(m.size))
			h.budget -= int64(m.size)
			asked++
		}
	}
	return asked
}

// askToBalance asks the owner of a segment to move an object, unless it has a copy on the target's host.
func (s *Service) askToBalance(key string, from, to *healTarget) (moving, bool) {
	object, copies, _ := s.cat.ThinCopies(key, nil)
	var source *catalog.SegmentInfo
	for i := range copies {
		switch c := &copies[i]; {
		case c.Segment.Name == from.name:
			source = c.Segment
		case c.Host == to.host:
			return moving{}, false
		}
	}
	if source == nil || object.Size > to.large || object.Size > to.size/limits.RebalanceShare {
		return moving{}, false
	}
	tenant, plain := s.plainKey(key)
	id, code := s.askForMove(tenant, plain, source, to.name)
	return moving{id, from.name, to.name, object.Size}, code == 0
}
