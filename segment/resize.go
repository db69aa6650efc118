package segment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/limits"
	"mooncake/wire"
)

// resizeOrder is the size that a segment is to have, and how long it may take to move away what lies on the regions that go.
type resizeOrder struct {
	Bytes  uint64
	Within time.Duration
}

// The states of a change of size.
const (
	resizeNone     = "none"
	resizeGrowing  = "growing"
	resizeDraining = "draining"
	resizeDone     = "done"
	resizeFailed   = "failed"
)

// resizePage is how far the latest change of size is.
type resizePage struct {
	State       string `json:"state"`
	FromBytes   uint64 `json:"from_bytes,omitempty"`
	TargetBytes uint64 `json:"target_bytes,omitempty"`
	wire.DrainProgress
	Note  string `json:"note,omitempty"` // what it waits for
	Error string `json:"error,omitempty"`
}

// over tells whether nothing goes on.
func (p *resizePage) over() bool {
	return p.State == resizeNone || p.State == resizeDone || p.State == resizeFailed
}

// resizer is what is asked for and how far it is. Its lock is a leaf.
type resizer struct {
	orders chan resizeOrder // room for one

	mu     sync.Mutex
	at     resizePage
	closed bool // the daemon leaves
}

func (z *resizer) page() resizePage {
	z.mu.Lock()
	defer z.mu.Unlock()
	p := z.at
	if p.State == "" {
		p.State = resizeNone
	}
	return p
}

func (z *resizer) update(change func(*resizePage)) {
	z.mu.Lock()
	defer z.mu.Unlock()
	change(&z.at)
}

// close has every further order refused.
func (z *resizer) close() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.closed = true
}

// order notes a change of size, unless there is one under way or the daemon leaves.
func (z *resizer) order(o resizeOrder, from uint64) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	switch {
	case z.closed:
		return errLeaving
	case z.at.State != "" && !z.at.over():
		return errBusy
	}
	z.at = resizePage{State: resizeGrowing, FromBytes: from, TargetBytes: o.Bytes}
	if o.Bytes < from {
		z.at.State = resizeDraining
	}
	z.orders <- o // it has room: the one before is over
	return nil
}

// errLeaving says that nothing changes any more.
var errLeaving = errors.New("the daemon is leaving: its size stays")

// errBusy says that one change of size is under way.
var errBusy = errors.New("another change of size is under way")

// askResize asks for another size: the sum of all regions. What cannot be is refused at once; the rest goes on in the background.
// A larger size adds one region. A smaller one takes the latest regions away, each as a whole, after the master has moved away
// what lies on them.
func (d *Daemon) askResize(o resizeOrder) error {
	if o.Within <= 0 || o.Within > limits.SegmentDrainMaxMs*time.Millisecond {
		return fmt.Errorf("within %s: want more than 0 and at most %s", o.Within, limits.SegmentDrainMaxMs*time.Millisecond)
	}
	if !d.health.isMounted() {
		return errors.New("the master has not taken the segment, or does not answer: its size stays")
	}
	if _, err := d.planResize(o.Bytes); err != nil {
		return err
	}
	return d.resizer.order(o, d.total())
}

// resizePlan is what a change of size comes to: bytes more, or extents less.
type resizePlan struct {
	more uint64
	less []*extent // the latest first
}

// planResize decides what makes the segment so large, and refuses what is impossible.
func (d *Daemon) planResize(bytes uint64) (plan resizePlan, err error) {
	list, total := d.all(), d.total()
	switch {
	case bytes > total:
		plan.more = bytes - total
		return plan, d.mayGrow(plan.more)
	case bytes == total:
		return plan, nil
	}
	var possible []string
	left := total
	for i := len(list) - 1; i > 0; i-- {
		left -= list[i].state.Size
		plan.less = append(plan.less, list[i])
		if left == bytes {
			return plan, nil
		}
		possible = append(possible, fmt.Sprintf("%d (%s)", left, sizeText(left)))
	}
	if len(possible) == 0 {
		return resizePlan{}, fmt.Errorf("the segment consists of the one region of %d bytes that it started with, which stays as long as the daemon", total)
	}
	return resizePlan{}, fmt.Errorf("regions go as a whole, the latest first: of %d bytes the segment can become %s", total, strings.Join(possible, ", "))
}

