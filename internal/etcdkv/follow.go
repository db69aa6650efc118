package etcdkv

import (
	"context"
	"errors"
	"time"

	"mooncake/internal/limits"
)

// FollowKey passes on what a key is, and then everything that it becomes, until ctx ends. see gets nil while there is no
// such key, and may be told twice of the same. failed is told why nothing can be seen for the moment.
func (c *Cluster) FollowKey(ctx context.Context, key string, see func(kv *KV), failed func(error)) {
	for ctx.Err() == nil {
		found, _, revision, err := c.Range(ctx, key, key+"\x00", Page{})
		if err == nil {
			if len(found) > 0 {
				see(&found[0])
			} else {
				see(nil)
			}
			m, next := c.inOrder()[0], revision+1
			err = c.watch(ctx, m, key, key+"\x00", &next, func(events []Event, _ int64) error {
				for i := range events {
					if events[i].Deleted {
						see(nil)
					} else {
						see(&events[i].KV)
					}
				}
				return nil
			})
			switch {
			case errors.Is(err, errSilent): // if all are, the next reading says so
				m.until.Store(time.Now().Add(c.aside).UnixNano())
				err = nil
			case m.identity != nil && staleWatch(err): // the reading was allowed
				err = c.renew(ctx, m)
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, ErrCompacted) {
			failed(err)
		}
		select {
		case <-time.After(limits.EtcdWatchPauseMs * time.Millisecond):
		case <-ctx.Done():
		}
	}
}
