package segment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/limits"
	"mooncake/wire"
)

// fetchTasks asks the master for work at every interval and hands it to the workers. No more is fetched than fits the
// queue, so the send below never waits.
func (d *Daemon) fetchTasks(ctx context.Context) {
	tick := time.NewTicker(d.cfg.FetchEvery)
	defer tick.Stop()
	for {
		if d.health.isMounted() {
			d.fetchOnce(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-d.tasksWait:
		}
	}
}

// fetchOnce takes batches until one is not full. Errors are left to the heartbeat, which tells of them.
func (d *Daemon) fetchOnce(ctx context.Context) {
	for {
		room := min(cap(d.taskQueue)-len(d.taskQueue), limits.SegmentFetchBatch)
		if room == 0 {
			return
		}
		got, err := call(ctx, d.tasks, &wire.FetchTasks, &wire.FetchTasksRequest{ClientID: d.clientID, BatchSize: uint64(room)})
		if err != nil {
			d.log.Debug("tasks not fetched", zap.Error(err))
			return
		}
		for i := range got {
			if i == room {
				d.log.Warn("master sent more tasks than asked for", zap.Int("asked", room), zap.Int("sent", len(got)))
				break
			}
			d.taskQueue <- got[i]
		}
		if len(got) < room {
			return
		}
	}
}

// workTasks runs one task after the other.
func (d *Daemon) workTasks(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-d.taskQueue:
			d.runTask(ctx, &t)
			d.fetchSoon() // the master may have had the next one wait for this
		}
	}
}

// runTask executes one task and reports how it ended.
func (d *Daemon) runTask(ctx context.Context, t *wire.TaskAssignment) {
	ctx, cancel := context.WithTimeout(ctx, limits.SegmentTaskMs*time.Millisecond)
	defer cancel()
	began := time.Now()
	bytes, err := d.executeTask(ctx, t)
	report := wire.TaskCompleteRequest{ID: t.ID, Status: wire.TaskStatusSuccess}
	if err != nil {
		report.Status, report.Message = wire.TaskStatusFailed, err.Error()
		d.count.tasksFailed.Add(1)
		code, no := refused(err)
		if no && code == wire.ErrObjectNotFound {
			// Ordinary: the object went away, or the master only wanted to know how this client answers.
			d.log.Debug("task has no object", zap.String("task", t.ID.String()), zap.Error(err))
		} else {
			d.log.Warn("task failed", zap.String("task", t.ID.String()), zap.String("type", t.Type.String()), zap.Error(err))
		}
	} else {
		d.count.tasksDone.Add(1)
		d.count.taskBytes.Add(bytes)
		d.log.Info("task done", zap.String("task", t.ID.String()), zap.String("type", t.Type.String()),
			zap.Uint64("bytes", bytes), zap.Duration("took", time.Since(began)))
	}
	d.reportTask(ctx, report)
}

// reportTask tells the master, with a few tries: a task that is never reported blocks the object until the master gives
// up on it.
func (d *Daemon) reportTask(ctx context.Context, report wire.TaskCompleteRequest) {
	ctx, cancel := afterCancel(ctx)
	defer cancel()
	for range limits.SegmentReportTries {
		_, err := call(ctx, d.tasks, &wire.MarkTaskToComplete, &wire.MarkTaskToCompleteRequest{ClientID: d.clientID, Task: report})
		if err == nil {
			return
		}
		if _, no := refused(err); no || !sleep(ctx, limits.SegmentBackoffMinMs*time.Millisecond) {
			d.log.Warn("task result not accepted", zap.String("task", report.ID.String()), zap.Error(err))
			return
		}
	}
}

// afterCancel is a context for what must still be said when ctx is over: it lives a while longer than ctx.
func afterCancel(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), limits.SegmentLeaveMs*time.Millisecond)
}

// executeTask parses a task and runs it as a transfer.
func (d *Daemon) executeTask(ctx context.Context, t *wire.TaskAssignment) (bytes uint64, err error) {
	switch t.Type {
	case wire.TaskTypeReplicaCopy:
		p, err := parseCopy(t.Payload)
		if err != nil {
			return 0, err
		}
		if p.lease() != (wire.UUID{}) {
			return d.dynamicCopy(p).run(ctx, d)
		}
		return d.plainCopy(p).run(ctx, d)
	case wire.TaskTypeReplicaMove:
		p, err := parseMove(t.Payload)
		if err != nil {
			return 0, err
		}
		return d.plainMove(p).run(ctx, d)
	}
	return 0, fmt.Errorf("unknown task type %d", t.Type)
}

// transfer is a copy or move between start and end at the master: three calls that differ between the kinds, around the
// same pushing of bytes.
type transfer struct {
	tenant, key string

	start  func(ctx context.Context) (source wire.ReplicaDescriptor, targets []wire.ReplicaDescriptor, err error)
	end    func(ctx context.Context) error
	revoke func(ctx context.Context) error
}

func (t *transfer) run(ctx context.Context, d *Daemon) (uint64, error) {
	source, targets, err := t.start(ctx)
	if err != nil {
		return 0, err
	}
	bytes, err := d.push(ctx, &source, targets)
	if err == nil {
		err = d.verify(ctx, t, &source, targets)
	}
	if err == nil {
		if err = t.end(ctx); err == nil {
			return bytes, nil
		}
		if _, no := refused(err); no {
			return 0, err // the master has decided; there is nothing left to take back
		}
	}
	ctx, cancel := afterCancel(ctx)
	defer cancel()
	if rerr := t.revoke(ctx); rerr != nil {
		err = errors.Join(err, rerr)
	}
	return 0, err
}
