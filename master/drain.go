package master

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// States of drain jobs, numbered as on the wire.
const (
	jobCreated   = 0
	jobRunning   = 2
	jobSucceeded = 3
	jobFailed    = 4
	jobCanceled  = 5
)

// jobStateNames are the words for the states.
var jobStateNames = [...]string{"CREATED", "PLANNING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED"}

// DrainJob is what is known of a drain job.
type DrainJob struct {
	ID                                 wire.UUID
	State                              int
	Created, Updated                   catalog.Time
	Segments                           []string
	Succeeded, Failed, Blocked, Active uint64
	MigratedBytes                      uint64
	Message                            string
}

// drainPlan is the part of a job that outlives the leader: it lies with the state of the job's segments.
type drainPlan struct {
	ID          wire.UUID    `json:"id"`
	Segments    []string     `json:"segments"`
	Targets     []string     `json:"targets,omitempty"`
	Concurrency int          `json:"concurrency"`
	Created     catalog.Time `json:"created"`
}

// drainJob moves everything off some segments. All of it is under drains.mu.
type drainJob struct {
	plan    drainPlan
	view    DrainJob
	active  map[drainUnit]errand
	tries   map[drainUnit]int // failed moves
	blocked map[string]uint64 // by segment, of the walk under way and of the last whole one
	walked  map[string]uint64
	done    map[string]bool // segments on which nothing is left

	leaving wire.UUID // the segment whose daemon leaves and asked for this; else zero
	left    uint64    // copies on it when it was last looked at
}

// drainUnit is one object on one segment.
type drainUnit struct{ key, segment string }

// drains are the jobs. The lock is held over calls into the catalog and the book of tasks.
type drains struct {
	mu   sync.Mutex
	jobs map[wire.UUID]*drainJob
	list []*drainJob // oldest first
}

func newJob(plan drainPlan) *drainJob {
	return &drainJob{
		plan:   plan,
		view:   DrainJob{ID: plan.ID, Created: plan.Created, Updated: plan.Created, Segments: plan.Segments, Message: "Drain job created"},
		active: map[drainUnit]errand{}, tries: map[drainUnit]int{}, blocked: map[string]uint64{}, walked: map[string]uint64{}, done: map[string]bool{},
	}
}

func (j *drainJob) over() bool { return j.view.State >= jobSucceeded }

func (d *drains) add(j *drainJob) {
	if d.jobs == nil {
		d.jobs = map[wire.UUID]*drainJob{}
	}
	d.jobs[j.plan.ID] = j
	d.list = append(d.list, j)
	for i := 0; i < len(d.list) && len(d.list) > limits.DrainJobs; i++ {
		if d.list[i].over() {
			delete(d.jobs, d.list[i].plan.ID)
			d.list = slices.Delete(d.list, i, i+1)
			i--
		}
	}
}

// CreateDrain begins to move everything off segments, to the given targets or to all others. From now on nothing new goes
// to them.
func (s *Service) CreateDrain(segments, targets []string, concurrency int) (id wire.UUID, err error) {
	if id, err = s.createDrain(segments, targets, concurrency); err == nil {
		err = s.history.wait()
	}
	return id, err
}

func (s *Service) createDrain(segments, targets []string, concurrency int) (wire.UUID, error) {
	if err := checkDrain(segments, targets, concurrency); err != nil {
		return wire.UUID{}, err
	}
	s.drains.mu.Lock()
	defer s.drains.mu.Unlock()
	for _, name := range segments {
		if err := stateIs(s.cat.SegmentsNamed(name), catalog.SegmentOK); err != nil {
			return wire.UUID{}, err
		}
	}
	for _, name := range targets {
		if err := stateIs(s.cat.SegmentsNamed(name), catalog.SegmentOK); err != nil {
			return wire.UUID{}, err
		}
	}
	now := s.clock.Now()
	plan := drainPlan{newTaskID(), segments, targets, concurrency, now}
	note, err := json.Marshal(plan)
	if err != nil {
		return wire.UUID{}, catalog.ErrInternal
	}
	for i, name := range segments {
		if err := s.cat.SetSegmentState(now, name, catalog.SegmentDraining, string(note), catalog.SegmentOK); err != nil {
			for _, done := range segments[:i] {
				_ = s.cat.SetSegmentState(now, done, catalog.SegmentOK, "", catalog.SegmentDraining) // it may be gone by now
			}
			return wire.UUID{}, err
		}
	}
	s.drains.add(newJob(plan))
	s.log.Info("drain job created", zap.String("job", plan.ID.String()), zap.Strings("segments", segments), zap.Strings("targets", targets))
	return plan.ID, nil
}

