package replication

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mooncake/catalog"
	"mooncake/internal/etcdkv"
	"mooncake/internal/etcdkv/etcdfake"
	"mooncake/internal/limits"
)

// cluster is a fake etcd with masters that share a log in it.
type cluster struct {
	t    *testing.T
	etcd *etcdfake.Server
	keys keyspace
	log  *zap.Logger // of members that join
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	etcd, err := etcdfake.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	return &cluster{t, etcd, keysOf("test"), zap.NewNop()}
}

// node is one member with its goroutines.
type node struct {
	*Member
	c    *cluster
	stop func()
}

// watchAndWait keeps the vigil and leads when it is this node's turn; won has the outcome. end ends both.
func (n *node) watchAndWait(t *testing.T) (won <-chan error, end func()) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	vigil, outcome := make(chan struct{}), make(chan error, 1)
	go func() { defer close(vigil); _ = n.KeepVigil(ctx) }() // it ends without an error
	go func() {
		term, h, err := n.Lead(ctx)
		if err == nil {
			n.rule(term, h)
		}
		outcome <- err
	}()
	return outcome, func() {
		cancel()
		<-vigil
	}
}

func (c *cluster) join(address string) *node {
	c.t.Helper()
	m, err := OpenMember(MemberConfig{
		Endpoints: []string{c.etcd.Address()}, Cluster: "test", Address: address, TTL: 60 * time.Second, Compact: true,
		Catalog: catalogConfig(), Log: c.log,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = m.Follow(ctx) }) // it ends without an error
	n := &node{Member: m, c: c}
	n.stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
		if err := m.Close(); err != nil {
			c.t.Error(err)
		}
	})
	c.t.Cleanup(n.stop)
	return n
}

// lead waits until a member leads and returns a master on its log.
func (n *node) lead() *master {
	n.c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	term, h, err := n.Lead(ctx)
	if err != nil {
		n.c.t.Fatal(err)
	}
	return n.rule(term, h)
}

func (n *node) rule(term *Term, h *History) *master {
	m := &master{t: n.c.t, log: term, history: h, cat: h.Catalog, now: h.Time + 1, dice: rand.New(rand.NewPCG(1, 2)), client: catalog.UUID{Hi: 1, Lo: 1}, names: kept(h)}
	m.cat.SetLog(term)
	term.OnDurable(m.cat.Settled)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- term.Run(ctx) }()
	var once sync.Once
	var err error
	m.stop = func() error {
		once.Do(func() {
			cancel()
			err = <-ended
			n.Ended(term)
		})
		return err
	}
	n.c.t.Cleanup(func() {
		_ = m.stop() // a test that wants to know has stopped it before
		m.cat.Close()
	})
	return m
}

func (m *master) term() *Term { return m.log.(*Term) }

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); !ok(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("waited in vain for " + what)
		}
	}
}

