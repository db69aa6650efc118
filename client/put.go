package client

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/limits"
)

// An Item is an object to be written. It must have a byte at least.
type Item struct {
	Key  string
	Data []byte
}

// PutOptions say how objects are to be kept. The zero value is one copy, no pin.
type PutOptions struct {
	Copies            int    // 0 is 1; fewer may be made, never none
	SoftPin, HardPin  bool   // see docs/rules.md
	SoftPinTTLMs      uint64 // 0 is the master's default
	PreferredSegments []string
	SameSegment       bool   // all objects of the batch on one
	Group             string // objects of one group are leased and evicted together
	Upsert            bool   // replaces what exists; else that is ErrExists
}

func (o *PutOptions) policy() *mooncakev1.PutPolicy {
	return &mooncakev1.PutPolicy{
		Replicas: uint32(max(o.Copies, 1)), SoftPin: o.SoftPin, SoftPinTtlMs: o.SoftPinTTLMs, HardPin: o.HardPin,
		PreferredSegments: o.PreferredSegments, SameSegment: o.SameSegment, Group: o.Group,
	}
}

// Put writes an object.
func (c *Client) Put(ctx context.Context, key string, data []byte, o PutOptions) error {
	defer oneThread(len(data), c.dialer.TakesWhole(len(data)))()
	return c.room(ctx, c.PutBatch(ctx, []Item{{key, data}}, o)[0], uint64(len(data)))
}

// PutBatch writes objects, with two calls to the master for all of them. They succeed or fail alone: the errors are in the
// order of the items.
func (c *Client) PutBatch(ctx context.Context, items []Item, o PutOptions) []error {
	errs := make([]error, len(items))
	todo := make([]int, len(items))
	for i := range todo {
		todo[i] = i
	}
	if len(items) == 0 {
		return errs
	}
	err := c.try(ctx, func(ctx context.Context, number int) error {
		if number > 0 { // an earlier try may have begun them
			if err := c.revoke(ctx, keysOf(items, todo), o.Upsert); err != nil {
				return err
			}
		}
		left, err := c.putOnce(ctx, items, todo, &o, errs)
		todo = left
		return err
	})
	for _, i := range todo {
		errs[i] = err
	}
	if err != nil && len(todo) > 0 {
		c.revokeLate(ctx, keysOf(items, todo), o.Upsert)
	}
	return errs
}

func keysOf(items []Item, which []int) []string {
	keys := make([]string, len(which))
	for k, i := range which {
		keys[k] = items[i].Key
	}
	return keys
}

// putOnce tries to write items. It returns those that are to be tried again; what became of the others is in errs.
func (c *Client) putOnce(ctx context.Context, items []Item, todo []int, o *PutOptions, errs []error) ([]int, error) {
	q := &mooncakev1.StartRequest{Client: c.id, Tenant: c.cfg.Tenant, Policy: o.policy(), Upsert: o.Upsert}
	for _, i := range todo {
		q.Objects = append(q.Objects, &mooncakev1.NewObject{Key: items[i].Key, Size: uint64(len(items[i].Data))})
	}
	var started *mooncakev1.StartReply
	err := c.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
		started, err = mooncakev1.NewObjectsClient(conn).Start(ctx, q)
		return err
	})
	if err != nil {
		return todo, err
	}
	var left, begun []int
	var last error
	places := map[string][]*mooncakev1.Placement{}
	group, moving := transfers(ctx)
	var mu sync.Mutex
	failed := map[int]error{}
	for k, i := range todo {
		r := started.GetResults()[k]
		if err := outcomeError(items[i].Key, r.GetOutcome()); err != nil {
			if err = c.refusal(err); errors.As(err, new(again)) {
				left, last = append(left, i), err
			} else {
				errs[i] = err
			}
			continue
		}
		begun, places[items[i].Key] = append(begun, i), r.GetPlacements()
		copies := inMemory(r.GetPlacements())
		if len(copies) == 0 {
			failed[i] = ErrNoCopy
		}
		pieces := cut(0, items[i].Data)
		for n, m := range copies {
			for at, p := range pieces {
				only(group, len(todo), (len(copies)-n)*len(pieces)-1-at, func() error {
					if err := c.move(moving, m, p, c.dialer.Write); err != nil {
						mu.Lock()
						defer mu.Unlock()
						failed[i] = err
					}
					return nil
				})
			}
		}
	}
	_ = group.Wait() // it fails nowhere: errors are kept by item
	var written []int
	for _, i := range begun {
		if err := failed[i]; err != nil {
			left, last = append(left, i), again{err}
			continue
		}
		written = append(written, i)
	}
	if len(written) > 0 {
		ended, err := c.end(ctx, keysOf(items, written), o.Upsert, places)
		for k, i := range written {
			if errs[i] = err; err == nil {
				errs[i] = ended[k]
			}
		}
	}
	return left, last
}

