package etcdkv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// do makes a call whose answer says nothing but that it was made.
func (c *Cluster) do(ctx context.Context, hedge time.Duration, what string, call func(ctx context.Context, etcd *clientv3.Client) error) error {
	_, err := ask(ctx, c, what, hedge, func(ctx context.Context, etcd *clientv3.Client) (struct{}, error) {
		return struct{}{}, call(ctx, etcd)
	})
	return err
}

type reply[T any] struct {
	from  int // place in the order
	value T
	err   error
}

// ask makes a call on one member after another until one answers. The next is asked when one has failed, and also when
// none has answered for the time of hedge, unless that is 0: a member that is stopped, or that waits for one, costs no more
// than that.
func ask[T any](ctx context.Context, c *Cluster, what string, hedge time.Duration, call func(ctx context.Context, etcd *clientv3.Client) (T, error)) (T, error) {
	order := c.inOrder()
	var others sync.WaitGroup
	defer others.Wait()
	asking, stop := context.WithCancel(ctx)
	defer stop()
	replies, asked := make(chan reply[T], len(order)), 0
	next := func() {
		at := asked
		asked++
		others.Go(func() {
			bounded, cancel := context.WithTimeout(asking, c.call)
			defer cancel()
			r := reply[T]{from: at}
			r.err = order[at].call(bounded, func(ctx context.Context, etcd *clientv3.Client) (err error) {
				r.value, err = call(ctx, etcd)
				return err
			})
			replies <- r
		})
	}
	var late <-chan time.Time
	if hedge > 0 && len(order) > 1 {
		t := time.NewTicker(hedge)
		defer t.Stop()
		late = t.C
	}
	var errs error
	silent := make(map[int]bool, 1)
	next()
	silent[0] = true
	for len(silent) > 0 {
		select {
		case <-late:
			if asked < len(order) {
				silent[asked] = true
				next()
			}
			continue
		case r := <-replies:
			delete(silent, r.from)
			m := order[r.from]
			if r.err == nil {
				m.until.Store(0)
				for at := range silent {
					if at < r.from { // asked before and overtaken
						order[at].leaveAside(c.aside)
					}
				}
				return r.value, nil
			}
			again, err := m.verdict(what, r.err)
			if !again {
				var none T
				return none, err
			}
			errs = errors.Join(errs, err)
			if ctx.Err() == nil {
				m.leaveAside(c.aside)
				if asked < len(order) {
					silent[asked] = true
					next()
				}
			}
		}
	}
	var none T
	return none, errors.Join(errs, ctx.Err())
}

func (m *member) leaveAside(d time.Duration) { m.until.Store(time.Now().Add(d).UnixNano()) }

// verdict tells whether another member may answer what this one did not, and words its error.
func (m *member) verdict(what string, err error) (again bool, worded error) {
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return false, ErrCompacted
	case errors.Is(err, rpctypes.ErrNoSpace):
		return false, fmt.Errorf("etcd %s: %s: %w", m.address, what, ErrFull)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return false, fmt.Errorf("etcd %s: %s: %w", m.address, what, ErrDenied)
	case !elsewhere(err):
		return false, fmt.Errorf("etcd %s: %s: %w", m.address, what, err)
	}
	return true, fmt.Errorf("etcd %s: %s: %w", m.address, what, m.reason(err))
}
