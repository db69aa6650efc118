package replication

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
)

// MemberConfig says which cluster a master belongs to.
type MemberConfig struct {
	Endpoints []string // of etcd
	Access    etcdkv.Access
	Cluster   string
	Address   string        // host:port at which clients reach this master
	TTL       time.Duration // of the leader's lease
	Compact   bool          // etcd is told to forget what was deleted
	// ForceEmpty makes void what lies in etcd, once, if nobody leads.
	ForceEmpty bool
	// SnapshotDir is where snapshots lie that are too large for etcd; empty: this member keeps none.
	SnapshotDir string
	Catalog     catalog.Config
	Log         *zap.Logger

	// What follows is for tests in a world of their own. Zero means the real one.
	Store Store                                                       // instead of the etcd at Endpoints
	Boot  func() int64                                                // instead of CLOCK_BOOTTIME, in nanoseconds
	Dial  func(ctx context.Context, address string) (net.Conn, error) // instead of TCP, to look whether a leader lives
	// SnapshotBytes is how much may be written since the last snapshot before the next is made. 0 means
	// limits.LogEtcdSnapshotBytes.
	SnapshotBytes int64
	// PartsMax bounds the parts of a snapshot in etcd. 0 means limits.LogParts.
	PartsMax int

	secret Secret // by which this member knows others
}

// complete fills in the real world.
func (c *MemberConfig) complete() error {
	if c.Store == nil {
		etcd, err := etcdkv.OpenCluster(c.Endpoints, c.Access)
		if err != nil {
			return err
		}
		c.Store = etcd
	}
	if c.Boot == nil {
		c.Boot = bootTime
	}
	if c.Dial == nil {
		c.Dial = dial
	}
	c.secret = drawSecret()
	if c.SnapshotBytes == 0 {
		c.SnapshotBytes = limits.LogEtcdSnapshotBytes
	}
	if c.PartsMax == 0 {
		c.PartsMax = limits.LogParts
	}
	return nil
}

// Store is what a Member needs of etcd. An etcdkv.Cluster is one.
type Store interface {
	// Txn may take effect more than once, or after its error.
	Txn(ctx context.Context, conditions []etcdkv.Condition, then, otherwise []etcdkv.Op) (etcdkv.Outcome, error)
	Range(ctx context.Context, from, to string, p etcdkv.Page) (found []etcdkv.KV, more bool, revision int64, err error)
	Watch(ctx context.Context, from, to string, revision int64, see func(events []etcdkv.Event, revision int64) error) error
	Grant(ctx context.Context, ttl time.Duration) (lease int64, granted time.Duration, err error)
	KeepAlive(ctx context.Context, lease int64) error
	Revoke(ctx context.Context, lease int64) error
	Compact(ctx context.Context, revision int64) error
	Close() error
}

// View is who leads.
type View struct {
	Address string // empty: nobody
	Created int64  // revision of the leader's key: the term
}

// Member is one master among those that share a log in etcd: it follows the log, and leads when nobody else does.
type Member struct {
	cfg   MemberConfig
	shelf shelf

	applied atomic.Uint64 // the history of a standby is that far
	objects atomic.Uint64 // in it
	newest  atomic.Uint64 // number of the newest record seen in etcd
	heard   atomic.Int64  // when, in nanoseconds of bootTime
	lease   atomic.Int64  // what the leader's key that this member made last is bound to
	state   atomic.Value  // string; see State
	secrets secrets
	spare   lease // used by who stands by, and then by who campaigns; never by both

	mu      sync.Mutex
	view    View
	asOf    int64         // revision of the view
	changed chan struct{} // closed, and made anew, with every view
	term    *Term
}

// The states of a member.
const (
	StateStarting   = "starting"
	StateCatchingUp = "catching_up"
	StateStandby    = "standby"
	StateCandidate  = "candidate"
	StateServing    = "serving"
)