// mayGrow refuses bytes more that the host has no memory for. What the segment has and was not written to yet counts as
// promised.
func (d *Daemon) mayGrow(bytes uint64) error {
	what := fmt.Sprintf("growing by %d bytes (%s)", bytes, sizeText(bytes))
	switch {
	case bytes > limits.SegmentBytesMax:
		return fmt.Errorf("%s: masters accept at most %d bytes for one region", what, uint64(limits.SegmentBytesMax))
	case bytes < limits.SegmentExtentMinBytes:
		return fmt.Errorf("%s: a region has at least %d bytes", what, limits.SegmentExtentMinBytes)
	case d.freeNumber() == 0:
		return fmt.Errorf("%s: the segment has %d regions already, and no more are allowed", what, limits.SegmentExtents)
	}
	host, err := d.look()
	if err != nil {
		return err
	}
	need := d.untouched() + bytes
	if err := host.check(what, need, d.cfg.ShmDir); err != nil {
		return err
	}
	return d.cfg.MemoryHigh.allows(what, &host, need)
}

// resizeWhenAsked carries out one order after the other until the context ends. What it leaves undone then stays as it is: a
// region that was to go is offered again by the next start.
func (d *Daemon) resizeWhenAsked(ctx context.Context) {
	defer d.resizer.update(func(p *resizePage) {
		if p.State != "" && !p.over() {
			p.State, p.Error = resizeFailed, errLeaving.Error()
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-d.resizer.orders:
			began := time.Now()
			err := d.resize(ctx, o)
			if err != nil && ctx.Err() != nil {
				err = errLeaving
			}
			d.resizer.update(func(p *resizePage) {
				p.State, p.Note = resizeDone, ""
				if err != nil {
					p.State, p.Error = resizeFailed, err.Error()
				}
			})
			if err != nil {
				d.log.Warn("the segment keeps its size", zap.Uint64("size_bytes", d.total()), zap.Uint64("asked_bytes", o.Bytes), zap.Error(err))
				continue
			}
			d.log.Info("the segment has another size", zap.Uint64("size_bytes", d.total()), zap.Int("regions", len(d.all())), zap.Duration("took", time.Since(began)))
		}
	}
}

func (d *Daemon) resize(ctx context.Context, o resizeOrder) error {
	plan, err := d.planResize(o.Bytes)
	switch {
	case err != nil:
		return err
	case plan.more > 0:
		return d.grow(ctx, plan.more)
	case len(plan.less) > 0:
		return d.shrink(ctx, plan.less, o.Within)
	}
	return nil
}

// grow adds one region: memory, devices, file, data port, metadata keys, and at last the master, as at a start.
func (d *Daemon) grow(ctx context.Context, bytes uint64) error {
	x, err := d.newExtent(bytes)
	if err != nil {
		return err
	}
	if err = d.openExtent(ctx, x); err != nil {
		return errors.Join(err, x.close(true))
	}
	d.extents.add(x)
	d.population.more()
	if err = d.mountExtent(ctx, x); err == nil || ctx.Err() != nil {
		return err
	}
	return errors.Join(err, d.withdraw(ctx, x))
}

// openExtent makes a region usable. It is on file from then on: should the daemon end, the next start takes it up.
func (d *Daemon) openExtent(ctx context.Context, x *extent) error {
	if d.cfg.Populate == populateStart || d.rails != nil {
		if err := d.prefault(x); err != nil {
			return err
		}
	}
	if err := d.registerExtent(ctx, x); err != nil {
		return err
	}
	if err := x.arena.seal(x.state); err != nil {
		return err
	}
	return d.data.AddRegion(x.state.Base, x.arena.Bytes(), x.arena.ready)
}

// mountExtent offers a region until the master has taken it, or refuses it. A call that got no answer may have been carried out,
// so it is not given up before the daemon ends.
func (d *Daemon) mountExtent(ctx context.Context, x *extent) error {
	for {
		err := d.publish(ctx)
		if err == nil {
			err = d.mount(ctx, x)
		}
		if err == nil {
			d.log.Info("segment mounted", zap.String("segment", x.state.Name), zap.String("endpoint", x.state.Endpoint), zap.Uint64("size_bytes", x.state.Size))
			return nil
		}
		if _, no := refused(err); no {
			return err
		}
		d.resizer.update(func(p *resizePage) { p.Note = err.Error() })
		if !sleep(ctx, limits.SegmentBackoffMaxMs*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// shrink has the master move away what lies on regions, and takes them away when nothing is left. When that does not succeed in
// time they stay, with everything on them.
func (d *Daemon) shrink(ctx context.Context, less []*extent, within time.Duration) error {
	if _, _, err := d.progressOf(ctx, d.clientID); err != nil {
		if code, no := refused(err); no && code == wire.ErrTaskNotFound {
			return errors.New("the master moves nothing off a region: it is a published one; regions stay")
		}
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := d.empty(ctx, less, within)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return errors.Join(err, d.stay(ctx, less))
	}
	for _, x := range less {
		for {
			if err = d.unmount(ctx, x); err == nil {
				break
			}
			d.resizer.update(func(p *resizePage) { p.Note = err.Error() })
			if !sleep(ctx, limits.SegmentBackoffMaxMs*time.Millisecond) {
				return ctx.Err()
			}
		}
		d.log.Info("segment unmounted", zap.String("segment", x.state.Name))
	}
	if d.rails.busy() && !sleep(ctx, limits.SegmentLingerMs*time.Millisecond) {
		return ctx.Err() // a device serves reads without a word to the processor: those that have begun got a moment to end
	}
	for _, x := range less {
		err = errors.Join(err, d.withdraw(ctx, x))
	}
	return err
}

// empty waits until the master has moved everything off regions, which take nothing new meanwhile.
func (d *Daemon) empty(ctx context.Context, less []*extent, within time.Duration) error {
	deadline := time.Now().Add(within)
	asked := map[*extent]bool{}
	told := time.Time{}
	for {
		sum, done, heard := wire.DrainProgress{}, true, true
		for _, x := range less {
			p, empty, err := d.emptyOne(ctx, x, asked, time.Until(deadline))
			if _, no := refused(err); no && !asked[x] {
				return err // it was asked for and refused
			}
			heard = heard && err == nil
			done = done && err == nil && empty
			sum.Left, sum.Moved, sum.MovedBytes = sum.Left+p.Left, sum.Moved+p.Moved, sum.MovedBytes+p.MovedBytes
			sum.Blocked, sum.Active = sum.Blocked+p.Blocked, sum.Active+p.Active
		}
		if heard {
			d.resizer.update(func(p *resizePage) { p.DrainProgress = sum })
		}
		if done {
			return nil
		}
		if time.Since(told) >= limits.SegmentDrainLogMs*time.Millisecond {
			told = time.Now()
			d.log.Info("regions are emptied", zap.Int("regions", len(less)), zap.Uint64("left", sum.Left), zap.Uint64("moved", sum.Moved),
				zap.Uint64("moved_bytes", sum.MovedBytes), zap.Uint64("blocked", sum.Blocked))
		}
		d.fetchSoon()
		if time.Now().After(deadline) {
			return fmt.Errorf("%d objects were left after %s: there is no room for them elsewhere, or too little time; the regions stay, nothing is lost", d.resizer.page().Left, within)
		}
		if !sleep(ctx, limits.SegmentDrainPollMs*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// emptyOne asks for a region to be emptied, unless that is known to go on, and how far it is.
func (d *Daemon) emptyOne(ctx context.Context, x *extent, asked map[*extent]bool, within time.Duration) (p wire.DrainProgress, empty bool, err error) {
	if !asked[x] {
		if err := d.askFor(ctx, x, max(0, within)+limits.SegmentShrinkMarginMs*time.Millisecond); err != nil {
			return p, false, err
		}
		asked[x] = true
	}
	p, empty, err = d.progressOf(ctx, x.id)
	if err != nil {
		// Another master may lead, which knows nothing of it yet.
		asked[x] = false
		if _, no := refused(err); no {
			err = errAskAgain
		}
	}
	return p, empty, err
}

// errAskAgain says that the master does not know that a region is to be emptied.
var errAskAgain = errors.New("the master is asked again")

// stay takes back that regions go: a daemon that mounts one again keeps it. It is tried until it has worked, for which there is
// far more time than a master that answers needs.
func (d *Daemon) stay(ctx context.Context, less []*extent) error {
	for _, x := range less {
		for {
			err := d.mount(ctx, x)
			if err == nil {
				break
			}
			d.resizer.update(func(p *resizePage) { p.Note = err.Error() })
			if !sleep(ctx, limits.SegmentBackoffMinMs*time.Millisecond) {
				return err
			}
		}
	}
	return nil
}

// withdraw takes a region that the master does not have any more away: from descriptors, from the data port, from the devices,
// and its memory.
func (d *Daemon) withdraw(ctx context.Context, x *extent) error {
	d.extents.remove(x)
	err := d.publish(ctx)
	if err != nil {
		d.log.Warn("the changed descriptor is not published: readers find a range in it that is gone", zap.Error(err))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.SegmentTransferMs*time.Millisecond)
	defer cancel()
	return errors.Join(d.data.RemoveRegion(ctx, x.state.Base), x.close(true))
}
