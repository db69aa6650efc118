package replication

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
)

// KeepVigil holds a connection to whoever leads, until ctx ends. When it breaks and the leader's port refuses another,
// the process is gone: then the leader's key is deleted without waiting for its lease. Silence alone proves nothing.
func (m *Member) KeepVigil(ctx context.Context) error {
	var known View // whose process was met
	for ctx.Err() == nil {
		view, changed := m.View()
		if view.Address == "" || view.Address == m.cfg.Address {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		met, gone := m.sitBy(ctx, view, changed)
		switch {
		case met:
			known = view
		case known == view: // an earlier look came too soon, or this master could not take over then
			gone = m.refuses(ctx, view.Address)
		}
		if !gone {
			if !met {
				_ = pause(ctx, limits.VigilRetryMs*time.Millisecond) // the loop asks for the end
			}
			continue
		}
		if !m.Standing().Ready {
			m.shelf.rare.Warn("the leader's process is gone, but this master could not take over", zap.String("leader", view.Address))
			_ = pause(ctx, limits.VigilRetryMs*time.Millisecond) // the loop asks for the end
			continue
		}
		m.cfg.Log.Warn("the leader's process is gone: its key is deleted", zap.String("action", "leader_gone"), zap.String("leader", view.Address), zap.Int64("term", view.Created))
		key := m.shelf.keys.leader
		out, err := m.shelf.etcd.Txn(ctx, []etcdkv.Condition{{Key: key, Created: view.Created}}, []etcdkv.Op{etcdkv.Delete(key)}, nil)
		if err != nil {
			m.cfg.Log.Warn("the key of a leader that is gone was not deleted", zap.Error(err))
			continue
		}
		m.setView(View{}, out.Revision)
	}
	return nil
}

// sitBy waits beside a connection to the leader until it breaks or the view changes. met tells whether there was one, gone
// whether the process behind it has ended.
func (m *Member) sitBy(ctx context.Context, view View, changed <-chan struct{}) (met, gone bool) {
	conn, err := m.cfg.Dial(ctx, view.Address)
	if err != nil {
		return false, false
	}
	broken := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1)) // nobody says anything here
		broken <- err
	}()
	select {
	case <-changed:
	case <-ctx.Done():
	case err = <-broken:
		_ = conn.Close() // broken anyway
		return true, err != nil && m.refuses(ctx, view.Address)
	}
	_ = conn.Close() // ends the reading
	<-broken
	return true, false
}

// refuses tells whether nobody listens at an address any more. A process that is ending may still seem to, for a moment.
func (m *Member) refuses(ctx context.Context, address string) bool {
	refused := 0
	for range limits.VigilTries {
		conn, err := m.cfg.Dial(ctx, address)
		switch {
		case err == nil:
			_ = conn.Close() // it was only to see
			refused = 0
		case errors.Is(err, syscall.ECONNREFUSED):
			if refused++; refused == limits.VigilRefusals {
				return true
			}
		default:
			return false
		}
		if !pause(ctx, limits.VigilPauseMs*time.Millisecond) {
			return false
		}
	}
	return false
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, limits.VigilDialMs*time.Millisecond)
	defer cancel()
	return new(net.Dialer).DialContext(bounded, "tcp", address)
}
