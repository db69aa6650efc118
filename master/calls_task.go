package master

import (
	"encoding/json"

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
		if s.families.wantsProbe(p, q.ClientID) {
			r.Value = []wire.TaskAssignment{probe}
		}
		s.calls.Count(wire.FetchTasks.ID.Name(), false)
	})
	register(s, &wire.MarkTaskToComplete, func(p *peerConn, q *wire.MarkTaskToCompleteRequest, r *wire.MarkTaskToCompleteReply) {
		s.families.bind(p, q.ClientID)
		if q.Task.ID == probeTask {
			s.families.probeDone(q.ClientID)
		} else {
			r.Err = wire.ErrTaskNotFound
		}
		s.calls.Count(wire.MarkTaskToComplete.ID.Name(), r.Err != 0)
	})
	register(s, &wire.CopyStart, func(p *peerConn, q *wire.CopyStartRequest, r *wire.CopyStartReply) {
		s.families.bind(p, q.ClientID)
		r.Err = wire.ErrUnavailableInCurrentMode
		if q.Key == probeKey {
			s.families.learn(p, family12) // before the reply is written: this very reply differs between the families
			r.Err = wire.ErrObjectNotFound
		}
		s.calls.Count(wire.CopyStart.ID.Name(), true)
	})
	register(s, &wire.DynamicReplicaCopyStart, func(p *peerConn, q *wire.DynamicReplicaCopyStartRequest, r *wire.DynamicReplicaCopyStartReply) {
		s.families.bind(p, q.ClientID)
		r.Err = wire.ErrUnavailableInCurrentMode
		if q.Key == probeKey {
			r.Err = wire.ErrObjectNotFound
		}
		s.calls.Count(wire.CopyStart.ID.Name(), true)
	})
	return nil
}

// registerSession binds the calls a client makes to find out whom it talks to.
func (s *Service) registerSession() {
	register(s, &wire.ServiceReady, func(_ *peerConn, _ *wire.ServiceReadyRequest, r *wire.ServiceReadyReply) {
		r.Value = storeVersion
	})
	register(s, &wire.GetStorageConfig, func(_ *peerConn, _ *wire.GetStorageConfigRequest, r *wire.GetStorageConfigReply) {
		r.Value = wire.GetStorageConfigResponse{EnableDiskEviction: true}
	})
	register(s, &wire.GetFsdir, func(_ *peerConn, _ *wire.GetFsdirRequest, _ *wire.GetFsdirReply) {})
}

// storeVersion is what all three releases answer and insist on; it says nothing about the release.
const storeVersion = "2.0.0"
