package tcp

import (
	"context"
	"fmt"
	"sync/atomic"
)

// region is one range of memory that requests may touch. Its address is a number that peers use, not where the memory
// lies. The table holds one reference; each request in progress holds one more.
type region struct {
	base        uint64
	mem         []byte
	beforeWrite func(offset, size uint64) // nil is nothing
	refs        atomic.Int64
	gone        chan struct{} // closed when the last reference went
}

// acquire takes a reference, unless the region is on its way out.
func (r *region) acquire() bool {
	for {
		refs := r.refs.Load()
		if refs == 0 {
			return false
		}
		if r.refs.CompareAndSwap(refs, refs+1) {
			return true
		}
	}
}

func (r *region) release() {
	if r.refs.Add(-1) == 0 {
		close(r.gone)
	}
}

// window returns the bytes of a range, or nil when any of it lies outside. Nothing here can overflow: the offset is below
// the length before the size is compared with what remains.
func (r *region) window(addr, size uint64) []byte {
	if addr < r.base {
		return nil
	}
	offset, length := addr-r.base, uint64(len(r.mem))
	if offset >= length || size == 0 || size > length-offset {
		return nil
	}
	return r.mem[offset : offset+size : offset+size]
}

// AddRegion lets requests touch mem under the addresses from base on. Regions must not overlap. beforeWrite, unless nil, is called with
// what is about to be written, in pieces of limits.DataReadyBytes at most, from many goroutines at once.
func (s *Server) AddRegion(base uint64, mem []byte, beforeWrite func(offset, size uint64)) error {
	length := uint64(len(mem))
	if base == 0 || length == 0 || base+length-1 < base {
		return fmt.Errorf("region at %#x of %d bytes: base and length must not be 0 and the range must not wrap", base, length)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.regions.Load()
	for _, other := range old {
		if base <= other.base+uint64(len(other.mem))-1 && other.base <= base+length-1 {
			return fmt.Errorf("region at %#x of %d bytes overlaps the one at %#x of %d bytes", base, length, other.base, len(other.mem))
		}
	}
	added := &region{base: base, mem: mem, beforeWrite: beforeWrite, gone: make(chan struct{})}
	added.refs.Store(1)
	table := append(append(make([]*region, 0, len(old)+1), old...), added)
	s.regions.Store(&table)
	return nil
}

// RemoveRegion refuses further requests to the region at base and returns when none touches its memory any more. Requests
// in progress may finish until the context ends; then their connections are cut.
func (s *Server) RemoveRegion(ctx context.Context, base uint64) error {
	removed := s.takeRegion(base)
	if removed == nil {
		return fmt.Errorf("no region at %#x", base)
	}
	removed.release()
	select {
	case <-removed.gone:
		return nil
	case <-ctx.Done():
	}
	// A connection shows the region before it takes its reference, so every holder of one is found here.
	s.closeConns(func(c *serverConn) bool { return c.region.Load() == removed })
	<-removed.gone
	return nil
}

func (s *Server) takeRegion(base uint64) *region {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.regions.Load()
	for i, r := range old {
		if r.base == base {
			table := append(append(make([]*region, 0, len(old)-1), old[:i]...), old[i+1:]...)
			s.regions.Store(&table)
			return r
		}
	}
	return nil
}

// find returns the region that a range lies in, wholly, and the range's bytes. A daemon has a handful of regions.
func (s *Server) find(addr, size uint64) (*region, []byte) {
	for _, r := range *s.regions.Load() {
		if window := r.window(addr, size); window != nil {
			return r, window
		}
	}
	return nil, nil
}