// end makes written objects readable. An error of an item that was ended by an earlier try is none.
func (c *Client) end(ctx context.Context, keys []string, upsert bool, places map[string][]*mooncakev1.Placement) (errs []error, err error) {
	err = c.try(ctx, func(ctx context.Context, number int) error {
		var reply *mooncakev1.EndReply
		err := c.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
			reply, err = mooncakev1.NewObjectsClient(conn).End(ctx, &mooncakev1.EndRequest{Client: c.id, Tenant: c.cfg.Tenant, Keys: keys, Upsert: upsert})
			return err
		})
		if err != nil {
			return err
		}
		errs = make([]error, len(keys))
		for i, key := range keys {
			if errs[i] = outcomeError(key, reply.GetOutcomes()[i]); errs[i] == nil || number == 0 {
				continue
			}
			same, err := c.sameCopy(ctx, key, places[key])
			if err != nil {
				return err
			}
			if same {
				errs[i] = nil
			}
		}
		return nil
	})
	return errs, err
}

// sameCopy tells whether an object has one of the copies that a write was given.
func (c *Client) sameCopy(ctx context.Context, key string, given []*mooncakev1.Placement) (bool, error) {
	list, err := c.placements(ctx, []string{key}, true)
	if err != nil {
		return false, err
	}
	for _, p := range list[0].GetPlacements() {
		for _, g := range given {
			if p.GetReplicaId() == g.GetReplicaId() {
				return true, nil
			}
		}
	}
	return false, nil
}

// revoke gives up writes that may have been begun. Who begins them anew must know that this was done, since a master that leads only
// now would take them for those of another.
func (c *Client) revoke(ctx context.Context, keys []string, upsert bool) error {
	return c.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		_, err := mooncakev1.NewObjectsClient(conn).Revoke(ctx, &mooncakev1.RevokeRequest{Client: c.id, Tenant: c.cfg.Tenant, Keys: keys, Upsert: upsert})
		return err
	})
}

// revokeLate is revoke when the caller's time is over. What it cannot do the master's timers will.
func (c *Client) revokeLate(ctx context.Context, keys []string, upsert bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.ClientPauseMaxMs*1e6)
	defer cancel()
	_ = c.revoke(ctx, keys, upsert)
}

// Progress is told how much of an object has passed, by the goroutine that called. It may be nil.
type Progress func(done, total uint64)

func (p Progress) tell(done, total uint64) {
	if p != nil {
		p(done, total)
	}
}

// PutStream writes an object of so many bytes from a reader. What was read once is not read again: a transfer that fails is
// the end of it, and nothing is stored then.
func (c *Client) PutStream(ctx context.Context, key string, size uint64, from io.Reader, o PutOptions, progress Progress) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	var placed []*mooncakev1.Placement
	err := c.try(ctx, func(ctx context.Context, number int) error {
		if number > 0 {
			if err := c.revoke(ctx, []string{key}, o.Upsert); err != nil {
				return err
			}
		}
		return c.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
			reply, err := mooncakev1.NewObjectsClient(conn).Start(ctx, &mooncakev1.StartRequest{
				Client: c.id, Tenant: c.cfg.Tenant, Policy: o.policy(), Upsert: o.Upsert, Objects: []*mooncakev1.NewObject{{Key: key, Size: size}},
			})
			if err == nil {
				placed = reply.GetResults()[0].GetPlacements()
				err = c.refusal(outcomeError(key, reply.GetResults()[0].GetOutcome()))
			}
			return err
		})
	})
	if err != nil {
		return c.room(ctx, err, size)
	}
	if err = c.pour(ctx, placed, size, from, progress); err != nil {
		c.revokeLate(ctx, []string{key}, o.Upsert)
		return err
	}
	errs, err := c.end(ctx, []string{key}, o.Upsert, map[string][]*mooncakev1.Placement{key: placed})
	if err != nil {
		return err
	}
	return errs[0]
}

// pour writes what a reader gives to all copies.
func (c *Client) pour(ctx context.Context, placed []*mooncakev1.Placement, size uint64, from io.Reader, progress Progress) error {
	copies := inMemory(placed)
	if len(copies) == 0 {
		return ErrNoCopy
	}
	group, moving := transfers(ctx)
	free := make(chan []byte, limits.ClientTransfers)
	for at := uint64(0); at < size && moving.Err() == nil; {
		var buffer []byte
		select {
		case buffer = <-free:
		default:
			buffer = make([]byte, limits.ClientPieceBytes)
		}
		p := piece{at, buffer[:min(size-at, limits.ClientPieceBytes)]}
		if _, err := io.ReadFull(from, p.data); err != nil {
			_ = group.Wait() // the reader's error is the one to tell
			return err
		}
		group.Go(func() error {
			for _, m := range copies {
				if err := c.move(moving, m, p, c.dialer.Write); err != nil {
					return err
				}
			}
			select {
			case free <- buffer:
			default: // there are enough
			}
			return nil
		})
		at += uint64(len(p.data))
		progress.tell(at, size)
	}
	return group.Wait()
}