func checkDrain(segments, targets []string, concurrency int) error {
	if len(segments) == 0 || len(segments) > limits.DrainSegments || len(targets) > limits.DrainSegments ||
		concurrency < 1 || concurrency > limits.DrainConcurrencyMax {
		return catalog.ErrInvalidParams
	}
	for i, name := range segments {
		if name == "" || slices.Contains(segments[:i], name) || slices.Contains(targets, name) {
			return catalog.ErrInvalidParams
		}
	}
	return nil
}

// stateIs tells why segments of one name are not all in a state, or not there.
func stateIs(named []catalog.SegmentStatus, state uint8) error {
	if len(named) == 0 {
		return catalog.ErrSegmentNotFound
	}
	for i := range named {
		if named[i].Status != state {
			return catalog.ErrUnavailableStatus
		}
	}
	return nil
}

// Drain tells of a job.
func (s *Service) Drain(id wire.UUID) (DrainJob, bool) {
	s.drains.mu.Lock()
	defer s.drains.mu.Unlock()
	j := s.drains.jobs[id]
	if j == nil {
		return DrainJob{}, false
	}
	v := j.view
	v.Active = uint64(len(j.active))
	return v, true
}

// errNoJob says that there is no job of an id.
var errNoJob = errors.New("no such job")

// CancelDrain ends a job that moves nothing at the moment; its segments take new objects again.
func (s *Service) CancelDrain(id wire.UUID) error {
	if err := s.cancelDrain(id); err != nil {
		return err
	}
	return s.history.wait()
}

func (s *Service) cancelDrain(id wire.UUID) error {
	s.drains.mu.Lock()
	defer s.drains.mu.Unlock()
	j := s.drains.jobs[id]
	switch {
	case j == nil:
		return errNoJob
	case j.over() || len(j.active) > 0 || j.leaving != (wire.UUID{}):
		return catalog.ErrUnavailableStatus
	}
	s.endJob(j, jobCanceled, "Drain job canceled")
	return nil
}

// endJob ends a job. Unless it succeeded, its segments take new objects again.
func (s *Service) endJob(j *drainJob, state int, message string) {
	now := s.clock.Now()
	if state != jobSucceeded && j.leaving == (wire.UUID{}) {
		for _, name := range j.plan.Segments {
			_ = s.cat.SetSegmentState(now, name, catalog.SegmentOK, "", catalog.SegmentDraining, catalog.SegmentDrained, catalog.SegmentOK) // it may be gone
		}
	}
	j.view.State, j.view.Updated, j.view.Message = state, now, message
	s.log.Info("drain job ended", zap.String("job", j.plan.ID.String()), zap.String("state", jobStateNames[state]), zap.String("message", message),
		zap.Uint64("moved", j.view.Succeeded), zap.Uint64("failed", j.view.Failed), zap.Uint64("bytes", j.view.MigratedBytes))
}

// takeUpDrains goes on with the jobs of the leader before, as far as the states of segments tell of them.
func (s *Service) takeUpDrains() {
	s.drains.mu.Lock()
	defer s.drains.mu.Unlock()
	for _, st := range s.cat.AllSegments() {
		if st.Status != catalog.SegmentDraining {
			continue
		}
		var plan drainPlan
		if err := json.Unmarshal([]byte(st.Note), &plan); err != nil || len(plan.Segments) == 0 || plan.Concurrency < 1 {
			s.log.Warn("a segment is being drained, and the job is not known: it takes new objects again", zap.String("segment", st.Name))
			_ = s.cat.SetSegmentState(s.clock.Now(), st.Name, catalog.SegmentOK, "", catalog.SegmentDraining)
			continue
		}
		if s.drains.jobs[plan.ID] == nil {
			s.drains.add(newJob(plan))
			s.log.Info("drain job taken up", zap.String("job", plan.ID.String()), zap.Strings("segments", plan.Segments))
		}
	}
}
