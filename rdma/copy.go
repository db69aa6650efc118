package rdma

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"mooncake/descriptor"
	"mooncake/internal/limits"
)

// Target is a process whose memory is copied from or to.
type Target struct {
	// Self is what nic paths call our own process: its server name.
	Self string
	// Segment is the target's descriptor, of protocol rdma.
	Segment *descriptor.Segment
	// Handshake carries a request to connect queue pairs to the target and returns its answer.
	Handshake func(ctx context.Context, req *descriptor.Connection) (*descriptor.Connection, error)
}

// ErrUnreachable is the cause when no path to a target could do a copy: the caller takes a fresh descriptor or another
// transport.
var ErrUnreachable = errors.New("not reachable by RDMA")

// Read copies from the target's memory at addr into buf. When it returns, whatever it returns, nothing is written to buf any
// more; for that it waits, even when the context ends, until what is under way is done or given up by the devices.
func (f *Fabric) Read(ctx context.Context, peer Target, addr uint64, buf []byte) error {
	return f.copy(ctx, opRead, &peer, addr, buf)
}

// Write copies buf into the target's memory at addr. When it returns, buf is not read any more; see Read.
func (f *Fabric) Write(ctx context.Context, peer Target, addr uint64, buf []byte) error {
	return f.copy(ctx, opWrite, &peer, addr, buf)
}

func (f *Fabric) copy(ctx context.Context, op operation, t *Target, addr uint64, buf []byte) error {
	if len(buf) == 0 {
		return nil
	}
	err := f.tryCopy(ctx, op, t, addr, buf)
	if err == nil {
		return nil
	}
	f.count.copyFailures.Add(1)
	if ctx.Err() != nil {
		return fmt.Errorf("rdma %v of %d bytes at %s: %w", op, len(buf), t.Segment.Name, ctx.Err())
	}
	return fmt.Errorf("rdma %v of %d bytes at %s: %w: %w", op, len(buf), t.Segment.Name, ErrUnreachable, err)
}

func (f *Fabric) tryCopy(ctx context.Context, op operation, t *Target, addr uint64, buf []byte) error {
	pieces, err := cutCopy(t.Segment, addr, len(buf))
	if err != nil {
		return err
	}
	c := &copying{
		f: f, op: op, target: t, buf: buf, todo: pieces, results: make(chan result, limits.RDMACopiesAtOnce),
		legs: legsTo(f.listed(), t.Segment, pieces[0].buffer),
	}
	if c.region, c.from = f.regionOf(buf); c.region == nil {
		if c.bounce, err = f.bouncing(ctx); err != nil {
			return err
		}
		c.region = c.bounce.region
	}
	return c.run(ctx)
}

// piece is one request of a copy.
type piece struct {
	buffer     *descriptor.Buffer
	remote     uint64
	at, length int // in the caller's memory
	slot       int // of the bounce buffers
	leg        *leg
	via        *route
}

type result struct {
	p      *piece
	status Status
}

// cutCopy cuts a copy into requests, each of which lies in one buffer of the target.
func cutCopy(s *descriptor.Segment, addr uint64, length int) ([]*piece, error) {
	size := min(max(length/limits.RDMACopiesAtOnce, limits.RDMASliceBytesMin), limits.RDMASliceBytesMax)
	if addr+uint64(length) < addr {
		return nil, fmt.Errorf("%d bytes at %#x reach beyond the end of the address space", length, addr)
	}
	var out []*piece
	for at := 0; at < length; {
		p := &piece{remote: addr + uint64(at), at: at, length: min(size, length-at)}
		if p.buffer = s.Remote(p.remote, uint64(p.length)); p.buffer == nil {
			if p.buffer = s.Remote(p.remote, 1); p.buffer == nil {
				return nil, fmt.Errorf("address %#x is in no buffer of the descriptor", p.remote)
			}
			p.length = int(p.buffer.Addr + p.buffer.Length - p.remote) // shorter than it was
		}
		if len(p.buffer.RKey) != len(s.Devices) {
			return nil, fmt.Errorf("buffer at %#x has %d keys for %d devices", p.buffer.Addr, len(p.buffer.RKey), len(s.Devices))
		}
		out = append(out, p)
		at += p.length
	}
	slices.Reverse(out) // they are taken from the end
	return out, nil
}

