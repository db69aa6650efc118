package master

import (
	"path"

	"github.com/cespare/xxhash/v2"
	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// Copies on disk: files that all share below --root_fs_dir, and what clients keep on their own disks.

// fsDir is the directory of the shared files; "" when there are none.
func (c *Config) fsDir() string {
	if c.RootFSDir == "" {
		return ""
	}
	return path.Join(c.RootFSDir, c.ClusterID)
}

// fileOf is the path of an object's shared file: two directories that its hash chooses, and its key in letters that every file
// system has. A key too long for a name is told apart by its hash. It is the same for ever: nobody writes it down.
func (c *Config) fileOf(key string) string {
	sum := xxhash.Sum64String(key)
	const digits = "0123456789abcdef"
	name := make([]byte, 0, len(key)+8)
	for i := range min(len(key), limits.FileNameBytes) {
		switch b := key[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '-', b == '_', b == '.' && i > 0:
			name = append(name, b)
		default:
			name = append(name, '%', digits[b>>4], digits[b&15])
		}
	}
	if len(key) > limits.FileNameBytes || len(name) > limits.FileNameBytes {
		name = append(name[:min(len(name), limits.FileNameBytes)], '%')
		for shift := 60; shift >= 0; shift -= 4 {
			name = append(name, digits[sum>>shift&15])
		}
	}
	return path.Join(c.fsDir(), string('a'+rune(sum&15)), string('a'+rune(sum>>4&15)), string(name))
}

// diskOut is the wire form of a copy on disk.
func (s *Service) diskOut(key string, r *catalog.Replica) wire.ReplicaDescriptor {
	out := wire.ReplicaDescriptor{ID: r.ID, Status: wire.ReplicaStatus(r.Status)}
	if r.Disk.Owner == (catalog.UUID{}) {
		out.DescriptorVariant = wire.ReplicaVariant{Index: wire.VariantDisk, Disk: &wire.DiskDescriptor{FilePath: s.cfg.fileOf(key), ObjectSize: r.Size}}
		return out
	}
	out.DescriptorVariant = wire.ReplicaVariant{Index: wire.VariantLocalDisk, LocalDisk: &wire.LocalDiskDescriptor{
		ClientID: wireID(r.Disk.Owner), ObjectSize: r.Size, TransportEndpoint: r.Disk.Endpoint,
	}}
	return out
}

func (s *Service) registerDisks() {
	register(s, &wire.MountLocalDiskSegment, func(p *peerConn, q *wire.MountLocalDiskSegmentRequest, r *wire.MountLocalDiskSegmentReply) {
		s.families.bind(p, q.ClientID)
		err := s.cat.MountDisk(s.clock.Now(), clientID(q.ClientID), q.EnableOffloading)
		if r.Err = codeOf(err); err == nil {
			s.log.Info("disk mounted", zap.String("client", q.ClientID.String()), zap.Bool("offloading", q.EnableOffloading))
		}
	})
	register(s, &wire.UnmountLocalDiskSegment, func(p *peerConn, q *wire.UnmountLocalDiskSegmentRequest, r *wire.UnmountLocalDiskSegmentReply) {
		s.families.bind(p, q.ClientID)
		err := s.cat.UnmountDisk(s.clock.Now(), clientID(q.ClientID))
		if r.Err = codeOf(err); err == nil {
			s.log.Info("disk unmounted", zap.String("client", q.ClientID.String()))
		}
	})
	register(s, &wire.OffloadObjectHeartbeat, func(p *peerConn, q *wire.OffloadObjectHeartbeatRequest, r *wire.OffloadObjectHeartbeatReply) {
		s.families.bind(p, q.ClientID)
		tasks, err := s.cat.FetchDiskTasks(s.clock.Now(), clientID(q.ClientID), q.EnableOffloading)
		r.Err = s.diskCode(p, q.ClientID, err)
		for _, t := range tasks {
			tenant, key := s.plainKey(t.Key)
			r.Value = append(r.Value, wire.OffloadTaskItem{TenantID: tenant, Key: key, Size: int64(t.Size)})
		}
	})
	register(s, &wire.ReportSsdCapacity, func(p *peerConn, q *wire.ReportSsdCapacityRequest, r *wire.ReportSsdCapacityReply) {
		s.families.bind(p, q.ClientID)
		r.Err = s.diskCode(p, q.ClientID, s.cat.SetDiskCapacity(clientID(q.ClientID), q.CapacityBytes))
	})
	register(s, &wire.NotifyOffloadSuccess, func(p *peerConn, q *wire.NotifyOffloadSuccessRequest, r *wire.NotifyOffloadSuccessReply) {
		s.families.bind(p, q.ClientID)
		r.Err = s.diskCode(p, q.ClientID, s.reportDisk(q))
	})
	register(s, &wire.PollRemoveAll, func(p *peerConn, q *wire.PollRemoveAllRequest, r *wire.PollRemoveAllReply) {
		s.families.bind(p, q.ClientID)
		wipe, err := s.cat.TakeWipe(clientID(q.ClientID))
		r.Value, r.Err = wipe, codeOf(err)
	})
	s.registerDiskEvictions()
	s.registerPromotions()
}

// diskCode is the answer about a client's disk. Clients of 0.3.14 tell a master that does not know them at all from one that
// only does not know their disk.
func (s *Service) diskCode(p *peerConn, id wire.UUID, err error) wire.ErrorCode {
	if err == catalog.ErrSegmentNotFound && family(p.fam.Load()) == family14 && s.cat.ClientStage(clientID(id)) == catalog.StageGone {
		return wire.ErrUnavailableInCurrentStatus
	}
	return codeOf(err)
}

// reportDisk tells the catalog what a client has on its disk.
func (s *Service) reportDisk(q *wire.NotifyOffloadSuccessRequest) error {
	if len(q.Tasks) != len(q.Metadatas) {
		return catalog.ErrInvalidParams
	}
	reports := make([]catalog.DiskReport, 0, len(q.Tasks))
	for i := range q.Tasks {
		t, m := &q.Tasks[i], &q.Metadatas[i]
		if key, code := s.keyOf(t.TenantID, t.Key); code == 0 {
			reports = append(reports, catalog.DiskReport{Key: key, Size: m.DataSize, Endpoint: m.TransportEndpoint, Tenant: s.tenantOf(t.TenantID)})
		}
	}
	return s.cat.ReportDisk(s.clock.Now(), clientID(q.ClientID), reports)
}

func (s *Service) registerDiskEvictions() {
	register(s, &wire.EvictDiskReplica, func(_ *peerConn, q *wire.EvictDiskReplicaRequest, r *wire.EvictDiskReplicaReply) {
		_, r.Err = s.evictDisk(q.ClientID, q.TenantID, q.Key, q.ReplicaType, 0)
		s.count(wire.EvictDiskReplica.ID, r.Err != 0)
	})
	register(s, &wire.BatchEvictDiskReplica, func(_ *peerConn, q *wire.BatchEvictDiskReplicaRequest, r *wire.BatchEvictDiskReplicaReply) {
		out := make([]wire.Exp[wire.Void, wire.ErrorCode], len(q.Keys))
		failed := false
		for i, key := range q.Keys {
			_, out[i].Err = s.evictDisk(q.ClientID, q.TenantID, key, q.ReplicaType, 0)
			failed = failed || out[i].Err != 0
		}
		*r = out
		s.count(wire.BatchEvictDiskReplica.ID, failed)
	})
	register(s, &wire.EvictDiskReplicaIfCurrent, func(_ *peerConn, q *wire.EvictDiskReplicaIfCurrentRequest, r *wire.EvictDiskReplicaIfCurrentReply) {
		if q.Expected == 0 {
			r.Err = s.knows(q.TenantID, q.Key, q.ReplicaType)
			return
		}
		r.Value, r.Err = s.evictDisk(q.ClientID, q.TenantID, q.Key, q.ReplicaType, q.Expected)
	})
}

// evictDisk takes a copy on disk away, that of an id if one is given. An object without such a copy is fine.
func (s *Service) evictDisk(id wire.UUID, tenant, key string, t wire.ReplicaType, only uint64) (gone bool, code wire.ErrorCode) {
	kept, code := s.keyOf(tenant, key)
	switch {
	case code != 0:
		return false, code
	case t != wire.ReplicaTypeDisk && t != wire.ReplicaTypeLocalDisk:
		return false, wire.ErrInvalidParams
	}
	switch err := s.cat.EvictFromDisk(s.clock.Now(), clientID(id), kept, t == wire.ReplicaTypeDisk, only); err {
	case nil:
		return true, 0
	case catalog.ErrReplicaNotFound:
		return false, 0
	default:
		return false, codeOf(err)
	}
}

// knows checks a question for a copy that no object can have.
func (s *Service) knows(tenant, key string, t wire.ReplicaType) wire.ErrorCode {
	if t != wire.ReplicaTypeDisk && t != wire.ReplicaTypeLocalDisk {
		return wire.ErrInvalidParams
	}
	kept, code := s.keyOf(tenant, key)
	if code != 0 {
		return code
	}
	if _, _, err := s.cat.Peek(kept, nil); err == catalog.ErrObjectNotFound {
		return wire.ErrObjectNotFound
	}
	return 0
}

func (s *Service) registerPromotions() {
	register(s, &wire.PromotionObjectHeartbeat, func(p *peerConn, q *wire.PromotionObjectHeartbeatRequest, r *wire.PromotionObjectHeartbeatReply) {
		s.families.bind(p, q.ClientID)
		tasks, err := s.cat.FetchPromotions(clientID(q.ClientID))
		r.Err = s.diskCode(p, q.ClientID, err)
		for _, t := range tasks {
			tenant, key := s.plainKey(t.Key)
			r.Value = append(r.Value, wire.PromotionTaskItem{TenantID: tenant, Key: key, Size: int64(t.Size)})
		}
	})
	register(s, &wire.PromotionAllocStart, func(p *peerConn, q *wire.PromotionAllocStartRequest, r *wire.PromotionAllocStartReply) {
		s.families.bind(p, q.ClientID)
		key, code := s.keyOf(q.TenantID, q.Key)
		if r.Err = code; code != 0 {
			return
		}
		replica, err := s.cat.StartPromotion(s.clock.Now(), clientID(q.ClientID), key, q.Size, q.PreferredSegments)
		if r.Err = codeOf(err); err == nil {
			r.Value.MemoryDescriptor = s.replicasOut(key, nil, []catalog.Replica{replica})[0]
		}
	})
	register(s, &wire.NotifyPromotionSuccess, func(p *peerConn, q *wire.NotifyPromotionSuccessRequest, r *wire.NotifyPromotionSuccessReply) {
		s.families.bind(p, q.ClientID)
		key, code := s.keyOf(q.TenantID, q.Key)
		if r.Err = code; code == 0 {
			r.Err = codeOf(s.cat.EndPromotion(s.clock.Now(), clientID(q.ClientID), key))
		}
	})
	register(s, &wire.NotifyPromotionFailure, func(p *peerConn, q *wire.NotifyPromotionFailureRequest, r *wire.NotifyPromotionFailureReply) {
		s.families.bind(p, q.ClientID)
		key, code := s.keyOf(q.TenantID, q.Key)
		if r.Err = code; code == 0 {
			s.cat.FailPromotion(s.clock.Now(), clientID(q.ClientID), key)
		}
	})
	register(s, &wire.RegisterPrefetchTask, func(p *peerConn, q *wire.RegisterPrefetchTaskRequest, r *wire.RegisterPrefetchTaskReply) {
		s.families.bind(p, q.ClientID)
		r.Err = s.prefetch(q)
	})
}

// prefetch asks for an object to be brought back from disk.
func (s *Service) prefetch(q *wire.RegisterPrefetchTaskRequest) wire.ErrorCode {
	key, code := s.keyOf(q.TenantID, q.Key)
	switch {
	case code != 0:
		return code
	case s.cat.ClientStage(clientID(q.ClientID)) == catalog.StageGone:
		return wire.ErrUnavailableInCurrentStatus
	}
	switch err := s.cat.Prefetch(key); err {
	case catalog.ErrObjectExists:
		return wire.ErrPromotionAlreadyExists
	case catalog.ErrReplicaNotFound:
		return wire.ErrReplicaIsNotReady
	default:
		return codeOf(err)
	}
}
