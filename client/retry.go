package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/limits"
)

// quick is how a connection to a master is made again: the pauses between calls are this package's own.
var quick = backoff.Config{BaseDelay: limits.ClientPauseMinMs * time.Millisecond, Multiplier: 2, Jitter: 0.5, MaxDelay: limits.ClientPauseMaxMs * time.Millisecond}

// again marks an error after which the whole is to be tried again.
type again struct{ error }

func (a again) Unwrap() error { return a.error }

// try runs do until it ends otherwise than with again, or the context does. do is told which try it is.
func (c *Client) try(ctx context.Context, do func(ctx context.Context, number int) error) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	pause := limits.ClientPauseMinMs * time.Millisecond
	for number := 0; ; number++ {
		err := do(ctx, number)
		var retry again
		if !errors.As(err, &retry) {
			return err
		}
		if ctx.Err() != nil {
			return late(ctx, retry.error)
		}
		c.retries.Add(1)
		timer := time.NewTimer(pause/2 + rand.N(pause)/2)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return late(ctx, retry.error)
		}
		pause = min(2*pause, limits.ClientPauseMaxMs*time.Millisecond)
	}
}

// late says that time is over, and what was in the way.
func late(ctx context.Context, last error) error {
	if last == nil || errors.Is(last, ctx.Err()) {
		return ctx.Err()
	}
	return fmt.Errorf("%w; the last try: %w", ctx.Err(), last)
}

// ask makes one call to the master that leads. An error that another try may help against is an again.
func (c *Client) ask(ctx context.Context, do func(ctx context.Context, conn grpc.ClientConnInterface) error) error {
	conn, address, err := c.master()
	if err != nil {
		return err
	}
	one, cancel := context.WithTimeout(ctx, limits.ClientCallMs*time.Millisecond)
	defer cancel()
	c.calls.Add(1)
	err = do(one, conn)
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.Unavailable:
		c.turn(address, leaderIn(err))
		return again{err}
	case codes.DeadlineExceeded, codes.Canceled:
		if ctx.Err() != nil {
			return late(ctx, err)
		}
		c.turn(address, "")
		return again{err}
	case codes.ResourceExhausted:
		if c.cfg.WaitForRoom {
			return again{callError(err)}
		}
	}
	return callError(err)
}

// leaderIn finds the address of the leader in a standby's answer.
func leaderIn(err error) string {
	for _, d := range status.Convert(err).Details() {
		if to, ok := d.(*mooncakev1.Redirect); ok {
			return to.GetGrpcAddress()
		}
	}
	return ""
}

// refusal is the error of an item: again if another try may help against it.
func (c *Client) refusal(err error) error {
	if errors.Is(err, ErrNoSpace) && c.cfg.WaitForRoom || errors.Is(err, ErrNotReady) {
		return again{err}
	}
	return err
}
