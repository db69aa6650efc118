package master

import (
	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// stepDrains brings every job on: it hears how moves ended, looks what is left, and asks for further moves.
func (s *Service) stepDrains() {
	s.drains.mu.Lock()
	defer s.drains.mu.Unlock()
	for _, j := range s.drains.list {
		if !j.over() {
			if j.leaving != (wire.UUID{}) {
				clear(j.tries) // the segment goes in any case: what failed is tried again as long as there is time
			}
			s.stepJob(j)
		}
	}
}

// movedOn brings the job that a task belongs to on at once: who did the task asks for the next.
func (s *Service) movedOn(task wire.UUID) {
	s.drains.mu.Lock()
	defer s.drains.mu.Unlock()
	for _, j := range s.drains.list {
		if j.over() {
			continue
		}
		for _, m := range j.active {
			if m.task == task {
				s.stepJob(j)
				return
			}
		}
	}
}

func (s *Service) stepJob(j *drainJob) {
	s.hearMoves(j)
	now := s.clock.Now()
	if j.view.State == jobCreated {
		j.view.State, j.view.Updated, j.view.Message = jobRunning, now, "Drain job running"
	}
	if j.leaving != (wire.UUID{}) {
		s.stepLeaving(now, j)
		return
	}
	gone, left := 0, false
	for _, name := range j.plan.Segments {
		named := s.cat.AllSegmentsNamed(name)
		if len(named) == 0 {
			gone++
			continue
		}
		if s.emptied(now, j, name, named) {
			continue
		}
		if s.planMoves(now, j, name) {
			left = true
		}
	}
	j.view.Blocked = 0
	for _, n := range j.blocked {
		j.view.Blocked += n
	}
	switch {
	case len(j.active) > 0 || left:
	case gone == len(j.plan.Segments):
		s.endJob(j, jobFailed, "the segments are not there any more")
	case gone+len(j.done) == len(j.plan.Segments):
		s.endJob(j, jobSucceeded, "Drain job finished successfully")
	default:
		s.endJob(j, jobFailed, "objects could not be moved")
	}
}

// hearMoves takes up how the moves of a job ended.
func (s *Service) hearMoves(j *drainJob) {
	hear(s.tasks, j.active, func(u drainUnit, m errand, done bool) {
		if done {
			j.view.Succeeded++
			j.view.MigratedBytes += m.size
			delete(j.tries, u)
		} else if j.tries[u]++; j.tries[u] == limits.DrainTries {
			j.view.Failed++
		}
		j.view.Updated = s.clock.Now()
	})
}

// emptied tells whether nothing is left on the segments of a name, and says so in their state. Whoever got an address there
// has the time of his lease first.
func (s *Service) emptied(now catalog.Time, j *drainJob, name string, named []catalog.SegmentStatus) bool {
	for i := range named {
		if named[i].ObjectCount > 0 || named[i].Reading > 0 {
			return false
		}
	}
	delete(j.blocked, name)
	if !j.done[name] && s.cat.SetSegmentState(now, name, catalog.SegmentDrained, "", catalog.SegmentDraining, catalog.SegmentDrained) == nil {
		j.done[name] = true
		j.view.Updated = now
	}
	return j.done[name]
}

// planMoves asks for moves off a segment. It tells whether there is anything left that may be moved some time.
func (s *Service) planMoves(now catalog.Time, j *drainJob, name string) (left bool) {
	room := j.plan.Concurrency - len(j.active)
	if room <= 0 {
		return true
	}
	step := s.cat.DrainStep(now, name, room+len(j.active)+len(j.tries), j.leaving != (wire.UUID{}))
	j.walked[name] += step.Blocked
	hopeless := 0
	for _, key := range step.Keys {
		u := drainUnit{key, name}
		switch _, moving := j.active[u]; {
		case moving:
		case j.tries[u] >= limits.DrainTries:
			hopeless++
		case room <= 0:
		case s.askToMove(j, u):
			room--
		default:
			j.walked[name]++
		}
	}
	if step.End {
		j.blocked[name], j.walked[name] = j.walked[name], 0
	} else {
		j.blocked[name] = max(j.blocked[name], j.walked[name])
	}
	return !step.Whole || hopeless < len(step.Keys) || step.Blocked > 0 || step.Left == 0
}

// askToMove asks the owner of a segment to move an object; false when no segment can take it, or too much is asked for.
func (s *Service) askToMove(j *drainJob, u drainUnit) bool {
	o, replicas, err := s.cat.Peek(u.key, nil)
	if err != nil {
		return false
	}
	at := -1
	replicas = inMemory(replicas)
	for i := range replicas {
		if replicas[i].Segment.Name == u.segment {
			at = i
		}
	}
	if at < 0 {
		return false // its client does not answer
	}
	target := s.emptiest(j.plan.Targets, o.Size, replicas)
	if target == "" && j.leaving != (wire.UUID{}) {
		target = s.another(replicas, u.segment)
	}
	if target == "" {
		return false
	}
	tenant, key := s.plainKey(u.key)
	id, code := s.askForMove(tenant, key, replicas[at].Segment, target)
	if code != 0 {
		return false
	}
	j.active[u] = errand{task: id, size: o.Size}
	return true
}

// emptiest chooses the segment for an object that is moved: one of the given, or of all, that has no copy yet and room for
// one, and is used least.
func (s *Service) emptiest(among []string, size uint64, replicas []catalog.Replica) (name string) {
	best := 2.0
	allowed := map[string]bool{}
	for _, a := range among {
		allowed[a] = true
	}
	for i := range replicas {
		allowed[replicas[i].Segment.Name] = false
	}
	for _, st := range s.cat.Segments() {
		ok, said := allowed[st.Name]
		if said && !ok || !said && len(among) > 0 || !takes(&st) || st.LargestFree < size {
			continue
		}
		if use := float64(st.Used) / float64(st.Size); use < best {
			name, best = st.Name, use
		}
	}
	return name
}
