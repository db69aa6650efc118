package master

import (
	"slices"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// startFunc is PutStart or UpsertStart of the catalog, endFunc and revokeFunc their counterparts.
type (
	startFunc  func(catalog.Turn, catalog.Time, catalog.UUID, string, uint64, *catalog.PutOptions, []catalog.Replica) ([]catalog.Replica, error)
	endFunc    func(catalog.Turn, catalog.Time, catalog.UUID, string, uint64, bool, int32) error
	revokeFunc func(catalog.Time, catalog.UUID, string, int32) error
)

func (s *Service) registerPuts() {
	c := s.cat
	registerLean(s, &wire.PutStart, func(p *peerConn, q *wire.PutStartRequest, r *wire.PutStartReply, b *bag) {
		*r = wire.PutStartReply{}
		s.start(p, p.now, b, catalog.Turn.PutStart, q.ClientID, q.Key, q.Size, q.TenantID, &q.Config, r)
		s.count(wire.PutStart.ID, r.Err != 0)
	})
	registerLean(s, &wire.UpsertStart, func(p *peerConn, q *wire.UpsertStartRequest, r *wire.UpsertStartReply, b *bag) {
		*r = wire.UpsertStartReply{}
		s.start(p, p.now, b, catalog.Turn.UpsertStart, q.ClientID, q.Key, q.Size, q.TenantID, &q.Config, r)
		s.count(wire.PutStart.ID, r.Err != 0) // the original counts upserts as puts
	})
	register(s, &wire.PutEnd, func(p *peerConn, q *wire.PutEndRequest, r *wire.PutEndReply) {
		s.families.bind(p, q.ClientID)
		r.Err = s.end(p.now, catalog.Turn.PutEnd, q.ClientID, &q.Object, q.ReplicaType, q.TenantID)
		s.count(wire.PutEnd.ID, r.Err != 0)
	})
	register(s, &wire.UpsertEnd, func(p *peerConn, q *wire.UpsertEndRequest, r *wire.UpsertEndReply) {
		s.families.bind(p, q.ClientID)
		r.Err = s.end(p.now, catalog.Turn.UpsertEnd, q.ClientID, &q.Object, q.ReplicaType, q.TenantID)
		s.count(wire.PutEnd.ID, r.Err != 0)
	})
	register(s, &wire.PutRevoke, func(p *peerConn, q *wire.PutRevokeRequest, r *wire.PutRevokeReply) {
		s.families.bind(p, q.ClientID)
		r.Err = s.revoke(c.PutRevoke, q.ClientID, q.Key, q.ReplicaType, q.TenantID)
		s.count(wire.PutRevoke.ID, r.Err != 0)
	})
	register(s, &wire.UpsertRevoke, func(p *peerConn, q *wire.UpsertRevokeRequest, r *wire.UpsertRevokeReply) {
		s.families.bind(p, q.ClientID)
		r.Err = s.revoke(c.UpsertRevoke, q.ClientID, q.Key, q.ReplicaType, q.TenantID)
		s.count(wire.PutRevoke.ID, r.Err != 0)
	})
	s.registerPutBatches()
}

func (s *Service) registerPutBatches() {
	c := s.cat
	registerLean(s, &wire.BatchPutStart, func(p *peerConn, q *wire.BatchPutStartRequest, r *wire.BatchPutStartReply, b *bag) {
		*r = s.startBatch(p, p.now, *r, b, catalog.Turn.PutStart, q.ClientID, q.Keys, q.Sizes, q.TenantID, &q.Config)
	})
	registerLean(s, &wire.BatchUpsertStart, func(p *peerConn, q *wire.BatchUpsertStartRequest, r *wire.BatchUpsertStartReply, b *bag) {
		*r = s.startBatch(p, p.now, *r, b, catalog.Turn.UpsertStart, q.ClientID, q.Keys, q.Sizes, q.TenantID, &q.Config)
	})
	registerLean(s, &wire.BatchPutEnd, func(p *peerConn, q *wire.BatchPutEndRequest, r *wire.BatchPutEndReply, b *bag) {
		s.families.bind(p, q.ClientID)
		*r = s.endBatch(p.now, *r, b, catalog.Turn.PutEnd, q.ClientID, q.Objects, q.ReplicaType, q.TenantID)
	})
	registerLean(s, &wire.BatchUpsertEnd, func(p *peerConn, q *wire.BatchUpsertEndRequest, r *wire.BatchUpsertEndReply, b *bag) {
		s.families.bind(p, q.ClientID)
		*r = s.endBatch(p.now, *r, b, catalog.Turn.UpsertEnd, q.ClientID, q.Objects, wire.ReplicaTypeAll, q.TenantID)
	})
	register(s, &wire.BatchPutRevoke, func(p *peerConn, q *wire.BatchPutRevokeRequest, r *wire.BatchPutRevokeReply) {
		s.families.bind(p, q.ClientID)
		*r = s.revokeBatch(c.PutRevoke, q.ClientID, q.Keys, q.ReplicaType, q.TenantID)
	})
	register(s, &wire.BatchUpsertRevoke, func(p *peerConn, q *wire.BatchUpsertRevokeRequest, r *wire.BatchUpsertRevokeReply) {
		s.families.bind(p, q.ClientID)
		*r = s.revokeBatch(c.UpsertRevoke, q.ClientID, q.Keys, wire.ReplicaTypeAll, q.TenantID)
	})
}

// start runs one PutStart or UpsertStart.
func (s *Service) start(p *peerConn, now catalog.Time, b *bag, fn startFunc, client wire.UUID, key string, size uint64, tenant string, cfg *wire.ReplicateConfig, r *wire.Exp[[]wire.ReplicaDescriptor, wire.ErrorCode]) {
	s.families.bind(p, client)
	group, ok := groupOf(cfg, 0, 1)
	key, options, code := s.putOptions(key, size, tenant, cfg, group)
	b.options = options
	switch {
	case code != 0:
		r.Err = code
		return
	case !ok:
		r.Err = wire.ErrInvalidParams
		return
	}
	s.cat.Provide()
	turn := s.cat.Turn()
	replicas, err := fn(turn, now, clientID(client), key, size, &b.options, b.found[:0])
	turn.End()
	if err != nil {
		p.refused()
		r.Err = codeOf(err)
		return
	}
	p.begun(b.options.After)
	s.calls.ObserveValue(size)
	r.Value = s.replicasOut(key, b.open(len(replicas)), replicas)
	b.close(r.Value)
}

// startBatch runs the items of a batch one by one: they succeed or fail alone.
func (s *Service) startBatch(p *peerConn, now catalog.Time, out []wire.Exp[[]wire.ReplicaDescriptor, wire.ErrorCode], b *bag, fn startFunc, client wire.UUID, keys []string, sizes []uint64, tenant string, cfg *wire.ReplicateConfig) []wire.Exp[[]wire.ReplicaDescriptor, wire.ErrorCode] {
	s.families.bind(p, client)
	out = again(out, len(keys))
	_, groups := groupOf(cfg, 0, max(len(keys), 1))
	if len(keys) != len(sizes) || len(keys) > 0 && !groups {
		for i := range out {
			out[i].Err = wire.ErrInvalidParams
		}
		s.countBatch(wire.BatchPutStart.ID, len(out), len(out))
		return out
	}
	failed := 0
	list := b.open(len(keys))
	b.options = s.optionsOf(tenant, cfg)
	for at := 0; at < len(keys); at += limits.CatalogWarmKeys {
		s.cat.Provide()
		end := min(at+limits.CatalogWarmKeys, len(keys))
		turn := s.cat.Turn()
		s.warmTurn(turn, keys[at:end], false)
		for i := at; i < end; i++ {
			group, _ := groupOf(cfg, i, len(keys))
			key, group, code := s.putKeys(keys[i], sizes[i], tenant, cfg, group)
			if code == 0 {
				b.options.Group, b.options.After = group, 0
				var replicas []catalog.Replica
				replicas, code = s.startItem(p, turn, now, b, fn, client, key, sizes[i])
				from := len(list)
				list = s.replicasOut(key, slices.Grow(list, len(replicas)), replicas)
				out[i].Value = list[from:len(list):len(list)]
				if s.sameNode(cfg, replicas) {
					b.options = s.optionsOf(tenant, cfg)
				}
			}
			if out[i].Err = code; code != 0 {
				failed++
			}
		}
		turn.End()
		now = s.clock.Now()
	}
	b.close(list)
	s.countBatch(wire.BatchPutStart.ID, len(out), failed)
	return out
}

// warmTurn brings what decisions about some keys look at near the processor, unless the catalog has them under other names.
func (s *Service) warmTurn(turn catalog.Turn, keys []string, there bool) {
	if !s.cfg.MultiTenants {
		turn.Warm(keys, there)
	}
}

// startItem runs one item of a batch.
func (s *Service) startItem(p *peerConn, turn catalog.Turn, now catalog.Time, b *bag, fn startFunc, client wire.UUID, key string, size uint64) ([]catalog.Replica, wire.ErrorCode) {
	replicas, err := fn(turn, now, clientID(client), key, size, &b.options, b.found[:0])
	if code := codeOf(err); code != 0 {
		p.refused()
		return nil, code
	}
	p.begun(b.options.After)
	s.calls.ObserveValue(size)
	return replicas, 0
}

// sameNode keeps a batch that asked for it on the segment its first object went to; it tells whether that changed something.
func (s *Service) sameNode(cfg *wire.ReplicateConfig, replicas []catalog.Replica) (changed bool) {
	if !cfg.PreferAllocInSameNode || cfg.PreferredSegment != "" {
		return false
	}
	for i := range replicas {
		if replicas[i].Disk == nil {
			cfg.PreferredSegment, changed = replicas[i].Segment.Name, true
		}
	}
	return changed
}

func (s *Service) end(now catalog.Time, fn endFunc, client wire.UUID, o *wire.ObjectMeta, t wire.ReplicaType, tenant string) wire.ErrorCode {
	turn := s.cat.Turn()
	defer turn.End()
	return s.endItem(turn, now, fn, client, o, t, tenant)
}

func (s *Service) endItem(turn catalog.Turn, now catalog.Time, fn endFunc, client wire.UUID, o *wire.ObjectMeta, t wire.ReplicaType, tenant string) wire.ErrorCode {
	key, code := s.keyOf(tenant, o.Key)
	if code != 0 {
		return code
	}
	return codeOf(fn(turn, now, clientID(client), key, o.ObjectChecksum.Value, o.ObjectChecksum.Set, int32(t)))
}

func (s *Service) revoke(fn revokeFunc, client wire.UUID, key string, t wire.ReplicaType, tenant string) wire.ErrorCode {
	key, code := s.keyOf(tenant, key)
	if code != 0 {
		return code
	}
	s.givenUp(client, key)
	return codeOf(fn(s.clock.Now(), clientID(client), key, int32(t)))
}

func (s *Service) endBatch(now catalog.Time, out []wire.Exp[wire.Void, wire.ErrorCode], b *bag, fn endFunc, client wire.UUID, objects []wire.ObjectMeta, t wire.ReplicaType, tenant string) []wire.Exp[wire.Void, wire.ErrorCode] {
	out = again(out, len(objects))
	failed := 0
	for at := 0; at < len(objects); at += limits.CatalogWarmKeys {
		turn := s.cat.Turn()
		s.warmTurn(turn, b.keysOf(objects[at:]), true)
		for i := at; i < min(at+limits.CatalogWarmKeys, len(objects)); i++ {
			if out[i].Err = s.endItem(turn, now, fn, client, &objects[i], t, tenant); out[i].Err != 0 {
				failed++
			}
		}
		turn.End()
		now = s.clock.Now()
	}
	s.countBatch(wire.BatchPutEnd.ID, len(out), failed)
	return out
}

func (s *Service) revokeBatch(fn revokeFunc, client wire.UUID, keys []string, t wire.ReplicaType, tenant string) []wire.Exp[wire.Void, wire.ErrorCode] {
	out := make([]wire.Exp[wire.Void, wire.ErrorCode], len(keys))
	keys, code := s.keysOf(tenant, keys)
	s.givenUp(client, keys[:min(len(keys), limits.RevokesLookedAt)]...)
	failed := 0
	for i := range out {
		if out[i].Err = code; code == 0 {
			out[i].Err = codeOf(fn(s.clock.Now(), clientID(client), keys[i], int32(t)))
		}
		if out[i].Err != 0 {
			failed++
		}
	}
	s.countBatch(wire.BatchPutRevoke.ID, len(out), failed)
	return out
}