// regionOf finds the region that the caller's memory lies in, and where.
func (f *Fabric) regionOf(buf []byte) (*Region, uint64) {
	at := addressOf(buf)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, region := range f.regions {
		from := addressOf(region.mem)
		if at >= from && at+uint64(len(buf)) <= from+uint64(len(region.mem)) {
			return region, at - from
		}
	}
	return nil, 0
}

func addressOf(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }

// copying is a copy under way. It belongs to one goroutine; only results comes from others.
type copying struct {
	f      *Fabric
	op     operation
	target *Target
	buf    []byte
	region *Region // that the local memory lies in
	from   uint64  // where buf begins in it, unless it goes through the bounce buffers
	bounce *bounceBuffers

	legs     *legs
	todo     []*piece
	under    int // pieces under way
	results  chan result
	failures int
}

// run keeps requests under way until all pieces are done, or too much has failed. It returns when none is under way.
func (c *copying) run(ctx context.Context) error {
	defer c.legs.release(c.f)
	var failed error
	for len(c.todo) > 0 || c.under > 0 {
		if failed == nil {
			failed = ctx.Err()
		}
		if failed != nil && c.under == 0 {
			return failed
		}
		if failed != nil || len(c.todo) == 0 || c.under == limits.RDMACopiesAtOnce {
			c.take(<-c.results, &failed)
			continue
		}
		p := c.todo[len(c.todo)-1]
		if c.bounce != nil {
			select {
			case p.slot = <-c.bounce.free:
			case r := <-c.results: // slots may be held by results that nobody has looked at
				c.take(r, &failed)
				continue
			case <-ctx.Done():
				continue
			}
		}
		c.todo = c.todo[:len(c.todo)-1]
		if err := c.start(ctx, p); err != nil {
			c.giveBack(p)
			c.todo = append(c.todo, p)
			failed = err
		}
	}
	return failed
}

// start posts a piece over the path whose turn it is.
func (c *copying) start(ctx context.Context, p *piece) error {
	for {
		l, err := c.legs.next(ctx, c.f, c.target)
		if err != nil {
			return err
		}
		w := work{op: c.op, length: uint32(p.length), remote: p.remote, rkey: p.buffer.RKey[l.index]}
		at := c.from + uint64(p.at)
		if c.bounce != nil {
			at = uint64(p.slot) * limits.RDMASliceBytesMax
			if c.op == opWrite {
				copy(c.bounce.at(p.slot), c.buf[p.at:p.at+p.length])
			}
		}
		lkey, ok := c.region.local(l.rail, at, uint64(p.length))
		if !ok {
			c.legs.strike(c.f, l, l.via, fmt.Errorf("the memory is not registered on %s", l.rail.name), false)
			continue
		}
		w.local, w.lkey = c.region.base+at, lkey
		p.leg, p.via = l, l.via
		err = l.via.post(ctx, w, func(s Status) { c.results <- result{p, s} })
		if err == nil {
			c.under++
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.legs.strike(c.f, l, p.via, err, true)
	}
}

// take looks at a piece that is no longer under way.
func (c *copying) take(r result, failed *error) {
	c.under--
	p := r.p
	if r.status == StatusSuccess {
		if c.bounce != nil && c.op == opRead {
			copy(c.buf[p.at:p.at+p.length], c.bounce.at(p.slot))
		}
		c.giveBack(p)
		return
	}
	c.giveBack(p)
	c.todo = append(c.todo, p)
	c.f.count.copyRetries.Add(1)
	if !c.legs.strike(c.f, p.leg, p.via, fmt.Errorf("%s from %s: %v", p.via.key.peer, p.via.key.device, r.status), r.status != StatusRemoteAccess) {
		return // the path was given up before, this is what was left on it
	}
	if c.failures++; c.failures >= limits.RDMACopyTries && *failed == nil {
		*failed = c.legs.err
	}
}

func (c *copying) giveBack(p *piece) {
	if c.bounce != nil {
		c.bounce.free <- p.slot
	}
}
