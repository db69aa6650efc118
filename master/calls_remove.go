package master

import (
	"go.uber.org/zap"

	"mooncake/wire"
)

func (s *Service) registerRemoves() {
	register(s, &wire.Remove, func(_ *peerConn, q *wire.RemoveRequest, r *wire.RemoveReply) {
		r.Err = codeOf(s.cat.Remove(s.clock.Now(), q.Key, q.Force))
		s.calls.Count(wire.Remove.ID.Name(), r.Err != 0)
	})
	register(s, &wire.BatchRemove, func(_ *peerConn, q *wire.BatchRemoveRequest, r *wire.BatchRemoveReply) {
		out := make([]wire.Exp[wire.Void, wire.ErrorCode], len(q.Keys))
		for i, key := range q.Keys {
			out[i].Err = codeOf(s.cat.Remove(s.clock.Now(), key, q.Force))
			s.calls.Count(wire.Remove.ID.Name(), out[i].Err != 0) // the original counts the items as single removes
		}
		*r = out
	})
	register(s, &wire.RemoveByRegex, func(_ *peerConn, q *wire.RemoveByRegexRequest, r *wire.RemoveByRegexReply) {
		r.Value, r.Err = s.removeMatching(q.Regex, q.Force)
		s.calls.Count(wire.RemoveByRegex.ID.Name(), r.Err != 0)
	})
	register(s, &wire.RemoveAll, func(_ *peerConn, q *wire.RemoveAllRequest, r *wire.RemoveAllReply) {
		*r = wire.RemoveAllReply(s.RemoveAll(q.Force))
		s.calls.Count(wire.RemoveAll.ID.Name(), false)
	})
}

// RemoveAll removes every object that may go and returns how many went.
func (s *Service) RemoveAll(force bool) int64 {
	return s.cat.RemoveMatching(s.clock.Now(), nil, force)
}

func (s *Service) removeMatching(text string, force bool) (int64, wire.ErrorCode) {
	p, err := compilePattern(text, s.quit)
	if err != nil {
		return 0, wire.ErrInvalidParams
	}
	removed := s.cat.RemoveMatching(s.clock.Now(), p.match, force)
	if p.err != nil {
		s.log.Warn("removal by pattern given up", zap.String("pattern", shortened(text)), zap.Int64("removed", removed), zap.Error(p.err))
		return 0, wire.ErrInvalidParams
	}
	return removed, 0
}
