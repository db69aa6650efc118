package master

import (
	"mooncake/catalog"
	"mooncake/wire"
)

// registerPlain binds the calls that look without touching, and those that clear.
func (s *Service) registerPlain() {
	register(s, &wire.BatchReplicaClear, func(_ *peerConn, q *wire.BatchReplicaClearRequest, r *wire.BatchReplicaClearReply) {
		r.Value, r.Err = s.clearReplicas(q)
		s.countBatch(wire.BatchReplicaClear.ID, len(q.Keys), len(q.Keys)-len(r.Value))
	})
	register(s, &wire.ProbeKey, func(_ *peerConn, q *wire.ProbeKeyRequest, r *wire.ProbeKeyReply) {
		r.Value, r.Err = s.probe(q.TenantID, q.Key)
	})
	register(s, &wire.BatchProbeKey, func(_ *peerConn, q *wire.BatchProbeKeyRequest, r *wire.BatchProbeKeyReply) {
		*r = s.probeAll(q)
	})
	register(s, &wire.GetReplicaListForAdmin, func(_ *peerConn, q *wire.GetReplicaListForAdminRequest, r *wire.GetReplicaListForAdminReply) {
		s.look(q.TenantID, q.Key, r)
	})
	register(s, &wire.BatchGetReplicaListForAdmin, func(_ *peerConn, q *wire.BatchGetReplicaListForAdminRequest, r *wire.BatchGetReplicaListForAdminReply) {
		out := make([]wire.Exp[wire.GetReplicaListResponse, wire.ErrorCode], len(q.Keys))
		for i, key := range q.Keys {
			s.look(q.TenantID, key, &out[i])
		}
		*r = out
	})
	s.registerNoF()
	s.registerWeights()
}

// clearReplicas takes away what may go and names it; what may not is passed over without a word.
func (s *Service) clearReplicas(q *wire.BatchReplicaClearRequest) (cleared []string, code wire.ErrorCode) {
	for _, key := range q.Keys {
		kept, code := s.keyOf(q.TenantID, key)
		if code != 0 {
			return nil, code
		}
		if key != "" && s.cat.ClearReplicas(s.clock.Now(), clientID(q.ClientID), kept, q.SegmentName) {
			cleared = append(cleared, key)
		}
	}
	return cleared, 0
}

// probe tells whether a key can be read, and leaves no trace.
func (s *Service) probe(tenant, key string) (bool, wire.ErrorCode) {
	kept, code := s.keyOf(tenant, key)
	if code != 0 {
		return false, code
	}
	_, _, err := s.cat.Peek(kept, nil)
	return err == nil, 0
}

// probeAll probes keys. If asked to it takes them in candidates of so many keys each, and leases the members of the last
// candidate of which everything is there.
func (s *Service) probeAll(q *wire.BatchProbeKeyRequest) []wire.Exp[bool, wire.ErrorCode] {
	out := make([]wire.Exp[bool, wire.ErrorCode], len(q.Keys))
	leases, size := q.Policy.LeaseMode == wire.ProbeLeaseModeLasthitonly, q.Policy.CandidateSize
	if q.Policy.LeaseMode > wire.ProbeLeaseModeLasthitonly || leases && (size == 0 || uint64(len(q.Keys))%size != 0) {
		for i := range out {
			out[i].Err = wire.ErrInvalidParams
		}
		return out
	}
	hits := uint64(0)
	var last []string
	for i, key := range q.Keys {
		if out[i].Value, out[i].Err = s.probe(q.TenantID, key); out[i].Value {
			hits++
		}
		if leases && uint64(i+1)%size == 0 {
			if hits == size {
				last = q.Keys[i+1-int(size) : i+1]
			}
			hits = 0
		}
	}
	for _, key := range last {
		// What went since it was probed goes without a lease; the answer was true when it was given.
		_, _ = s.exist(s.clock.Now(), q.TenantID, key)
	}
	return out
}

// look answers the replica list of a key without a lease and without counting it as read.
func (s *Service) look(tenant, key string, r *wire.Exp[wire.GetReplicaListResponse, wire.ErrorCode]) {
	kept, code := s.keyOf(tenant, key)
	if code != 0 {
		r.Err = code
		return
	}
	var buf [4]catalog.Replica
	o, replicas, err := s.cat.Peek(kept, buf[:0])
	if err != nil {
		r.Err = codeOf(err)
		return
	}
	r.Value.Replicas = s.replicasOut(kept, make([]wire.ReplicaDescriptor, 0, len(replicas)), replicas)
	r.Value.ObjectChecksum = wire.Opt[uint64]{Set: o.HasChecksum, Value: o.Checksum}
	r.Value.LeaseTTLMs = uint64(s.cfg.LeaseTTL.Milliseconds()) // what a lease would be
}
