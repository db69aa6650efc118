package segment

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/limits"
	"mooncake/wire"
)

// LeftError tells that the daemon left the pool with copies on its segment that nobody else took.
type LeftError struct {
	// Copies counts them; it means nothing unless Known.
	Copies uint64
	// Known is unset when the master did not say: it is a published one, or does not answer.
	Known bool
	// Within is the time there was.
	Within time.Duration
}

// Error says how many copies were left, and why.
func (e *LeftError) Error() string {
	if !e.Known {
		return "left without knowing what remained on the segment: the master does not move objects off it, or does not answer (--drain_timeout)"
	}
	return fmt.Sprintf("%d objects were left on the segment after --drain_timeout=%s: there is no room for them elsewhere, or too little time", e.Copies, e.Within)
}

// drainStatus is how far leaving is. Its lock is a leaf.
type drainStatus struct {
	mu    sync.Mutex
	began time.Time // zero: not begun
	known bool
	at    wire.DrainProgress
}

func (s *drainStatus) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = time.Now()
}

func (s *drainStatus) set(p wire.DrainProgress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.at = true, p
}

func (s *drainStatus) get() (p wire.DrainProgress, began time.Time, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at, s.began, s.known
}

// drain has the master move everything off the segment, and helps: most of the moves are this daemon's own tasks. It ends
// when nothing is left, or with the time for it.
func (d *Daemon) drain(ctx context.Context) error {
	within := d.cfg.DrainTimeout
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	d.drained.begin()
	d.log.Info("leaving: the master is asked to move what is on the segment", zap.String("segment", d.state.Name), zap.Duration("drain_timeout", within))
	deadline := time.Now().Add(within)
	told, asked := time.Time{}, false
	for {
		if !asked {
			if err := d.askToLeave(ctx, time.Until(deadline)); err != nil {
				if _, no := refused(err); no || ctx.Err() != nil {
					d.log.Warn("the master does not drain the segment", zap.Error(err))
					return &LeftError{Within: within}
				}
			} else {
				asked = true
			}
		}
		done, err := d.lookAtDrain(ctx)
		code, no := refused(err)
		switch {
		case done:
			p, _, _ := d.drained.get()
			d.log.Info("nothing is left on the segment", zap.Uint64("moved", p.Moved), zap.Uint64("moved_bytes", p.MovedBytes))
			return nil
		case asked && no && code == wire.ErrTaskNotFound && d.drained.lost():
			d.log.Warn("the master moves nothing off a segment that leaves")
			return &LeftError{Within: within}
		case err != nil:
			asked = false // another master may lead, which knows nothing of it yet
		}
		if time.Since(told) >= limits.SegmentDrainLogMs*time.Millisecond {
			told = time.Now()
			p, _, _ := d.drained.get()
			d.log.Info("draining", zap.Uint64("left", p.Left), zap.Uint64("moved", p.Moved), zap.Uint64("moved_bytes", p.MovedBytes), zap.Uint64("blocked", p.Blocked))
		}
		d.fetchSoon()
		if !sleep(ctx, limits.SegmentDrainPollMs*time.Millisecond) {
			p, _, known := d.drained.get()
			return &LeftError{Copies: p.Left, Known: known, Within: within}
		}
	}
}

// lost reports whether a master has never told of the drain: then it does not know what a drain is.
func (s *drainStatus) lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.known
}

// askToLeave says that the segment goes, and when. From then on it takes nothing new.
func (d *Daemon) askToLeave(ctx context.Context, within time.Duration) error {
	for _, x := range d.all() {
		if err := d.askFor(ctx, x, max(0, within)+limits.SegmentDrainMarginMs*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// askFor says that one extent goes when a grace time is over.
func (d *Daemon) askFor(ctx context.Context, x *extent, grace time.Duration) error {
	_, err := call(ctx, d.control, &wire.GracefulUnmountSegment, &wire.GracefulUnmountSegmentRequest{
		SegmentID: x.id, ClientID: d.clientID, GracePeriodMs: uint64(grace.Milliseconds()),
	})
	return err
}

// lookAtDrain asks the master how far it is with all extents.
func (d *Daemon) lookAtDrain(ctx context.Context) (done bool, err error) {
	var sum wire.DrainProgress
	done = true
	for _, x := range d.all() {
		p, empty, err := d.progressOf(ctx, x.id)
		if err != nil {
			return false, err
		}
		done = done && empty
		sum.Left, sum.Moved, sum.MovedBytes = sum.Left+p.Left, sum.Moved+p.Moved, sum.MovedBytes+p.MovedBytes
		sum.Blocked, sum.Active = sum.Blocked+p.Blocked, sum.Active+p.Active
	}
	d.drained.set(sum)
	return done, nil
}

// progressOf asks the master how far it is with what has an id.
func (d *Daemon) progressOf(ctx context.Context, id wire.UUID) (p wire.DrainProgress, done bool, err error) {
	r, err := call(ctx, d.control, &wire.QueryTask, &wire.QueryTaskRequest{TaskID: id})
	if err != nil {
		return p, false, err
	}
	if err := json.Unmarshal([]byte(r.Message), &p); err != nil {
		return p, false, fmt.Errorf("the master's word about the drain cannot be read: %w", err)
	}
	return p, r.Status == wire.TaskStatusSuccess, nil
}

// fetchSoon has tasks fetched now instead of at the next interval.
func (d *Daemon) fetchSoon() {
	select {
	case d.tasksWait <- struct{}{}:
	default: // it is on its way
	}
}

// serveDrain is GET /drain.
func (d *Daemon) serveDrain(w http.ResponseWriter, _ *http.Request) {
	p, began, known := d.drained.get()
	page := struct {
		Draining bool  `json:"draining"`
		ForMs    int64 `json:"for_ms"`
		OfMs     int64 `json:"of_ms"`
		Known    bool  `json:"known"`
		wire.DrainProgress
	}{Draining: !began.IsZero(), OfMs: d.cfg.DrainTimeout.Milliseconds(), Known: known, DrainProgress: p}
	if page.Draining {
		page.ForMs = time.Since(began).Milliseconds()
	}
	writeJSON(w, http.StatusOK, page)
}
