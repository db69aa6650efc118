package segment

import (
	"context"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"mooncake/internal/limits"
	"mooncake/rdma"
)

// When the kernel is made to find the memory.
const (
	populateOff        = "off"        // with the first byte written to each page
	populateBackground = "background" // after the segment is announced, as long as there is memory to spare
	populateStart      = "start"      // before the segment is announced
)

// populateModes are the values of --populate.
var populateModes = []string{populateOff, populateBackground, populateStart}

// population is how far finding memory in the background is. Its lock is a leaf.
type population struct {
	grown chan struct{} // has one when there is more to find

	mu    sync.Mutex
	word  string
	waits string // what it waits for
}

func (p *population) set(word, waits string) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	news = p.word != word
	p.word, p.waits = word, waits
	return news
}

func (p *population) state() (word, waits string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.word == "" {
		return populateOff, ""
	}
	return p.word, p.waits
}

// more tells that an extent was added.
func (p *population) more() {
	select {
	case p.grown <- struct{}{}:
	default: // it is told already
	}
}

// prefault finds all pages of an extent now, with a few threads, so that no put pays for it and a shortage shows before
// anything is announced instead of as a fault later.
func (d *Daemon) prefault(x *extent) error {
	began := time.Now()
	var g errgroup.Group
	g.SetLimit(limits.SegmentPrefaultWorkers)
	for at := uint64(0); at < uint64(len(x.arena.mapped)); at += limits.SegmentPrefaultBytes {
		g.Go(func() error { return x.arena.find(at) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	d.population.set("done", "")
	d.log.Info("memory is there", zap.String("segment", x.state.Name), zap.Uint64("bytes", x.state.Size), zap.Duration("took", time.Since(began)))
	return nil
}

// populate finds the memory of all extents while they are in use, slice by slice in one thread, and later that of those that are
// added. It waits while memory is scarce, and for whoever else wants the processor.
func (d *Daemon) populate(ctx context.Context) {
	if inMemory, err := onMemory(d.cfg.ShmDir); err != nil || !inMemory {
		d.log.Info("memory is not found ahead: --shm_dir is not in memory (--populate)", zap.String("shm_dir", d.cfg.ShmDir), zap.Error(err))
		return
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with its rank
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, limits.SegmentPopulateNice); err != nil {
		d.log.Warn("memory is found with the rank of everything else", zap.Error(err))
	}
	whole := map[*extent]bool{}
	for {
		for _, x := range d.all() {
			if !whole[x] && !d.populateExtent(ctx, x) {
				return
			}
			whole[x] = true
		}
		d.population.set("done", "")
		select {
		case <-ctx.Done():
			return
		case <-d.population.grown:
		}
	}
}

// onMemory tells whether files of a folder lie in memory. Elsewhere finding memory ahead would have the disk written.
func onMemory(dir string) (bool, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return false, err
	}
	kind := uint32(fs.Type) // kinds have 32 bits; the field is signed on some processors
	return kind == unix.TMPFS_MAGIC || kind == unix.HUGETLBFS_MAGIC || kind == unix.RAMFS_MAGIC, nil
}

// populateExtent finds the memory of one extent; false when the context ended first.
func (d *Daemon) populateExtent(ctx context.Context, x *extent) bool {
	began, size, told := time.Now(), uint64(fileBytes(x.state.Size)), uint64(0)
	for at := uint64(0); at < size; at += limits.SegmentPrefaultBytes {
		for {
			waits, err := d.populateSlice(x, at)
			if err != nil {
				d.population.set("failed", err.Error())
				d.log.Warn("memory is not found ahead any more: the kernel finds it when it is written to", zap.Error(err))
				return true
			}
			if waits == "" {
				break
			}
			if d.population.set("waiting", waits) {
				d.log.Warn("finding memory waits: "+waits, zap.String("segment", x.state.Name), zap.Uint64("done_bytes", at), zap.Uint64("of_bytes", size))
			}
			if !sleep(ctx, d.cfg.WatchEvery) {
				return false
			}
		}
		d.population.set("running", "")
		const steps = limits.SegmentRegisterLines
		if step := at / max(1, size/steps); step > told {
			told = step
			d.log.Info("finding memory", zap.String("segment", x.state.Name), zap.Uint64("done_bytes", at), zap.Uint64("of_bytes", size))
		}
		if ctx.Err() != nil {
			return false
		}
	}
	d.log.Info("memory is there", zap.String("segment", x.state.Name), zap.Uint64("bytes", x.state.Size), zap.Duration("took", time.Since(began)))
	return true
}

// populateSlice finds one slice, or says what it waits for.
func (d *Daemon) populateSlice(x *extent, at uint64) (waits string, err error) {
	x.use.RLock()
	defer x.use.RUnlock()
	if x.gone {
		return "", nil
	}
	part := x.arena.slice(at)
	missing := uint64(len(part)) - min(rdma.Resident(part), uint64(len(part)))
	if missing == 0 {
		return "", nil
	}
	if err := d.mayTake(missing); err != nil {
		return err.Error(), nil
	}
	return "", x.arena.find(at)
}