// OpenMember prepares a member. It waits for nobody.
func OpenMember(cfg MemberConfig) (*Member, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	m := &Member{
		cfg: cfg, changed: make(chan struct{}),
		shelf: shelf{
			space: new(space),
			etcd:  cfg.Store, boot: cfg.Boot, keys: keysOf(cfg.Cluster), cluster: cfg.Cluster, catalog: cfg.Catalog, partsMax: cfg.PartsMax,
			log: cfg.Log, rare: rarely(cfg.Log),
		},
	}
	if cfg.SnapshotDir != "" {
		dir, err := openSnapshotDir(cfg.SnapshotDir)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--snapshot_dir=%s: %w", cfg.SnapshotDir, err), cfg.Store.Close())
		}
		m.shelf.dir = dir
	}
	m.state.Store(StateStarting)
	return m, nil
}

// Prove tells what makes etcd unusable and does not pass by waiting. It waits for an answer.
func (m *Member) Prove(ctx context.Context) error {
	if etcd, ok := m.shelf.etcd.(*etcdkv.Cluster); ok {
		return etcd.Prove(ctx, m.shelf.keys.leader)
	}
	return nil
}

// Close ends the connections.
func (m *Member) Close() error { return errors.Join(m.shelf.etcd.Close(), m.shelf.dir.close()) }

// View tells who leads, and gives a channel that is closed when that changes.
func (m *Member) View() (View, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view, m.changed
}

// setView takes over what was seen as of a revision, unless something newer was.
func (m *Member) setView(v View, revision int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if revision < m.asOf {
		return
	}
	m.asOf = revision
	if m.term != nil && v.Created != m.term.created {
		m.term.depose()
	}
	if v == m.view {
		return
	}
	m.view = v
	close(m.changed)
	m.changed = make(chan struct{})
}

// Follow keeps the view up to date until ctx ends.
func (m *Member) Follow(ctx context.Context) error {
	key, etcd := m.shelf.keys.leader, m.shelf.etcd
	for started := false; ; {
		now, _, revision, err := etcd.Range(ctx, key, key+"\x00", etcdkv.Page{})
		if err == nil {
			v := View{}
			if len(now) > 0 {
				v = View{string(now[0].Value), now[0].Created}
			}
			m.setView(v, revision)
			if len(now) > 0 && !started {
				m.buryPredecessor(ctx, now[0])
			}
			started = true
			err = etcd.Watch(ctx, key, key+"\x00", revision+1, func(events []etcdkv.Event, _ int64) error {
				for _, e := range events {
					if e.Deleted {
						m.setView(View{}, e.Modified)
					} else {
						m.setView(View{string(e.Value), e.Created}, e.Modified)
					}
				}
				return nil
			})
		}
		if ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err, etcdkv.ErrCompacted) {
			m.shelf.rare.Warn("the leader's key cannot be watched", zap.String("action", "view_failed"), zap.Error(err))
		}
		_ = pause(ctx, limits.LogRetryMs*time.Millisecond) // the loop asks for the end
	}
}

// Lead keeps up with the log until this member leads, and returns the history up to then and the log of the new term. The
// caller must run the Term, and may answer as long as it leads. An error is the end of ctx, or a log that cannot be read.
func (m *Member) Lead(ctx context.Context) (*Term, *History, error) {
	for {
		m.state.Store(StateCatchingUp)
		h, err := m.begin(ctx)
		if err == nil {
			var t *Term
			if t, err = m.standBy(ctx, h); err == nil {
				m.state.Store(StateServing)
				return t, h, nil
			}
			h.Catalog.Close()
		}
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case errors.Is(err, errHole):
			continue
		}
		m.shelf.rare.Error("the log in etcd cannot be read", zap.String("action", "log_unreadable"), zap.Error(err))
		if !pause(ctx, limits.LogReloadMs*time.Millisecond) {
			return nil, nil, ctx.Err()
		}
	}
}

// begin builds the history: what lies in etcd, or nothing if that is asked for and nobody leads.
func (m *Member) begin(ctx context.Context) (*History, error) {
	reading := m.shelf
	reading.progress = m.applied.Store // the leader waits for one who comes along
	if !m.cfg.ForceEmpty {
		return reading.load(ctx)
	}
	key := m.shelf.keys.leader
	leader, _, _, err := m.shelf.etcd.Range(ctx, key, key+"\x00", etcdkv.Page{})
	if err != nil {
		return nil, err
	}
	if len(leader) > 0 {
		m.cfg.ForceEmpty = false
		m.cfg.Log.Warn("--force_empty is ignored: another master leads, and what it has counts", zap.String("leader", string(leader[0].Value)))
		return reading.load(ctx)
	}
	return m.shelf.anewAfter(ctx)
}

