package client

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/limits"
)

// placements asks where objects are; peek leases nothing.
func (c *Client) placements(ctx context.Context, keys []string, peek bool) ([]*mooncakev1.PlacementsResult, error) {
	var reply *mooncakev1.PlacementsReply
	err := c.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
		reply, err = mooncakev1.NewObjectsClient(conn).Placements(ctx, &mooncakev1.PlacementsRequest{Tenant: c.cfg.Tenant, Keys: keys, Peek: peek})
		return err
	})
	return reply.GetResults(), err
}

// Get reads an object.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	data, errs := c.GetBatch(ctx, []string{key})
	return data[0], errs[0]
}

// GetBatch reads objects, with one call to the master for all of them. They succeed or fail alone, in the order of the keys.
func (c *Client) GetBatch(ctx context.Context, keys []string) (data [][]byte, errs []error) {
	data, errs = make([][]byte, len(keys)), make([]error, len(keys))
	whole := func(size uint64) (uint64, []byte, error) { return 0, newMemory(size), nil }
	todo := make([]int, len(keys))
	for i := range todo {
		todo[i] = i
	}
	if len(keys) == 0 {
		return data, errs
	}
	err := c.try(ctx, func(ctx context.Context, _ int) error {
		left, err := c.getOnce(ctx, keys, todo, whole, data, errs)
		todo = left
		return err
	})
	for _, i := range todo {
		data[i], errs[i] = nil, err
	}
	return data, errs
}

// GetRange reads so many bytes of an object from an offset on. A range that reaches beyond the object is an error.
func (c *Client) GetRange(ctx context.Context, key string, offset, length uint64) ([]byte, error) {
	return c.getPart(ctx, key, func(size uint64) (uint64, []byte, error) {
		if offset > size || length > size-offset {
			return 0, nil, fmt.Errorf("%s: %d bytes from %d on of an object of %d", key, length, offset, size)
		}
		return offset, newMemory(length), nil
	})
}

// GetInto reads an object into memory of the caller's, and returns how many bytes it has. Who reads again and again saves the
// work of finding memory, which for large objects is a good part of reading them. After an error the memory's content is
// undefined, but for one of memory that is too small.
func (c *Client) GetInto(ctx context.Context, key string, memory []byte) (int, error) {
	data, err := c.getPart(ctx, key, func(size uint64) (uint64, []byte, error) {
		if size > uint64(len(memory)) {
			return 0, nil, fmt.Errorf("%s: an object of %d bytes for %d bytes of memory", key, size, len(memory))
		}
		return 0, memory[:size], nil
	})
	return len(data), err
}

// getPart reads the part of an object that place chooses, into memory that it gives.
func (c *Client) getPart(ctx context.Context, key string, place func(size uint64) (from uint64, into []byte, err error)) ([]byte, error) {
	var data [1][]byte
	var errs [1]error
	err := c.try(ctx, func(ctx context.Context, _ int) error {
		left, err := c.getOnce(ctx, []string{key}, []int{0}, place, data[:], errs[:])
		if len(left) > 0 {
			return err
		}
		return nil
	})
	if err = errors.Join(err, errs[0]); err != nil {
		return nil, err
	}
	return data[0], nil
}

// getOnce tries to read objects, of each the part that place chooses, into the memory that it gives. It returns those that are
// to be tried again.
func (c *Client) getOnce(ctx context.Context, keys []string, todo []int, place func(size uint64) (from uint64, into []byte, err error), data [][]byte, errs []error) ([]int, error) {
	asked := time.Now()
	wanted := make([]string, len(todo))
	for k, i := range todo {
		wanted[k] = keys[i]
	}
	results, err := c.placements(ctx, wanted, false)
	if err != nil {
		return todo, err
	}
	var left []int
	var last error
	group, moving := transfers(ctx)
	failures := make([]chan error, len(keys)) // of pieces, read when all have ended
	for k, i := range todo {
		r := results[k]
		if err := outcomeError(keys[i], r.GetOutcome()); err != nil {
			if err = c.refusal(err); errors.As(err, new(again)) {
				left, last = append(left, i), err
			} else {
				errs[i] = err
			}
			continue
		}
		from, into, err := place(r.GetSize())
		if err != nil {
			errs[i] = err
			continue
		}
		data[i] = into
		pieces := cut(from, data[i])
		failures[i] = make(chan error, len(pieces))
		for n, p := range pieces {
			only(group, len(todo), len(pieces)-1-n, func() error {
				if err := c.readAny(moving, r.GetPlacements(), p); err != nil {
					failures[i] <- err
				}
				return nil
			})
		}
	}
	_ = group.Wait() // it fails nowhere: errors are kept by object
	for k, i := range todo {
		if failures[i] == nil {
			continue
		}
		select {
		case err := <-failures[i]:
			left, last, data[i] = append(left, i), again{fmt.Errorf("%s: %w", keys[i], err)}, nil
			continue
		default:
		}
		if over(asked, results[k].GetLeaseMs()) {
			left, last, data[i] = append(left, i), again{fmt.Errorf("%s: %w", keys[i], ErrLeaseOver)}, nil
		} else if uint64(len(data[i])) == results[k].GetSize() && !c.sound(ctx, keys[i], results[k], data[i]) {
			if over(asked, results[k].GetLeaseMs()) {
				left, last, data[i] = append(left, i), again{fmt.Errorf("%s: %w", keys[i], ErrLeaseOver)}, nil
			} else {
				data[i], errs[i] = nil, fmt.Errorf("%s: %w", keys[i], ErrCorrupt)
			}
		}
	}
	return left, last
}

