package master

import (
	"mooncake/catalog"
	"mooncake/wire"
)

// copyEnd is CopyEnd, CopyRevoke or one of their counterparts of the catalog.
type copyEnd func(now catalog.Time, client catalog.UUID, key string) error

// registerCopies binds the calls of a client that works on a task. Copies made on the master's own demand carry a lease
// and an epoch: what it decided may not be true any more.
func (s *Service) registerCopies() {
	c := s.cat
	register(s, &wire.CopyStart, func(p *peerConn, q *wire.CopyStartRequest, r *wire.CopyStartReply) {
		s.families.bind(p, q.ClientID)
		if q.Key == probeKey {
			s.families.learn(p, family12) // before the reply is written: this very reply differs between the families
			r.Err = wire.ErrObjectNotFound
		} else {
			r.Value, r.Err = s.startCopy(q.ClientID, q.TenantID, q.Key, q.Source, q.Targets)
		}
		s.count(wire.CopyStart.ID, r.Err != 0)
	})
	register(s, &wire.DynamicReplicaCopyStart, func(p *peerConn, q *wire.DynamicReplicaCopyStartRequest, r *wire.DynamicReplicaCopyStartReply) {
		s.families.bind(p, q.ClientID)
		if r.Err = s.mayStart(q); r.Err == 0 {
			r.Value, r.Err = s.startCopy(q.ClientID, q.TenantID, q.Key, q.Source, q.Targets)
		}
		s.count(wire.CopyStart.ID, r.Err != 0)
	})
	register(s, &wire.MoveStart, func(p *peerConn, q *wire.MoveStartRequest, r *wire.MoveStartReply) {
		s.families.bind(p, q.ClientID)
		r.Value, r.Err = s.startMove(q)
		s.count(wire.MoveStart.ID, r.Err != 0)
	})
	register(s, &wire.CopyEnd, func(p *peerConn, q *wire.CopyEndRequest, r *wire.CopyEndReply) {
		r.Err = s.endAdded(p, q)
	})
	register(s, &wire.CopyRevoke, func(p *peerConn, q *wire.CopyRevokeRequest, r *wire.CopyRevokeReply) {
		r.Err = s.endCopy(p, c.CopyRevoke, wire.CopyRevoke.ID, q.ClientID, q.TenantID, q.Key)
	})
	register(s, &wire.MoveEnd, func(p *peerConn, q *wire.MoveEndRequest, r *wire.MoveEndReply) {
		r.Err = s.endCopy(p, c.MoveEnd, wire.MoveEnd.ID, q.ClientID, q.TenantID, q.Key)
	})
	register(s, &wire.MoveRevoke, func(p *peerConn, q *wire.MoveRevokeRequest, r *wire.MoveRevokeReply) {
		r.Err = s.endCopy(p, c.MoveRevoke, wire.MoveRevoke.ID, q.ClientID, q.TenantID, q.Key)
	})
	register(s, &wire.DynamicReplicaCopyEnd, func(p *peerConn, q *wire.DynamicReplicaCopyEndRequest, r *wire.DynamicReplicaCopyEndReply) {
		in := s.heat.holds(s.clock.Now(), dynamicLease{q.LeaseID, q.VersionEpoch}, s.epochOf(q.TenantID, q.Key))
		if r.Err = s.endDemanded(p, c.CopyEnd, wire.CopyEnd.ID, q.ClientID, q.TenantID, q.Key, in); r.Err == 0 {
			s.grew(q.TenantID, q.Key)
		}
	})
	register(s, &wire.DynamicReplicaCopyRevoke, func(p *peerConn, q *wire.DynamicReplicaCopyRevokeRequest, r *wire.DynamicReplicaCopyRevokeReply) {
		known := s.heat.issued(dynamicLease{q.LeaseID, q.VersionEpoch}) // a lease that is over must not keep the ranges
		r.Err = s.endDemanded(p, c.CopyRevoke, wire.CopyRevoke.ID, q.ClientID, q.TenantID, q.Key, known)
	})
}

// endAdded ends a copy. One that the master did not want itself is one more that the object is to have.
func (s *Service) endAdded(p *peerConn, q *wire.CopyEndRequest) wire.ErrorCode {
	end, hot := s.cat.CopyEndMore, false
	if kept, code := s.keyOf(q.TenantID, q.Key); code == 0 {
		if why, own := s.tasks.purposeOf(kept); own {
			end, hot = s.cat.CopyEnd, why.hot
		}
	}
	code := s.endCopy(p, end, wire.CopyEnd.ID, q.ClientID, q.TenantID, q.Key)
	if code == 0 && hot { // a client of 0.3.12 knows no other call
		s.grew(q.TenantID, q.Key)
	}
	return code
}

