package etcdkv

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"mooncake/internal/limits"
)

// prefer has the member asked first that leads etcd. Any other has to pass on to it whatever is written, which costs all of
// the bytes once more and the caller a turn between the two. Where the leader is not among the endpoints their order counts.
func (c *Cluster) prefer(ctx context.Context, leader uint64) {
	if leader == 0 || len(c.members) == 1 {
		return
	}
	var first *member
	for _, m := range c.members {
		if m.identify(ctx) == leader {
			first = m
			break
		}
	}
	c.first.Store(first)
	if first == nil {
		for _, m := range c.members { // a member that was replaced has another number
			m.id.Store(0)
		}
	}
}

// identify asks a member for the number that it has in etcd; 0 is that it does not tell at the moment.
func (m *member) identify(ctx context.Context) uint64 {
	if id := m.id.Load(); id != 0 || m.until.Load() > time.Now().UnixNano() {
		return id
	}
	bounded, cancel := context.WithTimeout(ctx, limits.EtcdHedgeMs*time.Millisecond)
	defer cancel()
	_ = m.call(bounded, func(ctx context.Context, etcd *clientv3.Client) error { // whoever is silent is asked the next time
		answer, err := etcd.Status(ctx, m.address)
		if err == nil {
			m.id.Store(answer.Header.GetMemberId())
		}
		return err
	})
	return m.id.Load()
}
