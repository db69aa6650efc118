package replication

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
)

// presence is the value of member/<id>: that a member lives, how far it is, and where the others reach it.
type presence struct {
	ID       string `json:"-"`
	GRPC     string `json:"grpc"`     // host:port; empty: it cannot be asked anything
	Applied  uint64 `json:"applied"`  // number of the last record in its history
	Keeps    bool   `json:"keeps"`    // it has a directory for snapshots
	Snapshot string `json:"snapshot"` // id of the one in it; empty: none
	Secret   string `json:"secret"`   // by which it knows other members on its call port, in hex
}

func (k keyspace) members() string         { return k.prefix + "member/" }
func (k keyspace) member(id string) string { return k.prefix + "member/" + id }

// parsePresence reads what a member says of itself.
func parsePresence(id string, value []byte) (p presence, err error) {
	if len(value) > limits.MemberBytes {
		return p, fmt.Errorf("member %s: a value of %d bytes", id, len(value))
	}
	err = json.Unmarshal(value, &p)
	p.ID = id
	return p, err
}

// others lists the members that live, but for one. What cannot be read is none: a later version may write more.
func (s *shelf) others(ctx context.Context, but string) (list []presence, err error) {
	kvs, err := s.all(ctx, s.keys.members())
	if err != nil {
		return nil, err
	}
	for _, kv := range kvs {
		id := strings.TrimPrefix(kv.Key, s.keys.members())
		if p, err := parsePresence(id, kv.Value); err == nil && id != but {
			list = append(list, p)
		}
	}
	return list, nil
}

// Alone tells whether no other member lives. Without an answer from etcd it is taken that one does.
func (m *Member) Alone(ctx context.Context) bool {
	others, err := m.shelf.others(ctx, m.cfg.Address)
	return err == nil && len(others) == 0
}

// KeepPresence tells the other members, until ctx ends, that this one lives, how far it is, and at which address it answers
// them.
func (m *Member) KeepPresence(ctx context.Context, address string) error {
	for ctx.Err() == nil {
		if err := m.presentFor(ctx, address); err != nil && ctx.Err() == nil {
			m.shelf.rare.Warn("the other masters are not told that this one lives", zap.String("action", "presence_failed"), zap.Error(err))
		}
		_ = pause(ctx, limits.LogRetryMs*time.Millisecond) // the loop asks for the end
	}
	return nil
}

// presentFor is KeepPresence for the time of one lease.
func (m *Member) presentFor(ctx context.Context, address string) error {
	etcd := m.shelf.etcd
	lease, _, err := etcd.Grant(ctx, limits.MemberTTLMs*time.Millisecond)
	if err != nil {
		return err
	}
	defer func() {
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.LogFlushMs*time.Millisecond)
		defer cancel()
		_ = etcd.Revoke(leaving, lease) // else it ends by itself
	}()
	told := ""
	for round := 0; ; round++ {
		text, err := json.Marshal(m.presence(address))
		if err != nil {
			return err
		}
		if string(text) != told { // an idle cluster writes nothing
			if _, err := etcd.Txn(ctx, nil, []etcdkv.Op{etcdkv.Put(m.shelf.keys.member(m.cfg.Address), text, lease)}, nil); err != nil {
				return err
			}
			told = string(text)
		}
		if round%limits.MemberRenewEvery == 0 {
			if err := etcd.KeepAlive(ctx, lease); errors.Is(err, etcdkv.ErrNoLease) {
				return nil // another one is drawn
			}
		}
		if !pause(ctx, limits.MemberTellMs*time.Millisecond) {
			return nil
		}
	}
}

func (m *Member) presence(address string) presence {
	p := presence{GRPC: address, Applied: m.Standing().Applied, Keeps: m.shelf.dir != nil, Secret: m.cfg.secret.text()}
	if p.Keeps {
		if ids, err := m.shelf.dir.ids(); err == nil && len(ids) > 0 {
			p.Snapshot = ids[len(ids)-1]
		}
	}
	return p
}

// KeepSnapshot sees to it, until ctx ends, that the snapshot which counts lies with this member too, when it is one that
// members keep and this one has a directory for it.
func (m *Member) KeepSnapshot(ctx context.Context) error {
	if m.shelf.dir == nil {
		return nil
	}
	for pause(ctx, limits.SnapshotLookMs*time.Millisecond) {
		if err := m.keepSnapshot(ctx); err != nil && ctx.Err() == nil {
			m.shelf.rare.Warn("the snapshot that counts is not kept here", zap.String("action", "snapshot_not_kept"), zap.Error(err))
		}
	}
	return nil
}

func (m *Member) keepSnapshot(ctx context.Context) error {
	p, found, err := m.shelf.currentSnapshot(ctx)
	if err != nil || !found || p.Place != placeMembers {
		return err
	}
	if _, err := m.shelf.dir.text(p); err == nil {
		return m.shelf.dir.prune(p.ID)
	}
	text, err := m.shelf.fetch(ctx, p)
	if err != nil {
		return err
	}
	if err := m.shelf.dir.keep(p, text); err != nil {
		return err
	}
	m.shelf.log.Info("snapshot kept", zap.String("id", p.ID), zap.Int64("bytes", p.Bytes))
	return m.shelf.dir.prune(p.ID)
}