// grew notes that an object got a copy on demand. The target may have got one otherwise meanwhile: then it is none.
func (s *Service) grew(tenant, key string) {
	kept, code := s.keyOf(tenant, key)
	if code != 0 {
		return
	}
	if _, copies, _ := s.cat.ThinCopies(kept, nil); s.heat.more(kept, len(copies)) {
		s.heat.grew(kept, uint64(s.cat.ValueTime(kept)))
	}
}

// mayStart tells whether a copy on demand is still wanted.
func (s *Service) mayStart(q *wire.DynamicReplicaCopyStartRequest) wire.ErrorCode {
	epoch := s.epochOf(q.TenantID, q.Key)
	switch {
	case q.Key == probeKey || epoch == 0:
		return wire.ErrObjectNotFound
	case s.heat.mode == dynamicOff:
		return wire.ErrUnavailableInCurrentStatus
	case !s.heat.holds(s.clock.Now(), dynamicLease{q.LeaseID, q.VersionEpoch}, epoch):
		return wire.ErrInvalidVersion
	}
	return 0
}

// endDemanded ends a copy on demand whose lease is right; for another it says what is wrong.
func (s *Service) endDemanded(p *peerConn, end copyEnd, id wire.CallID, client wire.UUID, tenant, key string, right bool) wire.ErrorCode {
	if right {
		return s.endCopy(p, end, id, client, tenant, key)
	}
	s.families.bind(p, client)
	s.calls.Count(id.Name(), true)
	kept, code := s.keyOf(tenant, key)
	if code == 0 {
		code = codeOf(s.cat.CopyUnderWay(kept))
	}
	if code == 0 {
		code = wire.ErrInvalidVersion
	}
	return code
}

// copyKey gives the key under which the catalog has what a client copies. Who has no segment has nothing to copy from.
func (s *Service) copyKey(client wire.UUID, tenant, key string) (string, wire.ErrorCode) {
	if !s.cfg.CopiesByAnyClient && s.cat.ClientStage(clientID(client)) == catalog.StageGone {
		return "", wire.ErrUnavailableInCurrentStatus
	}
	return s.keyOf(tenant, key)
}

func (s *Service) startCopy(client wire.UUID, tenant, key, source string, targets []string) (r wire.CopyStartResponse, code wire.ErrorCode) {
	kept, code := s.copyKey(client, tenant, key)
	if code != 0 {
		return r, code
	}
	from, made, err := s.cat.CopyStart(s.clock.Now(), clientID(client), kept, source, targets, nil)
	if err != nil {
		return r, codeOf(err)
	}
	r.Source = s.replicasOut("", nil, []catalog.Replica{from})[0]
	r.Targets = s.replicasOut("", make([]wire.ReplicaDescriptor, 0, len(made)), made)
	return r, 0
}

func (s *Service) startMove(q *wire.MoveStartRequest) (r wire.MoveStartResponse, code wire.ErrorCode) {
	kept, code := s.copyKey(q.ClientID, q.TenantID, q.Key)
	if code != 0 {
		return r, code
	}
	from, made, err := s.cat.MoveStart(s.clock.Now(), clientID(q.ClientID), kept, q.Source, q.Target, nil)
	if err != nil {
		return r, codeOf(err)
	}
	r.Source = s.replicasOut("", nil, []catalog.Replica{from})[0]
	if len(made) > 0 {
		r.Target = wire.Some(s.replicasOut("", nil, made)[0])
	}
	return r, 0
}

// endCopy runs one of the calls that end a copy or move.
func (s *Service) endCopy(p *peerConn, end copyEnd, id wire.CallID, client wire.UUID, tenant, key string) wire.ErrorCode {
	s.families.bind(p, client)
	kept, code := s.copyKey(client, tenant, key)
	if code == 0 {
		code = codeOf(end(s.clock.Now(), clientID(client), kept))
	}
	s.calls.Count(id.Name(), code != 0)
	return code
}

// epochOf gives the time of an object's value, by which a copy made on demand knows that it is still the same; 0 is none.
func (s *Service) epochOf(tenant, key string) uint64 {
	kept, code := s.keyOf(tenant, key)
	if code != 0 {
		return 0
	}
	return uint64(s.cat.ValueTime(kept))
}
