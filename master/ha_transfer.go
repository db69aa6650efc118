package master

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/limits"
	"mooncake/replication"
)

// errYield ends a term because somebody asked for it.
var errYield = errors.New("asked to hand over")

// yielding gives the context of a term, which ends with ctx or when this master is asked to hand over, and a function that ends
// that and tells whether it was asked.
func (c *cluster) yielding(ctx context.Context) (leading context.Context, ended func() (asked bool)) {
	leading, yield := context.WithCancelCause(ctx)
	c.mu.Lock()
	c.yield = yield
	c.mu.Unlock()
	return leading, func() bool {
		c.mu.Lock()
		c.yield = nil
		c.mu.Unlock()
		asked := ctx.Err() == nil && errors.Is(context.Cause(leading), errYield)
		yield(nil)
		return asked
	}
}

// transfer hands the lead over to a standby that could lead at once, and returns who leads then.
func (c *cluster) transfer(ctx context.Context) (replication.View, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.TransferMs*time.Millisecond)
	defer cancel()
	before, _ := c.member.View()
	c.mu.RLock()
	leads := c.service != nil && c.service.history.leads() && c.yield != nil
	c.mu.RUnlock()
	if !leads {
		return before, redirect(c.leader(ctx))
	}
	if err := c.member.Successor(ctx); err != nil {
		return before, status.Errorf(codes.FailedPrecondition, "nobody could take over: %v", err)
	}
	c.mu.RLock()
	yield := c.yield
	c.mu.RUnlock()
	if yield != nil {
		yield(errYield)
	}
	for {
		view, changed := c.member.View()
		if view.Address != "" && view.Created != before.Created {
			if view.Address == c.self {
				return view, status.Error(codes.Aborted, "nobody took over: this master leads again")
			}
			return view, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return view, status.Error(codes.DeadlineExceeded, "the lead was given up, and nobody is known to lead yet")
		}
	}
}

// transferring is a grpcSource of a master that has others.
type transferring interface {
	transfer(ctx context.Context) (replication.View, error)
}

// Transfer implements the call.
func (a adminServer) Transfer(ctx context.Context, _ *mooncakev1.TransferRequest) (*mooncakev1.TransferReply, error) {
	source, ok := a.g.source.(transferring)
	if !ok {
		return nil, status.Error(codes.FailedPrecondition, "this master is alone: --enable_ha makes it one of several")
	}
	if _, err := source.transfer(ctx); err != nil {
		return nil, err
	}
	return &mooncakev1.TransferReply{Leader: a.g.source.leader(ctx)}, nil
}
