package segment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mooncake/descriptor"
	"mooncake/internal/limits"
	"mooncake/rdma"
	"mooncake/wire"
)

// extent is one range of memory that the daemon gives to the pool. To a master it is a segment of its own: one that is
// mounted cannot change its size, so a daemon that grows mounts another, with a range apart from the others, at the same
// endpoint and of the same client. The first one is the segment that the daemon started with and lives as long as it.
type extent struct {
	arena  *Arena
	state  *State
	id     wire.UUID
	memory region // nil with tcp

	// use is held for reading by who looks at the bytes, and for writing when they go.
	use  sync.RWMutex
	gone bool
}

// segment is what the master is told of it.
func (x *extent) segment() wire.Segment {
	return wire.Segment{ID: x.id, Name: x.state.Name, Base: x.state.Base, Size: x.state.Size, TeEndpoint: x.state.Endpoint, Protocol: x.state.Protocol}
}

// window is a part of the bytes, or nil where any of it lies outside. No sum here can wrap.
func (x *extent) window(address, size uint64) []byte {
	base, length := x.state.Base, x.state.Size
	if address < base || size > length || address-base > length-size {
		return nil
	}
	at := address - base
	return x.arena.Bytes()[at : at+size : at+size]
}

// missing is how many of the bytes the kernel has still to find; 0 where that cannot be told.
func (x *extent) missing() uint64 {
	x.use.RLock()
	defer x.use.RUnlock()
	if x.gone {
		return 0
	}
	bytes, err := x.arena.claim.missingBytes(x.state.Size)
	if err != nil {
		return 0
	}
	return bytes
}

// extents are those of a daemon, the first one first. The list is replaced, never changed.
type extents struct {
	list atomic.Pointer[[]*extent]
	mu   sync.Mutex // for who replaces it
}

func (e *extents) add(x *extent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := append(slices.Clone(e.all()), x)
	e.list.Store(&list)
}

func (e *extents) remove(x *extent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(e.all()), func(y *extent) bool { return y == x })
	e.list.Store(&list)
}

func (e *extents) all() []*extent {
	if list := e.list.Load(); list != nil {
		return *list
	}
	return nil
}

// all lists the ranges of memory, the first one first.
func (d *Daemon) all() []*extent { return d.extents.all() }

// total is how many bytes the daemon gives to the pool.
func (d *Daemon) total() (bytes uint64) {
	for _, x := range d.all() {
		bytes += x.state.Size
	}
	return bytes
}

// held gives the bytes of a range and keeps them from going until done is called; nil where it lies in no extent.
func (d *Daemon) held(address, size uint64) (bytes []byte, done func()) {
	for _, x := range d.all() {
		x.use.RLock()
		if !x.gone {
			if bytes = x.window(address, size); bytes != nil {
				return bytes, x.use.RUnlock
			}
		}
		x.use.RUnlock()
	}
	return nil, nil
}

// extentMark stands between the name of a daemon and the number of a further extent. fileSafe writes it otherwise, so that no
// daemon's own name has it.
const extentMark = "~"

// numbered lists the numbers of the further extents whose files are there.
func numbered(c *Config, name string) []int {
	return slices.Sorted(func(yield func(int) bool) {
		for n := range slotsPresent(c, name+extentMark) {
			if n > 0 && !yield(n) {
				return
			}
		}
	})
}

// furtherBytes is how much memory the further extents of an earlier run have, as far as their state files can be read.
func furtherBytes(c *Config, name string) (bytes uint64) {
	for _, n := range numbered(c, name) {
		if s, _, err := readState(statePath(c, name+extentMark+strconv.Itoa(n))); err == nil {
			bytes += s.Size
		}
	}
	return bytes
}

// claimFurther takes up the further extents of the run whose first one is taken up, and throws away those of any other.
func claimFurther(c *Config, first *claim) (claims []*claim, err error) {
	of := *c
	of.Fresh = c.Fresh || first.state == nil
	for _, n := range numbered(c, first.name) {
		cl, err := claimName(&of, first.name+extentMark+strconv.Itoa(n), first.state)
		if err != nil {
			for _, other := range claims {
				other.abandon()
			}
			return nil, err
		}
		if cl.state == nil { // nothing that can be taken up
			_ = os.Remove(cl.statePath) // most often it is not there
			first.notes = append(first.notes, cl.notes...)
			cl.abandon()
			continue
		}
		claims = append(claims, cl)
	}
	return claims, nil
}