// standBy keeps a history up with the log, and tries to lead whenever nobody does.
func (m *Member) standBy(ctx context.Context, h *History) (*Term, error) {
	m.state.Store(StateStandby)
	m.progress(h, h.Last)
	for {
		view, changed := m.View()
		if view.Created == 0 || h.anew {
			m.state.Store(StateCandidate)
			t, err := m.campaign(ctx, h)
			if t != nil || errors.Is(err, errHole) {
				return t, err
			}
			if ctx.Err() != nil { // a campaign that another won has no error of its own
				return nil, ctx.Err()
			}
			if h.anew { // somebody else may lead, on what there is
				_ = pause(ctx, limits.LogRetryMs*time.Millisecond) // the caller asks for the end
				return nil, errHole
			}
			if err != nil {
				m.shelf.rare.Warn("this master could not take the lead", zap.String("action", "campaign_failed"), zap.Error(err))
			}
			m.state.Store(StateStandby)
			// A key that came and went meanwhile, or never came, changes nothing in the view: there is nothing to wait for.
			if view, _ := m.View(); view.Created == 0 && !pause(ctx, limits.LogRetryMs*time.Millisecond) {
				return nil, ctx.Err()
			}
			continue
		}
		if err := m.tailUntil(ctx, h, changed); err != nil {
			return nil, err
		}
	}
}

// tailUntil keeps a history up with the log until the view changes.
func (m *Member) tailUntil(ctx context.Context, h *History, changed <-chan struct{}) error {
	following, stop := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	others.Go(func() {
		for pause(following, limits.LogCheckMs*time.Millisecond) {
			m.check(following)
			m.keepSpare(following)
		}
	})
	ended := make(chan error, 1)
	others.Go(func() { ended <- m.shelf.tail(following, h, func(number uint64) { m.progress(h, number) }) })
	select {
	case err := <-ended:
		return err
	case <-changed:
		stop()
		if err := <-ended; errors.Is(err, errHole) {
			return err
		}
		return ctx.Err()
	}
}

// progress notes how far a history is. Whoever calls it is at work on the history.
func (m *Member) progress(h *History, number uint64) {
	m.objects.Store(h.Catalog.KeyCount())
	m.applied.Store(number)
	if m.newest.Load() < number {
		m.newest.Store(number)
	}
	m.heard.Store(m.shelf.boot())
}

// check asks etcd which record is the newest.
func (m *Member) check(ctx context.Context) {
	keys := m.shelf.keys
	last, _, _, err := m.shelf.etcd.Range(ctx, keys.logs(), end(keys.logs()), etcdkv.Page{Last: true, Limit: 1, KeysOnly: true})
	if err != nil {
		return
	}
	if len(last) > 0 {
		if n, ok := keys.logNumber(last[0].Key); ok {
			m.newest.Store(n)
		}
	}
	m.heard.Store(m.shelf.boot())
	m.shelf.look(ctx)
}

// Standing is how far a member is.
type Standing struct {
	State           string // one of the State constants
	Applied, Newest uint64 // records: in the history of this member, and in etcd when it was asked last
	Objects         uint64 // in the history of a standby
	// Ready tells whether this member leads, or could at once: its history holds what was in etcd a moment ago.
	Ready bool
	// Full tells that etcd takes nothing more, as far as this member knows: its master acknowledges nothing, and nobody else
	// could lead.
	Full bool
	// EtcdBytes of its EtcdQuota are taken; 0 when that is not known.
	EtcdBytes, EtcdQuota int64
}

