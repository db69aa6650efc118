package etcdkv

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"mooncake/internal/limits"
)

// Event is one change of a key.
type Event struct {
	KV
	Deleted bool
}

// watches numbers the watches of this process.
var watches atomic.Uint64

var errSilent = errors.New("it sends nothing any more")

// Watch passes on what happens to the keys from one up to, and without, another, from a revision on, until ctx ends or
// see returns an error. see is called without events when etcd only says that it is there. A member that falls silent is
// replaced by the next. ErrCompacted means that events are lost.
func (c *Cluster) Watch(ctx context.Context, from, to string, revision int64, see func(events []Event, revision int64) error) error {
	next := revision
	renewed := false
	for {
		m := c.inOrder()[0]
		before := next
		err := c.watch(ctx, m, from, to, &next, see)
		if next > before {
			renewed = false
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errSilent):
			m.until.Store(time.Now().Add(c.aside).UnixNano())
			select {
			case <-time.After(limits.EtcdWatchPauseMs * time.Millisecond):
			case <-ctx.Done():
			}
		case m.identity != nil && staleWatch(err) && !renewed:
			renewed = true
			if err := c.renew(ctx, m); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// renew draws a new token for a watch that was refused.
func (c *Cluster) renew(ctx context.Context, m *member) error {
	bounded, cancel := context.WithTimeout(ctx, c.call)
	defer cancel()
	if err := m.identity.renew(bounded, m.etcd, m.identity.current()); err != nil {
		return fmt.Errorf("etcd %s: watch: %w", m.address, m.reason(err))
	}
	return nil
}

func (c *Cluster) watch(ctx context.Context, m *member, from, to string, next *int64, see func([]Event, int64) error) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	if m.identity != nil { // watches that share a stream would share the token that it was opened with
		ctx = metadata.AppendToOutgoingContext(ctx, "watch", strconv.FormatUint(watches.Add(1), 10))
	}
	opening := time.AfterFunc(limits.EtcdWatchSilentMs*time.Millisecond, cancel) // it waits for a connection
	events := m.etcd.Watch(ctx, from, clientv3.WithRange(to), clientv3.WithRev(*next), clientv3.WithCreatedNotify())
	opening.Stop()
	tick := time.NewTicker(limits.EtcdWatchProbeMs * time.Millisecond)
	defer tick.Stop()
	heard := time.Now()
	for {
		select {
		case <-tick.C:
			if time.Since(heard) > limits.EtcdWatchSilentMs*time.Millisecond {
				return errSilent
			}
			asking, done := context.WithTimeout(ctx, limits.EtcdWatchAskMs*time.Millisecond)
			_ = m.etcd.RequestProgress(asking) // the answer is an event without content; no answer shows as silence
			done()
		case r, ok := <-events:
			if !ok {
				return errSilent
			}
			heard = time.Now()
			if err := r.Err(); err != nil {
				if errors.Is(err, rpctypes.ErrCompacted) {
					return ErrCompacted
				}
				if elsewhere(err) {
					return errSilent
				}
				return fmt.Errorf("etcd %s: watch: %w", m.address, err)
			}
			list := make([]Event, len(r.Events))
			for i, e := range r.Events {
				list[i] = Event{KV{string(e.Kv.Key), e.Kv.Value, e.Kv.CreateRevision, e.Kv.ModRevision, e.Kv.Lease}, e.Type == clientv3.EventTypeDelete}
			}
			if err := see(list, r.Header.GetRevision()); err != nil {
				return err
			}
			if len(list) > 0 {
				*next = list[len(list)-1].Modified + 1
			}
		}
	}
}