// over tells whether a lease that was asked for at a time may have ended.
func over(asked time.Time, leaseMs uint64) bool {
	return time.Since(asked) >= time.Duration(leaseMs)*time.Millisecond
}

// Exists tells which objects can be read, and leases them.
func (c *Client) Exists(ctx context.Context, keys ...string) (exist []bool, err error) {
	err = c.try(ctx, func(ctx context.Context, _ int) error {
		return c.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
			reply, err := mooncakev1.NewObjectsClient(conn).Exists(ctx, &mooncakev1.ExistsRequest{Tenant: c.cfg.Tenant, Keys: keys})
			exist = reply.GetExists()
			return err
		})
	})
	return exist, err
}

// Remove removes an object. One that is being read is ErrLeased; force removes it too. One that is gone already is
// ErrNotFound, unless an earlier try of this call may have removed it.
func (c *Client) Remove(ctx context.Context, key string, force bool) error {
	return c.try(ctx, func(ctx context.Context, number int) error {
		return c.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
			reply, err := mooncakev1.NewObjectsClient(conn).Remove(ctx, &mooncakev1.RemoveRequest{Tenant: c.cfg.Tenant, Keys: []string{key}, Force: force})
			if err == nil {
				err = outcomeError(key, reply.GetOutcomes()[0])
			}
			if errors.Is(err, ErrNotFound) && number > 0 {
				return nil
			}
			return err
		})
	})
}

// Info is what a list tells of an object.
type Info struct {
	Key    string
	Size   uint64
	Copies int
}

// List yields the readable objects whose keys begin with a prefix, in the order of their keys. It ends with an error, if there
// is one.
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for token := ""; ; {
			var page *mooncakev1.ListReply
			err := c.try(ctx, func(ctx context.Context, _ int) error {
				return c.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
					page, err = mooncakev1.NewObjectsClient(conn).List(ctx, &mooncakev1.ListRequest{Tenant: c.cfg.Tenant, Prefix: prefix, PageToken: token, PageSize: limits.GRPCPageMax})
					return err
				})
			})
			if err != nil {
				yield(Info{}, err)
				return
			}
			for _, o := range page.GetObjects() {
				if !yield(Info{o.GetKey(), o.GetSize(), int(o.GetCopies())}, nil) {
					return
				}
			}
			if token = page.GetNextPageToken(); token == "" {
				return
			}
		}
	}
}

// GetStream reads an object into a writer, piece by piece, and returns how many bytes were written. It renews the lease as long
// as it takes. ErrCorrupt, if the bytes do not have the checksum of the object, comes after the last of them.
func (c *Client) GetStream(ctx context.Context, key string, to io.Writer, progress Progress) (uint64, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	s := &stream{c: c, key: key}
	if err := s.locate(ctx); err != nil {
		return 0, err
	}
	size := s.place.GetSize()
	done, sum := uint64(0), uint32(0)
	for done < size {
		n := min(size-done, limits.ClientPieceBytes*limits.ClientTransfers/2)
		buffer := s.buffer(n)
		if err := s.read(ctx, piece{done, buffer}); err != nil {
			return done, err
		}
		if _, err := to.Write(buffer); err != nil {
			return done, err
		}
		sum = crc32.Update(sum, castagnoli, buffer)
		done += n
		progress.tell(done, size)
	}
	if s.place.Crc32C != nil && s.place.GetCrc32C() != sum {
		s.c.reportWrong(ctx, key, inMemoryIDs(s.place.GetPlacements())...)
		return done, fmt.Errorf("%s: %w", key, ErrCorrupt)
	}
	return done, nil
}

// stream is an object that is being read for a longer time.
type stream struct {
	c     *Client
	key   string
	place *mooncakev1.PlacementsResult
	asked time.Time
	spare []byte
}

func (s *stream) buffer(n uint64) []byte {
	if uint64(cap(s.spare)) < n {
		s.spare = make([]byte, n)
	}
	return s.spare[:n]
}

// errChanged says that a key has another object now.
var errChanged = errors.New("was written anew while it was read")

// locate finds the object and leases it; it must be the same as before.
func (s *stream) locate(ctx context.Context) error {
	return s.c.try(ctx, func(ctx context.Context, _ int) error {
		asked := time.Now()
		list, err := s.c.placements(ctx, []string{s.key}, false)
		if err != nil {
			return err
		}
		if err := outcomeError(s.key, list[0].GetOutcome()); err != nil {
			return s.c.refusal(err)
		}
		if s.place != nil && !shares(s.place, list[0]) {
			return fmt.Errorf("%s: %w", s.key, errChanged)
		}
		s.place, s.asked = list[0], asked
		return nil
	})
}

// shares tells whether two answers have a copy in common.
func shares(a, b *mooncakev1.PlacementsResult) bool {
	for _, p := range a.GetPlacements() {
		for _, q := range b.GetPlacements() {
			if p.GetReplicaId() == q.GetReplicaId() {
				return true
			}
		}
	}
	return false
}

// read reads a part of the object under a lease.
func (s *stream) read(ctx context.Context, part piece) error {
	return s.c.try(ctx, func(ctx context.Context, number int) error {
		if number > 0 || over(s.asked, s.place.GetLeaseMs()/2) {
			if err := s.locate(ctx); err != nil {
				return err
			}
		}
		group, moving := transfers(ctx)
		for _, p := range cut(part.at, part.data) {
			group.Go(func() error { return s.c.readAny(moving, s.place.GetPlacements(), p) })
		}
		if err := group.Wait(); err != nil {
			return again{fmt.Errorf("%s: %w", s.key, err)}
		}
		if over(s.asked, s.place.GetLeaseMs()) {
			return again{fmt.Errorf("%s: %w", s.key, ErrLeaseOver)}
		}
		return nil
	})
}
