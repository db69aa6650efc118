package master

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mooncake/internal/etcdkv"
	"mooncake/internal/etcdkv/etcdfake"
	"mooncake/replication"
	"mooncake/wire"
	"mooncake/wire/rpc"
)

// modest is an etcd in which a master does not become the leader as long as others are to be.
type modest struct {
	*etcdkv.Cluster
	steps atomic.Bool // aside
}

func (m *modest) Txn(ctx context.Context, conditions []etcdkv.Condition, then, otherwise []etcdkv.Op) (etcdkv.Outcome, error) {
	for i := range then {
		if then[i].Kind == etcdkv.OpPut && strings.HasSuffix(then[i].Key, "/master_view") && m.steps.Load() {
			return etcdkv.Outcome{}, errors.New("not now")
		}
	}
	return m.Cluster.Txn(ctx, conditions, then, otherwise)
}

// newModest starts a master that can be told to leave the lead to others.
func newModest(t *testing.T, etcd *etcdfake.Server) (*bed, *modest) {
	t.Helper()
	store := &modest{}
	return newMemberWith(t, etcd, func(s *Server) {
		kv, err := etcdkv.OpenCluster([]string{etcd.Address()}, etcdkv.Access{})
		if err != nil {
			t.Fatal(err)
		}
		store.Cluster = kv
		was := s.cluster.member
		s.cluster.member, err = replication.OpenMember(replication.MemberConfig{
			Store: store, Cluster: s.cfg.ClusterID, Address: s.cluster.self, TTL: s.cfg.LeaderTTL, Catalog: s.cfg.catalog(), Log: s.log,
		})
		if err = errors.Join(err, was.Close()); err != nil {
			t.Fatal(err)
		}
	}), store
}

// persistent is a client that puts one object after another at one address, whatever happens to its connection.
type persistent struct {
	acked atomic.Int64
	mu    sync.Mutex
	keys  []string // acknowledged
}

func (w *persistent) run(ctx context.Context, t *testing.T, port int) {
	p := &peer{t: t, d: wire.V13, id: newID()}
	for n := 0; ctx.Err() == nil; n++ {
		if p.caller == nil {
			c, err := rpc.Dial(ctx, "127.0.0.1:"+strconv.Itoa(port), rpc.ClientConfig{})
			if err != nil {
				continue
			}
			defer c.Close()
			p.caller = c
		}
		key := fmt.Sprintf("%d/%d", port, n)
		start, err := try(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: key, Size: 4096, Config: oneCopy()})
		if err == nil && start.Err == 0 {
			var end wire.PutEndReply
			end, err = try(p, &wire.PutEnd, &wire.PutEndRequest{ClientID: p.id, Object: wire.ObjectMeta{Key: key}, ReplicaType: wire.ReplicaTypeAll})
			if err == nil && end.Err == 0 {
				w.mu.Lock()
				w.keys = append(w.keys, key)
				w.mu.Unlock()
				w.acked.Add(1)
			}
		}
		if err != nil {
			p.caller = nil
		}
	}
}

// TestLeadsAgain takes the lease from a leader that goes on living, twice: the first steps down, passes clients on to the
// second, and leads again in the same process when that loses its lease. Nothing that was acknowledged meanwhile is lost.
func TestLeadsAgain(t *testing.T) {
	etcd := startEtcd(t)
	first, firstStore := newModest(t, etcd)
	first.awaitState("serving")
	second, secondStore := newModest(t, etcd)
	second.awaitState("standby")
	first.client(wire.V13).mount("pool", 1<<44, 1<<34)
	writers := [2]persistent{}
	writing, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	end := func() { stop(); all.Wait() }
	defer end()
	for i, b := range []*bed{first, second} {
		all.Go(func() { writers[i].run(writing, t, b.Ports().RPC) })
	}
	more := func(what string) {
		t.Helper()
		for i := range writers {
			before := writers[i].acked.Load()
			waitFor(t, fmt.Sprintf("puts at member %d %s", i, what), func() bool { return writers[i].acked.Load() > before+3 })
		}
	}
	more("before")
	for round, turn := range []struct {
		loser, winner *bed
		store         *modest
	}{{first, second, firstStore}, {second, first, secondStore}} {
		turn.store.steps.Store(true)
		before := turn.loser.cluster.Standing().ViewVersion
		etcd.Expire()
		turn.winner.awaitState("serving")
		turn.loser.awaitState("standby")
		turn.store.steps.Store(false)
		if now := turn.winner.cluster.Standing().ViewVersion; now <= before {
			t.Errorf("term %d after %d", now, before)
		}
		if status, _, header := adminGet(t, turn.loser, "/get_all_keys"); status != http.StatusServiceUnavailable || header.Get(leaderHeader) != turn.winner.cluster.self {
			t.Errorf("round %d: the one that was deposed answers %d and names %q", round, status, header.Get(leaderHeader))
		}
		more(fmt.Sprint("in round ", round))
	}
	end()
	for _, b := range []*bed{first, second} {
		p := b.client(wire.V13)
		for i := range writers {
			for _, key := range writers[i].keys {
				if !p.exists(key) {
					t.Errorf("%s was acknowledged and is lost", key)
				}
			}
		}
	}
	expect(t, "terms of the first", first.cluster.Stats().HA.Terms, 2)
	expect(t, "terms of the second", second.cluster.Stats().HA.Terms, 1)
	t.Logf("%d and %d objects acknowledged", len(writers[0].keys), len(writers[1].keys))
}
