package master

import (
	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/wire"
)

func (s *Service) registerRemoves() {
	register(s, &wire.Remove, func(_ *peerConn, q *wire.RemoveRequest, r *wire.RemoveReply) {
		r.Err = s.remove(q.TenantID, q.Key, q.Force)
		s.count(wire.Remove.ID, r.Err != 0)
	})
	register(s, &wire.BatchRemove, func(_ *peerConn, q *wire.BatchRemoveRequest, r *wire.BatchRemoveReply) {
		out := make([]wire.Exp[wire.Void, wire.ErrorCode], len(q.Keys))
		for i, key := range q.Keys {
			out[i].Err = s.remove(q.TenantID, key, q.Force)
			s.count(wire.Remove.ID, out[i].Err != 0) // the original counts the items as single removes
		}
		*r = out
	})
	register(s, &wire.RemoveByRegex, func(_ *peerConn, q *wire.RemoveByRegexRequest, r *wire.RemoveByRegexReply) {
		r.Value, r.Err = s.removeMatching(q.TenantID, q.Regex, q.Force)
		s.count(wire.RemoveByRegex.ID, r.Err != 0)
	})
	register(s, &wire.RemoveAll, func(_ *peerConn, q *wire.RemoveAllRequest, r *wire.RemoveAllReply) {
		// The call has no way to say that a tenant's name is impossible; such a tenant has nothing.
		removed, err := s.removeAllOf(q.Force, q.TenantID)
		if err == nil {
			*r = wire.RemoveAllReply(removed)
		}
		s.count(wire.RemoveAll.ID, false)
	})
}

func (s *Service) remove(tenant, key string, force bool) wire.ErrorCode {
	key, code := s.keyOf(tenant, key)
	if code != 0 {
		return code
	}
	return codeOf(s.cat.Remove(s.clock.Now(), key, force))
}

// RemoveAllOf implements TenantSource. It is answered when it is durable.
func (s *Service) RemoveAllOf(force bool, tenant string) (int64, error) {
	removed, err := s.removeAllOf(force, tenant)
	if err == nil {
		err = s.history.wait()
	}
	return removed, err
}

// removeAllOf removes what may go of a tenant. No name means all tenants, here and nowhere else.
func (s *Service) removeAllOf(force bool, tenant string) (int64, error) {
	if tenant == "" || !s.cfg.MultiTenants {
		removed := s.cat.RemoveMatching(s.clock.Now(), nil, force)
		s.cleared()
		return removed, nil
	}
	match, code := s.among(tenant, func(string) bool { return true })
	if code != 0 {
		return 0, catalog.ErrInvalidParams
	}
	return s.cat.RemoveMatching(s.clock.Now(), match, force), nil
}

func (s *Service) removeMatching(tenant, text string, force bool) (int64, wire.ErrorCode) {
	p, err := compilePattern(text, s.quit)
	if err != nil {
		return 0, wire.ErrInvalidParams
	}
	match, code := s.among(tenant, p.match)
	if code != 0 {
		return 0, code
	}
	removed := s.cat.RemoveMatching(s.clock.Now(), match, force)
	if p.err != nil {
		s.log.Warn("removal by pattern given up", zap.String("pattern", shortened(text)), zap.Int64("removed", removed), zap.Error(p.err))
		return 0, wire.ErrInvalidParams
	}
	return removed, 0
}
