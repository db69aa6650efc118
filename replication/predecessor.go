package replication

import (
	"context"

	"go.uber.org/zap"

	"mooncake/internal/etcdkv"
)

// buryPredecessor deletes a leader's key that has this member's own address and was there before this member made any: it is
// of a process that is gone, since its port is this one's now. Without that a master that is started again at once would keep
// the others from seeing that the former one is gone, and everybody would wait for the lease. It is done once, with the key
// that is found at the start: two masters that were given one address by mistake must not depose each other for ever.
func (m *Member) buryPredecessor(ctx context.Context, found etcdkv.KV) {
	if string(found.Value) != m.cfg.Address || found.Lease == m.lease.Load() {
		return
	}
	m.cfg.Log.Warn("the leader's key is of a former process at this address: it is deleted", zap.String("action", "leader_gone"),
		zap.String("leader", m.cfg.Address), zap.Int64("term", found.Created))
	key := m.shelf.keys.leader
	out, err := m.shelf.etcd.Txn(ctx, []etcdkv.Condition{{Key: key, Created: found.Created}}, []etcdkv.Op{etcdkv.Delete(key)}, nil)
	if err != nil {
		m.cfg.Log.Warn("the key of a leader that is gone was not deleted", zap.Error(err))
		return
	}
	if out.Done {
		m.setView(View{}, out.Revision)
	}
}
