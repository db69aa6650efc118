package master

import (
	"encoding/json"
	"math/rand/v2"
	"slices"

	"mooncake/catalog"
	"mooncake/wire"
)

// The probe task asks a client which release it is: a client of 0.3.13 and later answers a copy task that carries
// lease and epoch with DynamicReplicaCopyStart, one of 0.3.12 ignores those fields and answers with CopyStart. The key
// belongs to nobody, so either call fails with OBJECT_NOT_FOUND and the client reports the task as failed.

// probeKey is the key of the probe task: no client makes keys that begin with this byte.
const probeKey = "\x01mooncake-release-probe"

// probeTask is the id of every probe task; MarkTaskToComplete tells the clients apart by their own id.
var probeTask = wire.UUID{Hi: 0x6d6f6f6e70726f62, Lo: 1}

// copyPayload is the JSON text of a copy task.
type copyPayload struct {
	TenantID  string   `json:"tenant_id"`
	Key       string   `json:"key"`
	Source    string   `json:"source"`
	Targets   []string `json:"targets"`
	LeaseHigh uint64   `json:"dynamic_replication_lease_id_high"`
	LeaseLow  uint64   `json:"dynamic_replication_lease_id_low"`
	Epoch     uint64   `json:"dynamic_replication_version_epoch"`
}

// movePayload is the JSON text of a move task.
type movePayload struct {
	TenantID string `json:"tenant_id"`
	Key      string `json:"key"`
	Source   string `json:"source"`
	Target   string `json:"target"`
}

func probeAssignment() (wire.TaskAssignment, error) {
	text, err := json.Marshal(copyPayload{TenantID: defaultTenant, Key: probeKey, Targets: []string{}, LeaseHigh: 1, LeaseLow: 1, Epoch: 1})
	return wire.TaskAssignment{ID: probeTask, Type: wire.TaskTypeReplicaCopy, Payload: string(text)}, err
}

func (s *Service) registerTasks() error {
	probe, err := probeAssignment()
	if err != nil {
		return err
	}
	register(s, &wire.FetchTasks, func(p *peerConn, q *wire.FetchTasksRequest, r *wire.FetchTasksReply) {
		most := q.BatchSize
		if s.families.wantsProbe(p, q.ClientID) {
			r.Value = []wire.TaskAssignment{probe}
			most = max(most, 1) - 1
		}
		r.Value = append(r.Value, s.tasks.fetch(s.clock.Now(), q.ClientID, most)...)
		s.count(wire.FetchTasks.ID, false)
	})
	register(s, &wire.MarkTaskToComplete, func(p *peerConn, q *wire.MarkTaskToCompleteRequest, r *wire.MarkTaskToCompleteReply) {
		s.families.bind(p, q.ClientID)
		if q.Task.ID == probeTask {
			s.families.probeDone(q.ClientID)
		} else {
			payload := s.tasks.payloadOf(q.ClientID, q.Task.ID)
			if r.Err = s.tasks.finish(s.clock.Now(), q.ClientID, &q.Task); r.Err == 0 {
				if q.Task.Status == wire.TaskStatusFailed {
					s.failedAt(payload)
				}
				s.movedOn(q.Task.ID)
			}
		}
		s.count(wire.MarkTaskToComplete.ID, r.Err != 0)
	})
	register(s, &wire.CreateCopyTask, func(_ *peerConn, q *wire.CreateCopyTaskRequest, r *wire.CreateCopyTaskReply) {
		r.Value, r.Err = s.createCopy(q.TenantID, q.Key, q.Targets)
		s.count(wire.CreateCopyTask.ID, r.Err != 0)
	})
	register(s, &wire.CreateMoveTask, func(_ *peerConn, q *wire.CreateMoveTaskRequest, r *wire.CreateMoveTaskReply) {
		r.Value, r.Err = s.createMove(q.TenantID, q.Key, q.Source, q.Target)
		s.count(wire.CreateMoveTask.ID, r.Err != 0)
	})
	register(s, &wire.QueryTask, func(_ *peerConn, q *wire.QueryTaskRequest, r *wire.QueryTaskReply) {
		var ok bool
		if r.Value, ok = s.tasks.query(q.TaskID); !ok {
			r.Value, ok = s.leavingTask(q.TaskID)
		}
		if !ok {
			r.Err = wire.ErrTaskNotFound
		}
		s.count(wire.QueryTask.ID, r.Err != 0)
	})
	s.registerCopies()
	return nil
}

// createCopy asks the owner of one of an object's copies to make more.
func (s *Service) createCopy(tenant, key string, targets []string) (wire.UUID, wire.ErrorCode) {
	if len(targets) == 0 {
		return wire.UUID{}, wire.ErrInvalidParams
	}
	replicas, code := s.copiesOf(tenant, key)
	for _, target := range targets {
		if code == 0 {
			code = s.canTake(target)
		}
	}
	if code != 0 {
		return wire.UUID{}, code
	}
	if len(replicas) == 0 {
		return wire.UUID{}, wire.ErrInternalError
	}
	return s.askForCopy(tenant, key, replicas[rand.IntN(len(replicas))].Segment, targets, dynamicLease{}, purpose{})
}

