package master

import (
	"encoding/json"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// A daemon that leaves unmounts its segment with a grace time. Within it everything on the segment is moved elsewhere,
// pinned and leased objects too: without that they would go with the segment. Such a job is no plan that outlives the
// leader: after a change of leader the daemon finds none and asks again.

// evacuate begins to move everything off the segment of a daemon that leaves, unless that is under way.
func (s *Service) evacuate(segment wire.UUID) {
	st, ok := s.cat.SegmentByID(clientID(segment))
	if !ok {
		return
	}
	s.drains.mu.Lock()
	defer s.drains.mu.Unlock()
	if j := s.drains.leaving(segment); j != nil && !j.over() {
		return
	}
	j := newJob(drainPlan{ID: newTaskID(), Segments: []string{st.Name}, Concurrency: limits.DrainLeavingConcurrency, Created: s.clock.Now()})
	j.leaving, j.left = segment, st.ObjectCount
	s.drains.add(j)
	s.log.Info("a daemon leaves: what is on its segment is moved elsewhere", zap.String("job", j.plan.ID.String()), zap.String("segment", st.Name),
		zap.Uint64("objects", st.ObjectCount))
	s.stepJob(j)
}

// stays ends the drain of a daemon that was ended in it and is back: only one that has just started mounts a segment that is
// there. Else the segment would be unmounted at the end of its grace time, with what is on it.
func (s *Service) stays(client, segment wire.UUID) {
	if !wire.IsDaemonClient(client) || !s.cat.StaySegment(s.clock.Now(), clientID(segment), clientID(client)) {
		return
	}
	s.drains.mu.Lock()
	defer s.drains.mu.Unlock()
	if j := s.drains.leaving(segment); j != nil && !j.over() {
		s.endJob(j, jobCanceled, "the daemon is back")
	}
	s.log.Info("a daemon that was leaving is back: its segment stays", zap.String("segment", segment.String()), zap.String("client", client.String()))
}

// leaving finds the latest job of a segment whose daemon leaves.
func (d *drains) leaving(segment wire.UUID) *drainJob {
	for i := len(d.list) - 1; i >= 0; i-- {
		if d.list[i].leaving == segment {
			return d.list[i]
		}
	}
	return nil
}

// stepLeaving asks for further moves. The job ends with the last byte that is read there, or with the segment.
func (s *Service) stepLeaving(now catalog.Time, j *drainJob) {
	name := j.plan.Segments[0]
	named := s.cat.AllSegmentsNamed(name)
	if len(named) == 0 {
		if j.left == 0 {
			s.endJob(j, jobSucceeded, "Drain job finished successfully")
		} else {
			s.endJob(j, jobFailed, "the segment left with objects on it")
		}
		return
	}
	s.planMoves(now, j, name)
	left, reading := uint64(0), uint64(0)
	for i := range named {
		left, reading = left+named[i].ObjectCount, reading+named[i].Reading
	}
	j.left, j.view.Blocked = left, j.blocked[name]
	if left == 0 && reading == 0 && len(j.active) == 0 {
		s.endJob(j, jobSucceeded, "Drain job finished successfully")
	}
}

// another names a segment, not the given one, that has a copy of an object already: moving there gives up this copy only.
func (s *Service) another(replicas []catalog.Replica, than string) string {
	for i := range replicas {
		name := replicas[i].Segment.Name
		if name != than && replicas[i].Status == catalog.ReplicaComplete && s.canTake(name) == 0 {
			return name
		}
	}
	return ""
}

// leavingTask tells a daemon that leaves how far its drain is, as the state of a task of its segment's id.
func (s *Service) leavingTask(segment wire.UUID) (r wire.QueryTaskResponse, ok bool) {
	s.drains.mu.Lock()
	defer s.drains.mu.Unlock()
	j := s.drains.leaving(segment)
	if j == nil {
		return s.drainsForDaemons(segment)
	}
	text, err := json.Marshal(wire.DrainProgress{
		Left: j.left, Moved: j.view.Succeeded, MovedBytes: j.view.MigratedBytes, Blocked: j.view.Blocked, Active: uint64(len(j.active)),
	})
	if err != nil {
		return r, false
	}
	r = wire.QueryTaskResponse{
		ID: segment, Type: wire.TaskTypeReplicaMove, Status: wire.TaskStatusProcessing, CreatedAtMsEpoch: int64(j.view.Created),
		LastUpdatedAtMsEpoch: int64(j.view.Updated), Message: string(text),
	}
	switch j.view.State {
	case jobSucceeded:
		r.Status = wire.TaskStatusSuccess
	case jobFailed, jobCanceled:
		r.Status = wire.TaskStatusFailed
	}
	return r, true
}

// drainsForDaemons answers a daemon that asks with its own id, before it has a region emptied, whether this master moves
// anything at all: a published one knows no such task.
func (s *Service) drainsForDaemons(client wire.UUID) (r wire.QueryTaskResponse, ok bool) {
	var p wire.DrainProgress
	for _, seg := range s.cat.SegmentsOf(clientID(client)) {
		if st, there := s.cat.SegmentByID(seg.ID); there && wire.IsDaemonClient(client) {
			ok, p.Left = true, p.Left+st.ObjectCount
		}
	}
	text, err := json.Marshal(p)
	if !ok || err != nil {
		return r, false
	}
	return wire.QueryTaskResponse{ID: client, Type: wire.TaskTypeReplicaMove, Status: wire.TaskStatusPending, Message: string(text)}, true
}
