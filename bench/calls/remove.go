package calls

import (
	"context"
	"time"

	"mooncake/bench/figures"
	"mooncake/wire"
)

// around is for how long a probe asks before and after what it is to see.
const around = 200 * time.Millisecond

// Watch does something while a probe asks, and a little longer on both sides.
func (s *Session) Watch(ctx context.Context, do func(ctx context.Context) error) (o *Outcome, took time.Duration, err error) {
	p, err := s.probe(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer p.end()
	if err := wait(ctx, around); err != nil {
		return nil, 0, err
	}
	before, err := figures.Read(s.cfg.Pid)
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	if err := do(ctx); err != nil {
		return nil, 0, err
	}
	took = time.Since(began)
	if err := wait(ctx, around); err != nil {
		return nil, 0, err
	}
	after, err := figures.Read(s.cfg.Pid)
	if err != nil {
		return nil, 0, err
	}
	o = gather(nil, before, after)
	o.Probed, err = p.end()
	return o, took, err
}

// RemoveAll removes everything by one call while a probe asks.
func (s *Session) RemoveAll(ctx context.Context) (o *Outcome, took time.Duration, err error) {
	c, err := dial(ctx, s.cfg.Address)
	if err != nil {
		return nil, 0, err
	}
	defer c.close()
	var removed int64
	o, took, err = s.Watch(ctx, func(context.Context) error {
		return ask(c, &wire.RemoveAll, &wire.RemoveAllRequest{Force: true, TenantID: tenant}, &removed)
	})
	if err == nil {
		o.Operations, o.KeysEach = removed, 1
		s.readable.Store(0)
	}
	return o, took, err
}

// wait lets some time pass.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