func (s *Service) askForCopy(tenant, key string, source *catalog.SegmentInfo, targets []string, l dynamicLease, why purpose) (wire.UUID, wire.ErrorCode) {
	text, err := json.Marshal(copyPayload{
		TenantID: s.payloadTenant(tenant), Key: key, Source: source.Name, Targets: targets,
		LeaseHigh: l.id.Hi, LeaseLow: l.id.Lo, Epoch: l.epoch,
	})
	if err != nil {
		return wire.UUID{}, wire.ErrInternalError
	}
	return s.ask(wire.TaskTypeReplicaCopy, source.Client, string(text), why)
}

// createMove asks the owner of the source to move an object.
func (s *Service) createMove(tenant, key, source, target string) (wire.UUID, wire.ErrorCode) {
	replicas, code := s.copiesOf(tenant, key)
	switch {
	case code != 0:
		return wire.UUID{}, code
	case source == target:
		return wire.UUID{}, wire.ErrInvalidParams
	}
	if code := s.canTake(target); code != 0 {
		return wire.UUID{}, code
	}
	for i := range replicas {
		if replicas[i].Segment.Name == source {
			return s.askForMove(tenant, key, replicas[i].Segment, target)
		}
	}
	return wire.UUID{}, wire.ErrInvalidParams
}

func (s *Service) askForMove(tenant, key string, source *catalog.SegmentInfo, target string) (wire.UUID, wire.ErrorCode) {
	text, err := json.Marshal(movePayload{TenantID: s.payloadTenant(tenant), Key: key, Source: source.Name, Target: target})
	if err != nil {
		return wire.UUID{}, wire.ErrInternalError
	}
	return s.ask(wire.TaskTypeReplicaMove, source.Client, string(text), purpose{})
}

func (s *Service) ask(kind wire.TaskType, client catalog.UUID, payload string, why purpose) (wire.UUID, wire.ErrorCode) {
	id, ok := s.tasks.addOwn(s.clock.Now(), kind, wireID(client), payload, why)
	if !ok {
		return wire.UUID{}, wire.ErrTaskPendingLimitExceeded
	}
	return id, 0
}

// payloadTenant is the tenant as a task names it.
func (s *Service) payloadTenant(tenant string) string {
	if tenant == "" || !s.cfg.MultiTenants {
		return defaultTenant
	}
	return tenant
}

// copiesOf lists the copies of an object in memory that can be read, without a lease.
func (s *Service) copiesOf(tenant, key string) ([]catalog.Replica, wire.ErrorCode) {
	kept, code := s.keyOf(tenant, key)
	if code != 0 {
		return nil, code
	}
	_, replicas, err := s.cat.Peek(kept, nil)
	if err == catalog.ErrNotReady {
		err = catalog.ErrUnavailableStatus
	}
	return inMemory(replicas), codeOf(err)
}

// inMemory leaves out the copies that lie on disk.
func inMemory(replicas []catalog.Replica) []catalog.Replica {
	return slices.DeleteFunc(replicas, func(r catalog.Replica) bool { return r.Segment == nil })
}

// canTake tells why the segments of a name cannot be the target of a task.
func (s *Service) canTake(name string) wire.ErrorCode {
	named := s.cat.SegmentsNamed(name)
	if len(named) == 0 {
		return wire.ErrInvalidParams
	}
	for i := range named {
		if takes(&named[i]) {
			return 0
		}
	}
	return wire.ErrUnavailableInCurrentStatus
}

// takes tells whether a segment takes copies.
func takes(st *catalog.SegmentStatus) bool {
	return st.Status == catalog.SegmentOK && st.Stage <= catalog.StageSuspect
}

// registerSession binds the calls a client makes to find out whom it talks to.
func (s *Service) registerSession() {
	register(s, &wire.ServiceReady, func(_ *peerConn, _ *wire.ServiceReadyRequest, r *wire.ServiceReadyReply) {
		r.Value = storeVersion
	})
	register(s, &wire.GetStorageConfig, func(_ *peerConn, _ *wire.GetStorageConfigRequest, r *wire.GetStorageConfigReply) {
		r.Value = wire.GetStorageConfigResponse{Fsdir: s.cfg.fsDir(), EnableDiskEviction: s.cfg.DiskEviction, QuotaBytes: s.cfg.DiskQuota}
	})
	register(s, &wire.GetFsdir, func(_ *peerConn, _ *wire.GetFsdirRequest, r *wire.GetFsdirReply) {
		r.Value = s.cfg.fsDir()
	})
}

// storeVersion is what all three releases answer and insist on; it says nothing about the release.
const storeVersion = "2.0.0"