// TestLeaderAfterLeader lets leaders follow each other, by resignation and by the end of the lease: each has all that was
// acknowledged before, and the one before can write nothing more.
func TestLeaderAfterLeader(t *testing.T) {
	c := newCluster(t)
	a, b := c.join("a:1"), c.join("b:1")
	first := a.lead()
	if value, _ := c.etcd.Value(c.keys.leader); value != "a:1" {
		t.Fatalf("the leader's key has %q", value)
	}
	first.mount(1, 1<<20)
	for range 200 {
		first.step()
	}
	type elected struct {
		term *Term
		h    *History
		err  error
	}
	next := make(chan elected, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		term, h, err := b.Lead(ctx)
		next <- elected{term, h, err}
	}()
	first.settle()
	waitFor(t, "the standby to be ready", func() bool {
		s := b.Standing()
		return s.State == StateStandby && s.Ready && s.Applied == first.term().Last()
	})
	for range 200 {
		first.step()
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	want := first.describe()
	if err := first.term().Resign(ctx); err != nil {
		t.Fatal(err)
	}
	won := <-next
	if won.err != nil {
		t.Fatal(won.err)
	}
	second := b.rule(won.term, won.h)
	expectSame(t, "after the hand-over", second.describe(), want)
	second.step()
	second.settle()

	// The lease ends unnoticed, and a third leads: what the second decides then is not acknowledged, and not there.
	for range 50 {
		second.step()
	}
	second.settle()
	want = second.describe()
	c.etcd.Expire()
	third := c.join("c:1").lead()
	expectSame(t, "after the end of a lease", third.describe(), want)
	number := second.term().Append([]catalog.Change{{Kind: catalog.ChangeCount, Replicas: []catalog.ReplicaChange{{ID: 1 << 40}}}})
	if err := second.term().Wait(ctx, number); !errors.Is(err, ErrDeposed) {
		t.Fatalf("a deposed leader's record: %v", err)
	}
	if err := second.stop(); !errors.Is(err, ErrDeposed) {
		t.Fatalf("a deposed leader ends with %v", err)
	}
	if err := second.term().WaitLeading(ctx); !errors.Is(err, ErrDeposed) {
		t.Fatalf("a deposed leader answers: %v", err)
	}
	third.step()
	third.settle()
}

// TestAnswersOfEtcdGetLost loses answers to transactions that took effect: nothing is written twice, and the term goes on.
func TestAnswersOfEtcdGetLost(t *testing.T) {
	c := newCluster(t)
	m := c.join("a:1").lead()
	m.mount(1, 1<<20)
	for range 20 {
		c.etcd.Lose(1)
		for range 5 {
			m.step()
		}
		m.settle()
	}
	want, last := m.describe(), m.term().Last()
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	c.etcd.Lose(1) // the key's deletion
	if err := m.term().Resign(t.Context()); err == nil {
		t.Fatal("no answer was lost")
	}
	c.etcd.Lose(1) // the key's creation
	again := c.join("b:1").lead()
	expectSame(t, "after lost answers", again.describe(), want)
	if got := again.term().Last(); got != last {
		t.Errorf("%d records instead of %d", got, last)
	}
}

// refusing fails the first transactions, which then have no effect.
type refusing struct {
	*etcdkv.Cluster
	times atomic.Int32
}

func (s *refusing) Txn(ctx context.Context, conditions []etcdkv.Condition, then, otherwise []etcdkv.Op) (etcdkv.Outcome, error) {
	if s.times.Add(-1) >= 0 {
		return etcdkv.Outcome{}, errors.New("not now")
	}
	return s.Cluster.Txn(ctx, conditions, then, otherwise)
}

// TestCampaignThatFails refuses a member the leader's key a few times, while nobody else wants it and nothing changes: it goes
// on trying.
func TestCampaignThatFails(t *testing.T) {
	etcd, err := etcdfake.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Stop()
	cfg, err := frozenConfig([]string{etcd.Address()}, "a:1")
	if err != nil {
		t.Fatal(err)
	}
	store := &refusing{Cluster: cfg.Store.(*etcdkv.Cluster)}
	store.times.Store(3)
	cfg.Store = store
	m, err := OpenMember(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	term, h, err := m.Lead(ctx)
	if err != nil {
		t.Fatal(err)
	}
	h.Catalog.Close()
	m.Ended(term)
}

// overtaken is an etcd in which another always was faster, and in which the member is told to end as it learns that.
type overtaken struct {
	*etcdkv.Cluster
	end func()
}

func (s *overtaken) Txn(_ context.Context, _ []etcdkv.Condition, _, otherwise []etcdkv.Op) (etcdkv.Outcome, error) {
	s.end()
	return etcdkv.Outcome{Revision: 1, Got: make([][]etcdkv.KV, len(otherwise))}, nil
}

// TestEndOfAnOvertakenMember ends a member in the moment in which another wins: it leads nothing, and says that it was ended.
func TestEndOfAnOvertakenMember(t *testing.T) {
	etcd, err := etcdfake.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Stop()
	cfg, err := frozenConfig([]string{etcd.Address()}, "a:1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Store = &overtaken{Cluster: cfg.Store.(*etcdkv.Cluster), end: cancel}
	m, err := OpenMember(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if term, _, err := m.Lead(ctx); term != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("term %v, %v", term, err)
	}
}

// TestEtcdStaysBounded writes many small records: keys are joined, joined again, and replaced by snapshots; a standby that
// starts at any time has the whole.
func TestEtcdStaysBounded(t *testing.T) {
	c := newCluster(t)
	m := c.join("a:1").lead()
	m.mount(1, 1<<20)
	standby := c.join("b:1")
	for round := range 12 {
		for range 250 {
			m.step()
			m.settle() // one record each
		}
		if round == 8 {
			m.term().keeper.wrote.Store(limits.LogEtcdSnapshotBytes)
		}
		m.term().poke()
		waitFor(t, "the log to be tidied up", func() bool { return len(c.etcd.Keys(c.keys.logs())) <= limits.LogRollAbove+limits.LogTidyRecords })
		h, err := standby.shelf.load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		expectSame(t, fmt.Sprint("round ", round), describe(t, h.Catalog, kept(h)), m.describe())
		h.Catalog.Close()
	}
	waitFor(t, "a snapshot", func() bool { return m.term().Stats().Snapshots > 0 })
	waitFor(t, "few keys", func() bool { return len(c.etcd.Keys(c.keys.prefix)) < 2*limits.LogRollAbove })
	if n := m.term().Stats().SnapshotErrors; n > 0 {
		t.Errorf("%d snapshots failed", n)
	}
}

// TestNoAnswerWithoutEtcd freezes etcd: the leader answers only until its lease may have ended, and again once it is
// renewed.
func TestNoAnswerWithoutEtcd(t *testing.T) {
	c := newCluster(t)
	m := c.join("a:1").lead()
	m.mount(1, 1<<20)
	m.settle()
	term := m.term()
	if !term.Leads() {
		t.Fatal("a new leader does not answer")
	}
	waitFor(t, "an answer to be refused", func() bool { // the first renewal comes at once, and the next much later
		term.bound.Store(bootTime()) // as after a long silence
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		return errors.Is(term.WaitLeading(ctx), ErrDeposed)
	})
	waiting := make(chan error, 1)
	go func() { waiting <- term.WaitLeading(context.Background()) }()
	term.extend(bootTime())
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	c.etcd.Freeze()
	m.step()
	number := term.AppendName(NameChange{Name: "n", Value: []byte("v")})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := term.Wait(ctx, number); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a record is durable without etcd: %v", err)
	}
	c.etcd.Thaw()
	m.settle()
}

// TestVigil lets a standby sit by a leader whose process ends: the port refuses connections, and the standby leads without
// waiting for the lease. A connection that only breaks is no such sign.
func TestVigil(t *testing.T) {
	c := newCluster(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	met := make(chan net.Conn, 16)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			met <- conn
		}
	}()
	first := c.join(ln.Addr().String()).lead()
	first.mount(1, 1<<20)
	first.settle()
	standby := c.join("127.0.0.1:1")
	won, end := standby.watchAndWait(t)
	defer end()
	conn := <-met
	waitFor(t, "the standby to be ready", func() bool { return standby.Standing().Ready })
	_ = conn.Close()
	conn = <-met // to see whether it is gone
	_ = conn.Close()
	conn = <-met // and once more to stay
	select {
	case err := <-won:
		t.Fatalf("the standby leads beside a process that lives: %v", err)
	default:
	}
	_ = ln.Close()
	_ = conn.Close()
	if err := <-won; err != nil {
		t.Fatal(err)
	}
	if value, _ := c.etcd.Value(c.keys.leader); value != "127.0.0.1:1" {
		t.Errorf("the leader's key has %q", value)
	}
}

// TestStartedAgain starts a master again at the address of one that is gone while the lease of that one runs: it leads
// without waiting.
func TestStartedAgain(t *testing.T) {
	c := newCluster(t)
	first := c.join("127.0.0.1:1").lead()
	first.mount(1, 1<<20)
	first.settle()
	before, _ := c.etcd.Value(c.keys.leader)
	again := c.join("127.0.0.1:1")
	second := again.lead()
	if objects := second.cat.Stats().Segments; objects != 1 {
		t.Errorf("%d segments", objects)
	}
	view, _ := again.View()
	if after, _ := c.etcd.Value(c.keys.leader); before != after || view.Created != second.term().Created() {
		t.Errorf("the key had %q, has %q; the view is %+v", before, after, view)
	}
	waitFor(t, "the first to see that it is deposed", func() bool { return !first.term().Leads() })
}

// TestVigilOfOneThatIsBehind ends the leader's process while the standby beside it hears nothing from etcd. It cannot take
// over then, and does so as soon as it can, without waiting for the lease.
func TestVigilOfOneThatIsBehind(t *testing.T) {
	c := newCluster(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	first := c.join(ln.Addr().String()).lead()
	first.mount(1, 1<<20)
	first.settle()
	seen, logged := observer.New(zap.WarnLevel)
	c.log = zap.New(seen)
	standby := c.join("127.0.0.1:1")
	won, end := standby.watchAndWait(t)
	defer end()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the standby to be ready", func() bool { return standby.Standing().Ready })
	c.etcd.Freeze()
	waitFor(t, "the standby not to be ready", func() bool { return !standby.Standing().Ready })
	_ = ln.Close()
	_ = conn.Close()
	waitFor(t, "the standby to see that the leader is gone", func() bool {
		return logged.FilterMessageSnippet("could not take over").Len() > 0
	})
	c.etcd.Thaw()
	if err := <-won; err != nil {
		t.Fatal(err)
	}
}
