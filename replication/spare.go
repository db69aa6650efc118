package replication

import (
	"context"
	"sync"
	"time"

	"mooncake/internal/limits"
)

// lease is a lease of the length of a leader's.
type lease struct {
	id   int64 // 0: none
	ttl  time.Duration
	sent int64 // when the call was sent that drew or renewed it last, on the clock of the shelf
}

// keepSpare keeps a lease at hand for the moment at which this standby can lead: drawing it then would cost one of the
// few calls that clients wait for.
func (m *Member) keepSpare(ctx context.Context) {
	sent := m.shelf.boot()
	if m.spare.id != 0 {
		if m.shelf.etcd.KeepAlive(ctx, m.spare.id) == nil {
			m.spare.sent = sent
			return
		}
		m.spare = lease{} // it is not known how long it lives
	}
	if drawn, err := m.drawLease(ctx); err == nil {
		m.spare = drawn
	}
}

// takeSpare gives the lease at hand, if most of its time is left, or else a new one.
func (m *Member) takeSpare(ctx context.Context) (lease, error) {
	l := m.spare
	m.spare = lease{}
	if l.id != 0 && m.shelf.boot()-l.sent < int64(l.ttl)/2 {
		return l, nil
	}
	return m.drawLease(ctx)
}

func (m *Member) drawLease(ctx context.Context) (lease, error) {
	sent := m.shelf.boot()
	id, ttl, err := m.shelf.etcd.Grant(ctx, m.cfg.TTL)
	return lease{id, min(ttl, m.cfg.TTL), sent}, err
}

// holding does something while the lease of the leader's key is renewed: what is left of the log may be long.
func (m *Member) holding(ctx context.Context, l *lease, do func() error) error {
	renewing, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop()
	beside.Go(func() {
		for pause(renewing, l.ttl/(2*limits.LeaderRenewals)) { // half of its time may be gone already
			sent := m.shelf.boot()
			if m.shelf.etcd.KeepAlive(renewing, l.id) == nil {
				l.sent = sent
			}
		}
	})
	return do()
}
