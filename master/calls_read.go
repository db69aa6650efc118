package master

import (
	"slices"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/metrics"
	"mooncake/wire"
)

func (s *Service) registerReads() {
	register(s, &wire.ExistKey, func(p *peerConn, q *wire.ExistKeyRequest, r *wire.ExistKeyReply) {
		r.Value, r.Err = s.exist(p.now, q.TenantID, q.Key)
		s.count(wire.ExistKey.ID, false)
	})
	registerLean(s, &wire.BatchExistKey, func(p *peerConn, q *wire.BatchExistKeyRequest, r *wire.BatchExistKeyReply, _ *bag) {
		out := again(*r, len(q.Keys))
		for i, key := range q.Keys {
			s.warm(q.Keys, i)
			out[i].Value, out[i].Err = s.exist(p.now, q.TenantID, key)
		}
		*r = out
		s.countBatch(wire.BatchExistKey.ID, len(out), 0)
	})
	registerLean(s, &wire.GetReplicaList, func(p *peerConn, q *wire.GetReplicaListRequest, r *wire.GetReplicaListReply, b *bag) {
		*r = wire.GetReplicaListReply{}
		var looked metrics.Lookups
		b.close(s.get(p, p.now, q.TenantID, q.Key, r, b.open(1), &looked))
		s.calls.CountLookups(&looked)
		s.count(wire.GetReplicaList.ID, r.Err != 0)
	})
	registerLean(s, &wire.BatchGetReplicaList, func(p *peerConn, q *wire.BatchGetReplicaListRequest, r *wire.BatchGetReplicaListReply, b *bag) {
		out, list := again(*r, len(q.Keys)), b.open(len(q.Keys))
		var looked metrics.Lookups
		failed := 0
		for i, key := range q.Keys {
			s.warm(q.Keys, i)
			if list = s.get(p, p.now, q.TenantID, key, &out[i], list, &looked); out[i].Err != 0 {
				failed++
			}
		}
		s.calls.CountLookups(&looked)
		b.close(list)
		*r = out
		s.countBatch(wire.BatchGetReplicaList.ID, len(out), failed)
	})
	register(s, &wire.GetReplicaListByRegex, func(_ *peerConn, q *wire.GetReplicaListByRegexRequest, r *wire.GetReplicaListByRegexReply) {
		r.Value, r.Err = s.getMatching(q.TenantID, q.Regex)
		s.count(wire.GetReplicaListByRegex.ID, r.Err != 0)
	})
}

// exist tells whether a key can be read, and grants a lease if so.
func (s *Service) exist(now catalog.Time, tenant, key string) (bool, wire.ErrorCode) {
	key, code := s.keyOf(tenant, key)
	return code == 0 && s.cat.Exist(now, key), code
}

// warm prepares, every so often, for the look-ups of the next keys of a list. Keys of tenants have other names, which is not
// worth making twice.
func (s *Service) warm(keys []string, at int) {
	if at%limits.CatalogWarmKeys == 0 && !s.cfg.MultiTenants {
		s.cat.Warm(keys[at:])
	}
}

// get answers the replica list of one key and grants the lease that goes with it. The replicas go to the end of list, which
// it returns. The caller counts what was looked up.
func (s *Service) get(p *peerConn, now catalog.Time, tenant, key string, r *wire.Exp[wire.GetReplicaListResponse, wire.ErrorCode], list []wire.ReplicaDescriptor, looked *metrics.Lookups) []wire.ReplicaDescriptor {
	plain := key
	if key, r.Err = s.keyOf(tenant, key); r.Err != 0 {
		return list
	}
	var buf [4]catalog.Replica
	o, replicas, err := s.cat.Get(now, key, buf[:0])
	looked.Count(err == nil, o.OnDisk, o.Size)
	if err != nil {
		r.Err = codeOf(err)
		return list
	}
	s.heat.read(now, tenant, plain, key, len(replicas))
	p.readings.note(key, now)
	at := len(list)
	list = s.replicasOut(key, slices.Grow(list, len(replicas)), replicas)
	r.Value.Replicas = list[at:len(list):len(list)]
	r.Value.LeaseTTLMs = uint64(o.LeaseMs)
	r.Value.ObjectChecksum = wire.Opt[uint64]{Set: o.HasChecksum, Value: o.Checksum}
	r.Value.ResolvedTenantID = wire.Opt[string]{Set: true, Value: defaultTenant}
	if s.cfg.MultiTenants && tenant != "" {
		r.Value.ResolvedTenantID.Value = tenant
	}
	return list
}

// defaultTenant is the tenant of calls that name none, and of every key as long as tenants are not told apart.
const defaultTenant = "default"

func (s *Service) getMatching(tenant, text string) ([]wire.MapEntry[string, []wire.ReplicaDescriptor], wire.ErrorCode) {
	p, err := compilePattern(text, s.quit)
	if err != nil {
		return nil, wire.ErrInvalidParams
	}
	match, code := s.among(tenant, p.match)
	if code != 0 {
		return nil, code
	}
	var out []wire.MapEntry[string, []wire.ReplicaDescriptor]
	s.cat.FindMatching(s.clock.Now(), match, func(key string, _ catalog.Object, replicas []catalog.Replica) bool {
		_, plain := s.plainKey(key)
		out = append(out, wire.MapEntry[string, []wire.ReplicaDescriptor]{Key: plain, Value: s.replicasOut(key, nil, replicas)})
		return true
	})
	if p.err != nil {
		s.log.Warn("look-up by pattern given up", zap.String("pattern", shortened(text)), zap.Error(p.err))
		return nil, wire.ErrInvalidParams
	}
	return out, 0
}
