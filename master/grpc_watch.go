package master

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// watchedKey is something that happened to an object.
type watchedKey struct {
	tenant, key string
	gone, disk  bool
}

// watchers are the streams that are told of objects. What the catalog tells is gathered until it is durable, as for other
// subscribers. The lock is a leaf.
type watchers struct {
	count atomic.Int32  // of list; nobody is told while there are none
	some  chan struct{} // pending begins to fill

	mu      sync.Mutex
	list    map[*watcher]struct{}
	pending []watchedKey
	lost    bool // pending is not all
}

// watcher is one stream.
type watcher struct {
	tenant string
	queue  chan []watchedKey // closed when it missed something
}

// hear is called under the catalog's lock.
func (w *watchers) hear(s *Service, o *catalog.ObjectEvent) {
	if w.count.Load() == 0 {
		return
	}
	tenant, key := s.plainKey(o.Key)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) >= limits.EventsQueueMax {
		w.lost = true
		return
	}
	if w.pending = append(w.pending, watchedKey{strings.Clone(tenant), strings.Clone(key), o.Gone, o.Disk}); len(w.pending) == 1 {
		ring(w.some)
	}
}

func (w *watchers) add(tenant string) (*watcher, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.list) >= limits.GRPCWatchers {
		return nil, status.Errorf(codes.ResourceExhausted, "%d streams watch already", len(w.list))
	}
	x := &watcher{tenant: tenant, queue: make(chan []watchedKey, limits.GRPCWatchQueue)}
	if w.list == nil {
		w.list = map[*watcher]struct{}{}
	}
	w.list[x] = struct{}{}
	w.count.Store(int32(len(w.list)))
	return x, nil
}

func (w *watchers) remove(x *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.list, x)
	w.count.Store(int32(len(w.list)))
}

// tellWatchers passes on what is durable until ctx ends.
func (s *Service) tellWatchers(ctx context.Context) error {
	return gathered(ctx, s.watchers.some, limits.EventsFlushMs*time.Millisecond, func() {
		w := &s.watchers
		w.mu.Lock()
		pending, lost := w.pending, w.lost
		w.pending, w.lost = nil, false
		w.mu.Unlock()
		if len(pending) == 0 || s.history.wait() != nil || !s.history.leads() {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for x := range w.list {
			select {
			case x.queue <- pending: // nobody changes it
				if !lost {
					continue
				}
			default:
			}
			close(x.queue)
			delete(w.list, x)
		}
		w.count.Store(int32(len(w.list)))
	})
}

// watch passes events of a tenant to a stream until it ends. look is called once nothing is missed
// any more, and first after that, when the service is not held.
func (g *grpcServer) watch(ctx context.Context, tenant string, look func(s *Service), first func() error, tell func([]watchedKey) error) error {
	s, release, err := g.source.hold(ctx)
	if err != nil {
		return err
	}
	if tenant = s.tenantOf(tenant); tenant == "" || !s.cfg.MultiTenants {
		tenant = defaultTenant
	}
	x, err := s.watchers.add(tenant)
	if err == nil {
		defer s.watchers.remove(x)
		look(s)
	}
	release()
	if err == nil {
		err = first()
	}
	for err == nil {
		select {
		case seen, open := <-x.queue:
			if !open {
				return status.Error(codes.DataLoss, "the reader of this stream is too slow: events were left out")
			}
			err = tell(ofTenant(seen, tenant))
		case <-s.quit:
			if to := g.source.leader(ctx); to != nil {
				return redirect(to)
			}
			return status.Error(codes.Unavailable, "this master stops")
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	return err
}

func ofTenant(seen []watchedKey, tenant string) (own []watchedKey) {
	for _, k := range seen {
		if k.tenant == tenant {
			own = append(own, k)
		}
	}
	return own
}
