package master

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// task is a piece of work for the client that owns the source of a copy or move. It moves the bytes; the master only
// remembers who was asked, and how it ended.
type task struct {
	id      wire.UUID
	kind    wire.TaskType
	payload string
	client  wire.UUID
	status  wire.TaskStatus
	message string
	purpose purpose // of a copy that the master itself wants
	created catalog.Time
	updated catalog.Time
}

func (t *task) over() bool {
	return t.status == wire.TaskStatusFailed || t.status == wire.TaskStatusSuccess
}

// taskBook keeps the tasks. A client that is gone never reports; its tasks run out. Tasks do not outlive this process:
// whoever asks for one after a change of leader hears that there is none, and asks anew. The lock is a leaf.
type taskBook struct {
	maxPending, maxProcessing, maxFinished int
	pendingMs, processingMs                int64 // 0 is for ever
	retries                                uint32

	added func(client wire.UUID) // called after a task was made; nil tells nobody

	mu         sync.Mutex
	byID       map[wire.UUID]*task
	pending    map[wire.UUID][]*task // by client, oldest first
	waiting    int                   // in pending
	processing int
	finished   []*task          // oldest first
	own        map[string]*task // copies that the master itself wants, by key
}

func newTaskBook(c *Config) *taskBook {
	return &taskBook{
		maxPending: c.MaxPendingTasks, maxProcessing: c.MaxProcessingTasks, maxFinished: c.MaxFinishedTasks,
		pendingMs: c.PendingTaskTimeout.Milliseconds(), processingMs: c.ProcessingTaskTimeout.Milliseconds(), retries: uint32(c.MaxRetryAttempts),
		byID: map[wire.UUID]*task{}, pending: map[wire.UUID][]*task{}, own: map[string]*task{},
	}
}

// newTaskID draws an id that is none of those with a meaning.
func newTaskID() wire.UUID { return wire.UUID{Hi: rand.Uint64() | 1<<63, Lo: rand.Uint64()} }

// add makes a task; false when there are too many.
func (b *taskBook) add(now catalog.Time, kind wire.TaskType, client wire.UUID, payload string) (wire.UUID, bool) {
	return b.addOwn(now, kind, client, payload, purpose{})
}

// addOwn is add for what the master itself wants.
func (b *taskBook) addOwn(now catalog.Time, kind wire.TaskType, client wire.UUID, payload string, why purpose) (wire.UUID, bool) {
	id, ok := b.enter(now, kind, client, payload, why)
	if ok && b.added != nil {
		b.added(client)
	}
	return id, ok
}

func (b *taskBook) enter(now catalog.Time, kind wire.TaskType, client wire.UUID, payload string, why purpose) (wire.UUID, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting >= b.maxPending {
		return wire.UUID{}, false
	}
	t := &task{id: newTaskID(), kind: kind, payload: payload, client: client, purpose: why, created: now, updated: now}
	b.byID[t.id] = t
	b.pending[client] = append(b.pending[client], t)
	b.waiting++
	if why.key != "" {
		b.own[why.key] = t
	}
	return t.id, true
}

// fetch hands up to most tasks to a client, as long as not too many are being worked on.
func (b *taskBook) fetch(now catalog.Time, client wire.UUID, most uint64) (out []wire.TaskAssignment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.pending[client]
	n := int(min(most, uint64(len(list)), uint64(max(0, b.maxProcessing-b.processing))))
	for _, t := range list[:n] {
		t.status, t.updated = wire.TaskStatusProcessing, now
		out = append(out, wire.TaskAssignment{
			ID: t.id, Type: t.kind, Payload: t.payload, CreatedAtMsEpoch: int64(t.created), MaxRetryAttempts: b.retries,
		})
	}
	b.processing += n
	b.leave(client, n)
	return out
}

// leave takes the first n tasks of a client from the pending ones.
func (b *taskBook) leave(client wire.UUID, n int) {
	b.waiting -= n
	if b.pending[client] = slices.Delete(b.pending[client], 0, n); len(b.pending[client]) == 0 {
		delete(b.pending, client)
	}
}

// withdraw takes a task from the pending ones.
func (b *taskBook) withdraw(t *task) {
	b.waiting--
	if b.pending[t.client] = slices.DeleteFunc(b.pending[t.client], func(p *task) bool { return p == t }); len(b.pending[t.client]) == 0 {
		delete(b.pending, t.client)
	}
}

// payloadOf gives what a client was asked to do, while it has not said how that ended.
func (b *taskBook) payloadOf(client, id wire.UUID) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.byID[id]; t != nil && t.client == client {
		return t.payload
	}
	return ""
}