// continues tells why a state is not that of a further extent of the first one's daemon.
func (s *State) continues(first *State) error {
	switch {
	case s.ClientID != first.ClientID:
		return errors.New("it belongs to another client id")
	case s.Endpoint != first.Endpoint || s.TEPort != first.TEPort || s.DataPort != first.DataPort:
		return fmt.Errorf("it was announced at %s", s.Endpoint)
	case s.Protocol != first.Protocol:
		return fmt.Errorf("it was announced for %s", s.Protocol)
	case !samePool(s.Master, first.Master):
		return fmt.Errorf("it belongs to the master at %s", s.Master)
	}
	return nil
}

// openFurther maps what claimFurther took up.
func (d *Daemon) openFurther(claims []*claim) error {
	for i, cl := range claims {
		x, err := d.mapExtent(cl, cl.state)
		if err != nil {
			for _, other := range claims[i:] {
				other.abandon()
			}
			return err
		}
		d.extents.add(x)
		d.log.Info("taking up a further region of an earlier run", zap.String("segment", x.state.Name), zap.Uint64("size_bytes", x.state.Size))
	}
	return nil
}

// mapExtent maps an arena of the state's size. A claim that failed here is still the caller's.
func (d *Daemon) mapExtent(cl *claim, s *State) (*extent, error) {
	id, err := wire.ParseUUID(s.SegmentID)
	if err != nil {
		return nil, err
	}
	arena, err := mapArena(cl, s.Size, d.cfg.HugePages == "madvise")
	if err != nil {
		return nil, err
	}
	d.heed(arena)
	return &extent{arena: arena, state: s, id: id}, nil
}

// newExtent makes a further extent of so many bytes: on file and with its memory registered, but not yet announced.
func (d *Daemon) newExtent(size uint64) (x *extent, err error) {
	n := d.freeNumber()
	if n == 0 {
		return nil, fmt.Errorf("%d regions are the most that a segment has", limits.SegmentExtents)
	}
	id, err := wire.NewDaemonClientID()
	if err != nil {
		return nil, err
	}
	s := *d.state
	s.SegmentID, s.Size, s.Base = id.String(), size, d.apart(size)
	s.Name += extentMark + strconv.Itoa(n)
	s.Created = time.Now().UTC().Truncate(time.Second)
	if err := s.validate(); err != nil {
		return nil, err
	}
	of := d.cfg
	of.Fresh = true
	cl, err := claimName(&of, d.arena.claim.name+extentMark+strconv.Itoa(n), nil)
	if err != nil {
		return nil, err
	}
	if x, err = d.mapExtent(cl, &s); err != nil {
		cl.abandon()
		return nil, err
	}
	return x, nil
}

// freeNumber is the lowest number that no extent has, 0 where there are as many as may be.
func (d *Daemon) freeNumber() int {
	taken := map[string]bool{}
	for _, x := range d.all() {
		taken[x.state.Name] = true
	}
	for n := 1; n < limits.SegmentExtents; n++ {
		if !taken[d.state.Name+extentMark+strconv.Itoa(n)] {
			return n
		}
	}
	return 0
}

// apart draws a base whose range touches no other.
func (d *Daemon) apart(size uint64) uint64 {
	for {
		base := newBase(size)
		if !slices.ContainsFunc(d.all(), func(x *extent) bool {
			return base <= x.state.Base+pageUp(x.state.Size) && x.state.Base <= base+pageUp(size)
		}) {
			return base
		}
	}
}

// registerExtent makes an extent known to the devices, if there are any.
func (d *Daemon) registerExtent(ctx context.Context, x *extent) error {
	if d.rails == nil {
		return nil
	}
	if err := rdma.CheckPinning(d.cfg.fsRoot, x.arena.Bytes(), len(d.rails.fabric.stats().rails)); err != nil {
		return fmt.Errorf("--protocol=rdma: %w", err)
	}
	memory, err := d.rails.fabric.register(ctx, x.arena.Bytes(), x.state.Base, d.registering())
	if err != nil {
		return fmt.Errorf("--protocol=rdma: %w", err)
	}
	x.memory = memory
	return nil
}

// close takes an extent's memory from the devices and unmaps it, when nobody looks at it any more. With remove its files go
// as well.
func (x *extent) close(remove bool) error {
	x.use.Lock()
	defer x.use.Unlock()
	if x.gone {
		return nil
	}
	x.gone = true
	var err error
	if x.memory != nil {
		err = x.memory.close()
	}
	if remove {
		return errors.Join(err, x.arena.Remove())
	}
	return errors.Join(err, x.arena.Close())
}

// buffers are the ranges as a descriptor of tcp has them.
func (d *Daemon) buffers() (list []descriptor.Buffer) {
	for _, x := range d.all() {
		list = append(list, descriptor.Buffer{Addr: x.state.Base, Length: x.state.Size, Name: d.state.Name})
	}
	return list
}
