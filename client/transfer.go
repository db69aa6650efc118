package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/descriptor"
	"mooncake/internal/limits"
)

// piece is a part of an object on its way: bytes, and where in the object they begin.
type piece struct {
	at   uint64
	data []byte
}

// cut cuts bytes that begin somewhere in an object into pieces: as many as there are connections, unless those would be too
// small to be worth one, or too large.
func cut(at uint64, data []byte) (list []piece) {
	each := min(max((len(data)+limits.DialerLanes-1)/limits.DialerLanes, limits.ClientPieceBytes), limits.ClientPieceMaxBytes)
	for len(data) > 0 {
		n := min(len(data), each)
		list = append(list, piece{at, data[:n:n]})
		at, data = at+uint64(n), data[n:]
	}
	return list
}

// inMemory lists the copies that this client can reach.
func inMemory(list []*mooncakev1.Placement) (out []*mooncakev1.MemoryPlace) {
	for _, p := range list {
		if m := p.GetMemory(); m != nil {
			out = append(out, m)
		}
	}
	return out
}

// move carries one piece between this process and a copy. When it fails the holder is asked anew how it is reached, once.
func (c *Client) move(ctx context.Context, m *mooncakev1.MemoryPlace, p piece, how func(context.Context, *descriptor.Target, uint64, []byte) error) error {
	if p.at+uint64(len(p.data)) > m.GetSize() || p.at+uint64(len(p.data)) < p.at {
		return fmt.Errorf("bytes %d to %d of an object of %d", p.at, p.at+uint64(len(p.data)), m.GetSize())
	}
	target, err := c.resolver.Lookup(ctx, m.GetEndpoint())
	if err == nil {
		if err = how(ctx, target, m.GetAddress()+p.at, p.data); err == nil || ctx.Err() != nil {
			return err
		}
		target, err = c.resolver.Refresh(ctx, m.GetEndpoint())
		if err == nil {
			err = how(ctx, target, m.GetAddress()+p.at, p.data)
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			c.report(ctx, m.GetEndpoint())
		}
		return fmt.Errorf("segment %s: %w", m.GetEndpoint(), err)
	}
	return nil
}

// writeAll writes pieces of an object to all of its copies.
func (c *Client) writeAll(group *errgroup.Group, ctx context.Context, placements []*mooncakev1.Placement, pieces []piece) {
	copies := inMemory(placements)
	if len(copies) == 0 {
		group.Go(func() error { return ErrNoCopy })
	}
	for _, m := range copies {
		for _, p := range pieces {
			group.Go(func() error { return c.move(ctx, m, p, c.dialer.Write) })
		}
	}
}

// readAny reads a piece of an object from any of its copies.
func (c *Client) readAny(ctx context.Context, placements []*mooncakev1.Placement, p piece) error {
	errs := []error{}
	for _, m := range inMemory(placements) {
		err := c.move(ctx, m, p, c.dialer.Read)
		if err == nil || ctx.Err() != nil {
			return err
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return ErrNoCopy
	}
	return errors.Join(errs...)
}

// only runs the last piece of the only object of a call on the caller's goroutine, which would wait otherwise, and all others on
// goroutines of a group.
func only(group *errgroup.Group, objects, left int, do func() error) {
	if objects == 1 && left == 0 {
		_ = do() // its error is kept by object
		return
	}
	group.Go(do)
}

// writers counts the calls of this process that write one object of a size for oneThread.
var writers atomic.Int32

// oneThread keeps the goroutine of a call that writes so many bytes on its thread until what it returns is called. Between two waits the
// scheduler likes to go on in another thread, thus on another processor, and what is copied there is in the caches of the
// first: a piece of a MiB then takes several times as long to copy. Smaller objects have little to copy, and of larger ones other
// goroutines move most. Where several calls write at the same time all processors are busy anyway, and handing them from
// thread to thread costs more than it saves: then none begins to be kept. Nor is it where the send buffer takes the object whole:
// then there is nothing to wait for while it is copied.
func oneThread(bytes int, whole bool) (release func()) {
	if bytes < limits.ClientThreadFromBytes || bytes > limits.ClientPieceBytes || whole {
		return func() {}
	}
	if writers.Add(1) > 1 {
		return func() { writers.Add(-1) }
	}
	runtime.LockOSThread()
	return func() {
		runtime.UnlockOSThread()
		writers.Add(-1)
	}
}

// transfers is a group of transfers that ends with the first error.
func transfers(ctx context.Context) (*errgroup.Group, context.Context) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(limits.ClientTransfers)
	return group, ctx
}