// finish takes a client's word for how a task ended.
func (b *taskBook) finish(now catalog.Time, client wire.UUID, q *wire.TaskCompleteRequest) wire.ErrorCode {
	if q.Status != wire.TaskStatusFailed && q.Status != wire.TaskStatusSuccess {
		return wire.ErrInvalidParams
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.byID[q.ID]
	switch {
	case t == nil:
		return wire.ErrTaskNotFound
	case t.client != client:
		return wire.ErrIllegalClient
	case t.over():
		return 0
	case t.status == wire.TaskStatusPending: // it was not handed out, and yet the client knows of it
		b.withdraw(t)
	default:
		b.processing--
	}
	b.end(now, t, q.Status, q.Message)
	return 0
}

func (b *taskBook) end(now catalog.Time, t *task, status wire.TaskStatus, message string) {
	t.status, t.message, t.updated, t.payload = status, shortened(message), now, ""
	b.disown(t)
	b.finished = append(b.finished, t)
	for len(b.finished) > b.maxFinished {
		delete(b.byID, b.finished[0].id)
		b.finished[0] = nil
		b.finished = b.finished[1:]
	}
}

// abandon ends what a client was working on, for it is not any more.
func (b *taskBook) abandon(now catalog.Time, client wire.UUID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.processing == 0 {
		return
	}
	for _, t := range b.byID {
		if t.client == client && t.status == wire.TaskStatusProcessing {
			b.processing--
			b.end(now, t, wire.TaskStatusFailed, "the client was started again")
		}
	}
}

// query tells of a task.
func (b *taskBook) query(id wire.UUID) (r wire.QueryTaskResponse, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.byID[id]
	if t == nil {
		return r, false
	}
	return wire.QueryTaskResponse{
		ID: t.id, Type: t.kind, Status: t.status, CreatedAtMsEpoch: int64(t.created), LastUpdatedAtMsEpoch: int64(t.updated),
		AssignedClient: t.client, Message: t.message,
	}, true
}

// expire ends the tasks that waited, or were worked on, for too long.
func (b *taskBook) expire(now catalog.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pendingMs > 0 && b.waiting > 0 {
		for client, list := range b.pending {
			n := 0
			for n < len(list) && int64(now-list[n].created) >= b.pendingMs {
				n++
			}
			late := slices.Clone(list[:n])
			b.leave(client, n)
			for _, t := range late {
				b.end(now, t, wire.TaskStatusFailed, "pending timeout")
			}
		}
	}
	if b.processingMs > 0 && b.processing > 0 {
		for _, t := range b.byID {
			if t.status == wire.TaskStatusProcessing && int64(now-t.updated) >= b.processingMs {
				b.processing--
				b.end(now, t, wire.TaskStatusFailed, "processing timeout")
			}
		}
	}
}

// checkTasks refuses settings of tasks and copies on demand that mean nothing.
func (c *Config) checkTasks() error {
	for _, f := range []struct {
		flag  string
		value int
	}{
		{"max_total_pending_tasks", c.MaxPendingTasks},
		{"max_total_processing_tasks", c.MaxProcessingTasks},
		{"max_total_finished_tasks", c.MaxFinishedTasks},
		{"max_retry_attempts", c.MaxRetryAttempts},
	} {
		if f.value < 0 || f.value > limits.TasksMax {
			return fmt.Errorf("--%s=%d: must be from 0 to %d", f.flag, f.value, limits.TasksMax)
		}
	}
	for _, f := range []struct {
		flag  string
		value time.Duration
	}{
		{"pending_task_timeout_sec", c.PendingTaskTimeout},
		{"processing_task_timeout_sec", c.ProcessingTaskTimeout},
		{"dynamic_replication_heat_window_seconds", c.HeatWindow},
	} {
		if f.value < 0 {
			return fmt.Errorf("--%s=%d: must be at least 0", f.flag, int64(f.value/time.Second))
		}
	}
	switch {
	case c.DynamicMode != dynamicOff && c.DynamicMode != dynamicObserve && c.DynamicMode != dynamicEnforce:
		return fmt.Errorf("--dynamic_replication_mode=%s: must be off, observe or enforce", c.DynamicMode)
	case !(c.AdmissionQPS > 0):
		return fmt.Errorf("--dynamic_replication_admission_qps_threshold=%v: must be more than 0", c.AdmissionQPS)
	}
	return errors.Join(c.checkHealing(), c.checkIntegrity())
}