// Standing tells how far this member is.
func (m *Member) Standing() Standing {
	state, _ := m.state.Load().(string)
	room := m.shelf.space
	s := Standing{
		State: state, Applied: m.applied.Load(), Newest: m.newest.Load(), Objects: m.objects.Load(),
		Full: room.full.Load(), EtcdBytes: room.used.Load(), EtcdQuota: room.quota.Load(),
	}
	m.mu.Lock()
	term := m.term
	m.mu.Unlock()
	switch {
	case state == StateServing && term != nil:
		s.Applied, s.Newest, s.Ready = term.Last(), term.Durable(), term.Leads()
	case state == StateStandby || state == StateCandidate:
		fresh := m.shelf.boot()-m.heard.Load() < limits.LogFreshMs*int64(time.Millisecond)
		s.Ready = fresh && s.Applied+limits.LogLagRecords >= s.Newest
	}
	return s
}

// campaign tries to take the lead with a history that is read to its end first. Without a term and an error, another was
// faster.
func (m *Member) campaign(ctx context.Context, h *History) (*Term, error) {
	if !m.Standing().Ready { // else what is missing is read with the taking of the key
		if _, err := m.shelf.catchUp(ctx, h); err != nil {
			return nil, err
		}
		m.progress(h, h.Last)
	}
	etcd, keys := m.shelf.etcd, m.shelf.keys
	l, err := m.takeSpare(ctx)
	if err != nil {
		return nil, err
	}
	lease := l.id
	m.lease.Store(lease)
	created, rest, err := m.takeKey(ctx, lease, h.Last)
	if err == nil && created > 0 {
		if err = m.holding(ctx, &l, func() error { return m.finish(ctx, h, rest) }); err == nil {
			m.progress(h, h.Last)
			t := newTerm(m.shelf, created, lease, l.ttl, h, l.sent, &m.cfg)
			t.keepLease()
			m.mu.Lock()
			m.term = t
			m.mu.Unlock()
			if h.anew {
				m.cfg.ForceEmpty = false // once is enough
				m.cfg.Log.Warn("begun anew: everything in the log before is void", zap.String("action", "begun_anew"), zap.Uint64("records", h.Last))
			}
			m.setView(View{m.cfg.Address, created}, created)
			m.cfg.Log.Info("this master leads", zap.String("action", "elected"), zap.Int64("term", created), zap.Uint64("records", h.Last),
				zap.String("key", keys.leader))
			return t, nil
		}
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.LogFlushMs*time.Millisecond)
	defer cancel()
	return nil, errors.Join(err, etcd.Revoke(leaving, lease)) // the key goes with the lease, should it come into being late
}

// takeKey creates the leader's key unless it is there. It returns the revision, or 0, and what the log had after a record
// at that moment, up to a page: nothing comes after it.
func (m *Member) takeKey(ctx context.Context, lease int64, last uint64) (created int64, rest []etcdkv.KV, err error) {
	keys := m.shelf.keys
	key := keys.leader
	out, err := m.shelf.etcd.Txn(ctx, []etcdkv.Condition{{Key: key}}, []etcdkv.Op{
		etcdkv.Put(key, []byte(m.cfg.Address), lease), etcdkv.GetRange(keys.log(last+1), end(keys.logs()), limits.LogPageKeys),
	}, []etcdkv.Op{etcdkv.Get(key)})
	switch {
	case err != nil:
		return 0, nil, err
	case out.Done:
		return out.Revision, out.Got[1], nil
	case len(out.Got[0]) == 1 && out.Got[0][0].Lease == lease: // an attempt without an answer did it
		return out.Got[0][0].Created, nil, nil
	case len(out.Got[0]) == 1:
		m.setView(View{string(out.Got[0][0].Value), out.Got[0][0].Created}, out.Revision)
	}
	return 0, nil, nil
}

// finish reads what the history lacks: what came with the key, if that is all of it, and else the log.
func (m *Member) finish(ctx context.Context, h *History, rest []etcdkv.KV) error {
	if rest == nil || len(rest) >= limits.LogPageKeys || m.shelf.keys.skips(rest, h.Last) {
		_, err := m.shelf.catchUp(ctx, h)
		return err
	}
	for _, kv := range rest {
		if err := h.take(&m.shelf.keys, kv.Key, kv.Value); err != nil {
			return err
		}
	}
	return nil
}

// Ended notes that a term is over: the member is a standby again.
func (m *Member) Ended(t *Term) {
	t.depose()
	t.endLease()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.term == t {
		m.term = nil
	}
	m.state.Store(StateStandby)
}
