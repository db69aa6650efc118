package client

import (
	"context"

	"google.golang.org/grpc"

	mooncakev1 "mooncake/api/mooncake/v1"
)

// Ask makes one call to the master that leads, again and again until it is answered or the context ends: for calls that this
// package does not wrap, and that may be repeated.
func (c *Client) Ask(ctx context.Context, do func(ctx context.Context, conn grpc.ClientConnInterface) error) error {
	return c.try(ctx, func(ctx context.Context, _ int) error {
		return c.ask(ctx, func(ctx context.Context, conn *grpc.ClientConn) error { return do(ctx, conn) })
	})
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
