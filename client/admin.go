package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/limits"
	"mooncake/internal/units"
)

// Ask makes one call to the master that leads, again and again until it is answered or the context ends: for calls that this
// package does not wrap, and that may be repeated.
func (c *Client) Ask(ctx context.Context, do func(ctx context.Context, conn grpc.ClientConnInterface) error) error {
	return c.try(ctx, func(ctx context.Context, _ int) error {
		return c.ask(ctx, do)
	})
}

// room says beside a refusal for want of room what there is.
func (c *Client) room(ctx context.Context, err error, need uint64) error {
	if !errors.Is(err, ErrNoSpace) || ctx.Err() != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limits.ClientPauseMaxMs*time.Millisecond)
	defer cancel()
	list, listErr := c.Segments(ctx)
	if listErr != nil {
		return err
	}
	largest := uint64(0)
	for _, s := range list {
		largest = max(largest, s.GetLargestFree())
	}
	return fmt.Errorf("%w: %d bytes are needed, the largest free range of %d segments has %s", err, need, len(list), units.FormatSize(largest))
}

// Segments lists the segments of the pool.
func (c *Client) Segments(ctx context.Context) (list []*mooncakev1.Segment, err error) {
	err = c.Ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		reply, err := mooncakev1.NewSegmentsClient(conn).List(ctx, &mooncakev1.ListSegmentsRequest{})
		list = reply.GetSegments()
		return err
	})
	return list, err
}
