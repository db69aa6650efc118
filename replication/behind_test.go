package replication

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/etcdkv"
	"mooncake/internal/etcdsim"
	"mooncake/internal/limits"
)

// interrupted is a store in which much happens while it is asked for the snapshot that counts.
type interrupted struct {
	Store
	keys keyspace
	once sync.Once
	do   func()
}

func (s *interrupted) Range(ctx context.Context, from, to string, p etcdkv.Page) (found []etcdkv.KV, more bool, revision int64, err error) {
	if from == s.keys.current() {
		s.once.Do(s.do)
	}
	return s.Store.Range(ctx, from, to, p)
}

// flood writes records one by one until the log was joined behind a record.
func (m *master) flood(t *testing.T, c *cluster, behind uint64) {
	t.Helper()
	for last := behind; last < behind+2*limits.LogRollAbove; last = m.settle() {
		m.step()
	}
	m.term().poke()
	waitFor(t, "records to be joined", func() bool { return c.etcd.Keys(c.keys.logs())[0] > c.keys.log(behind+1) })
}

// TestReadingUnderAFlood lets a leader write faster than another reads: what the reader lacks has been joined when he comes to
// it, and he reads it there instead of beginning anew, for ever if the flood goes on.
func TestReadingUnderAFlood(t *testing.T) {
	c := newCluster(t)
	m := c.join("a:1").lead()
	m.mount(1, 1<<20)
	var slow *interrupted
	b := c.joinPeer("b:1", func(cfg *MemberConfig) {
		etcd, err := etcdkv.OpenCluster(cfg.Endpoints, cfg.Access)
		if err != nil {
			t.Fatal(err)
		}
		slow = &interrupted{Store: etcd, keys: c.keys, do: func() { m.flood(t, c, m.settle()) }}
		cfg.Store = slow
	})
	b.standBy()
	last := m.settle()
	waitFor(t, "the standby to have everything", func() bool { return b.Standing().Applied == last })
	if n := b.logs.FilterMessage("log read from etcd").Len(); n != 1 {
		t.Errorf("the log was read %d times", n)
	}
}

// TestLeadingFromBehind takes the lead with a history whose next records were joined.
func TestLeadingFromBehind(t *testing.T) {
	c := newCluster(t)
	a := c.join("a:1")
	m := a.lead()
	m.mount(1, 1<<20)
	b := c.join("b:1")
	h, err := b.shelf.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.flood(t, c, h.Last)
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	if err := m.term().Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	term, err := b.campaign(t.Context(), h)
	if err != nil || term == nil {
		t.Fatal(err)
	}
	n := b.rule(term, h)
	expectSame(t, "the new leader", n.describe(), m.describe())
}

// TestLeaseWhileServingIsPrepared lets much time pass between the lead and the serving: the lease is renewed meanwhile, and
// not any more when the member says that the term has ended.
func TestLeaseWhileServingIsPrepared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		etcd := etcdsim.NewStore()
		var all sync.WaitGroup
		all.Go(func() { etcd.Run(ctx) })
		began := time.Now()
		m, err := OpenMember(MemberConfig{
			Cluster: "test", Address: "a:1", TTL: 3 * time.Second, Catalog: catalogConfig(), Log: zap.NewNop(),
			Store: etcd.Link(1), Boot: func() int64 { return int64(time.Since(began)) },
		})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() { _ = m.Follow(ctx) }) // it ends without an error
		term, h, err := m.Lead(ctx)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Second) // of the bubble
		if view, _ := m.View(); !term.Leads() || view.Created != term.Created() {
			t.Errorf("after 20 s of preparation: leads %v, view %+v", term.Leads(), view)
		}
		m.Ended(term)
		<-time.After(10 * time.Second)
		if _, there := etcd.Read(m.shelf.keys.leader); there {
			t.Error("the key outlives the term")
		}
		h.Catalog.Close()
		cancel()
		all.Wait()
	})
}

// TestLeaseWhileCatchingUp renews the lease while what is left of the log is read.
func TestLeaseWhileCatchingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		etcd := etcdsim.NewStore()
		var all sync.WaitGroup
		all.Go(func() { etcd.Run(ctx) })
		began := time.Now()
		m := &Member{shelf: shelf{etcd: etcd.Link(1), boot: func() int64 { return int64(time.Since(began)) }}, cfg: MemberConfig{TTL: 3 * time.Second}}
		l, err := m.drawLease(ctx)
		if err != nil {
			t.Fatal(err)
		}
		first := l.sent
		if err := m.holding(ctx, &l, func() error {
			<-time.After(20 * time.Second) // of the bubble
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := m.shelf.etcd.KeepAlive(ctx, l.id); err != nil || l.sent-first < int64(15*time.Second) {
			t.Errorf("the lease: %v, renewed last %v after it was drawn", err, time.Duration(l.sent-first))
		}
		cancel()
		all.Wait()
	})
}
