package master

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"mooncake/catalog"
	"mooncake/internal/etcdkv"
	"mooncake/internal/hostport"
	"mooncake/internal/limits"
	"mooncake/metrics"
	"mooncake/replication"
	"mooncake/wire"
)

// cluster is what a master has that is one of several. The ports belong to the process and stay open; a Service exists
// only while this master leads.
type cluster struct {
	member *replication.Member
	self   string // host:port in the leader's key
	calls  *metrics.Calls
	gates  []*gate

	linger    time.Duration // how long connections are passed on after a hand-over
	enough    chan struct{} // ends that; nil but in tests
	successor time.Duration // how long one is waited for

	mu       sync.RWMutex // held for reading by whoever uses the service, for writing to exchange it
	service  *Service
	metadata *MetadataServer
	yield    context.CancelCauseFunc // asks the term to end; nil while this master does not lead
	terms    uint64                  // led by this process
	changes  uint64                  // how often it began or ceased to lead
}

// joinCluster prepares to be one of several masters. The ports are open by now: the key is never made before.
func (s *Server) joinCluster() error {
	endpoints, err := etcdkv.ParseEndpoints(s.cfg.HAConnString)
	if err != nil {
		return fmt.Errorf("--ha_backend_connstring: %w", err)
	}
	c := &cluster{
		self: hostport.Join(s.cfg.RPCAddress, s.Ports().RPC), calls: metrics.NewCalls(),
		linger: limits.HandOverMs * time.Millisecond, successor: limits.SuccessorMs * time.Millisecond,
	}
	c.member, err = replication.OpenMember(replication.MemberConfig{
		Endpoints: endpoints, Access: s.cfg.Etcd, Cluster: s.cfg.ClusterID, Address: c.self, TTL: s.cfg.LeaderTTL, Compact: s.cfg.EtcdCompact, ForceEmpty: s.cfg.ForceEmpty,
		SnapshotDir: s.cfg.SnapshotDir, Catalog: s.cfg.catalog(), Log: s.log,
	})
	if err != nil {
		return fmt.Errorf("--ha_backend_connstring=%s: %w", s.cfg.HAConnString, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limits.EtcdCallMs*time.Millisecond)
	defer cancel()
	if err := c.member.Prove(ctx); err != nil {
		return errors.Join(fmt.Errorf("--ha_backend_connstring=%s: %w", s.cfg.HAConnString, err), c.member.Close())
	}
	s.cluster = c
	s.cfg.callLog = newCallLog(s.log, c.calls, s.cfg.SlowCall)
	a := NewAdmin(c, c.calls, adminBuild)
	a.addDebug(s.cfg.callLog, s.cfg.Pprof)
	a.addPage(s.page, c.self)
	s.admin = a
	return nil
}

// runCluster follows the leader, and leads when nobody does, until ctx ends; then it hands over.
func (s *Server) runCluster(ctx context.Context) error {
	c := s.cluster
	// What the process is for its clients outlives ctx by the time of a hand-over.
	outer, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	group, living := errgroup.WithContext(outer)
	for _, p := range s.listen.callPorts() {
		g, err := newGate(living, p, c.self, c.member, s.log)
		if err != nil {
			return err
		}
		g.welcome = s.admit
		c.gates = append(c.gates, g)
		group.Go(g.run)
	}
	if s.events != nil {
		group.Go(func() error { return s.events.Run(living) })
	}
	s.serveHTTP(living, group, s.listen.admin, s.guarded(s.admin))
	if s.listen.metadata != nil {
		s.serveHTTP(living, group, s.listen.metadata, s.metadataToken.guard(http.HandlerFunc(c.serveMetadata)))
	}
	s.report(living, group, c, c.calls)
	group.Go(func() error { return c.member.Follow(living) })
	group.Go(func() error { return c.member.KeepVigil(living) })
	group.Go(func() error { return s.serveGRPC(living, c, c.member.RegisterPeer) })
	group.Go(func() error {
		return c.member.KeepPresence(living, hostport.Join(s.cfg.RPCAddress, s.Ports().GRPC))
	})
	group.Go(func() error { return c.member.KeepSnapshot(living) })
	turns, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(living, stop)()
	group.Go(func() error {
		defer end()
		return s.takeTurns(turns)
	})
	return errors.Join(group.Wait(), c.member.Close())
}

// takeTurns leads whenever it is this master's turn.
func (s *Server) takeTurns(ctx context.Context) error {
	m := s.cluster.member
	for {
		term, past, err := m.Lead(ctx)
		if err != nil {
			return nil // ctx has ended: nothing else ends it
		}
		leading, ended := s.cluster.yielding(ctx)
		err = s.lead(leading, term, past)
		asked := ended()
		m.Ended(term)
		if ctx.Err() != nil {
			s.handOver(term)
			past.Catalog.Close() // nobody waits for that
			return nil
		}
		if asked {
			s.giveUp(term)
			past.Catalog.Close()
			continue
		}
		past.Catalog.Close()
		s.log.Warn("this master leads no more and follows", zap.String("action", "deposed"), zap.Int64("term", term.Created()),
			zap.Uint64("unacked_records", term.Stats().Unacked), zap.Error(err))
	}
}

// lead answers calls for one term.
func (s *Server) lead(ctx context.Context, term *replication.Term, past *replication.History) error {
	c := s.cluster
	service, err := serviceOf(s.cfg, s.log, c.calls, term, past)
	if err != nil {
		return err
	}
	turn := &Server{cfg: s.cfg, log: s.log, events: s.events, doors: s.doors, page: s.page}
	turn.use(service)
	if s.events != nil {
		defer s.events.End()
	}
	c.exchange(service, turn.metadata)
	service.cat.Retune(*s.doors.tuning.Load()) // after the exchange: a reload from now on finds the service
	defer c.exchange(nil, nil)
	// Who leaves must not wait for etcd for ever.
	defer context.AfterFunc(ctx, func() {
		timer := time.NewTimer(limits.LogFlushMs * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
			term.Abandon()
		case <-term.Deposed():
		}
	})()
	ports := s.listen.callPorts()
	for i, g := range c.gates {
		ports[i].Listener = g.open()
		ports[i].handOver = g.admit
		defer g.shut()
	}
	stats := service.cat.Stats()
	s.log.Info("this master serves", zap.String("address", c.self), zap.Int64("term", term.Created()),
		zap.Uint64("objects", stats.Keys), zap.Uint64("segments", stats.Segments), zap.Uint64("bytes", stats.AllocatedBytes))
	return turn.serve(ctx, ports, func(ctx context.Context, group *errgroup.Group) {
		group.Go(func() error {
			select {
			case <-term.Deposed():
				return replication.ErrDeposed
			case <-ctx.Done():
				return nil
			}
		})
	})
}

// serviceOf makes the service of a term: it goes on where the history ends.
func serviceOf(cfg Config, log *zap.Logger, calls *metrics.Calls, term *replication.Term, past *replication.History) (*Service, error) {
	s := emptyService(cfg, log, calls)
	s.cat = past.Catalog
	// Times in the log are those of other machines. This one goes on from the last of them and compares it with none of
	// its own: what depends on time lasts longer rather than shorter.
	s.clock.StartAt(past.Time + 1)
	s.cat.Resume(s.clock.Now())
	s.keep(term, past.Names, past.Notes)
	s.cat.CloseWindows(s.clock.Now())
	s.history.term = term
	s.history.async = cfg.HAAck == ackAsync
	return s, s.ready()
}

func (c *cluster) exchange(service *Service, metadata *MetadataServer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.service, c.metadata = service, metadata
	c.changes++
	if service != nil {
		c.terms++
	}
}

// handOver gives the lead up and passes connections on until the clients have seen who leads now.
func (s *Server) handOver(term *replication.Term) {
	if !s.giveUp(term) {
		return
	}
	linger := time.NewTimer(s.cluster.linger)
	defer linger.Stop()
	select {
	case <-linger.C:
	case <-s.cluster.enough:
	}
}

// giveUp gives the lead up and waits until another leads; it tells whether one does.
func (s *Server) giveUp(term *replication.Term) bool {
	ctx, cancel := context.WithTimeout(context.Background(), s.cluster.successor)
	defer cancel()
	if err := term.Resign(ctx); err != nil {
		s.log.Warn("the lead was not given up: it ends with the lease", zap.String("action", "resign_failed"), zap.Error(err))
	}
	if s.cluster.member.Alone(ctx) {
		s.log.Info("there is no other master to take over", zap.String("action", "no_other_master"))
		return false
	}
	for {
		view, changed := s.cluster.member.View()
		if view.Address != "" && view.Created != term.Created() {
			s.log.Info("handed over", zap.String("action", "handed_over"), zap.String("leader", view.Address))
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			s.log.Warn("nobody takes over", zap.String("action", "no_successor"))
			return false
		}
	}
}

// serveMetadata answers for the metadata server, which only the leader has.
func (c *cluster) serveMetadata(w http.ResponseWriter, r *http.Request) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.metadata == nil || !c.service.history.leads() {
		if view, _ := c.member.View(); view.Address != "" {
			w.Header().Set(leaderHeader, view.Address)
		}
		replyError(w, http.StatusServiceUnavailable, wire.ErrUnavailableInCurrentMode, "service plane is not active")
		return
	}
	c.metadata.ServeHTTP(w, r)
}

// stateWarmup is the state of a leader whose pages do not answer yet.
const stateWarmup = "leader_warmup"

// Standing implements AdminSource.
func (c *cluster) Standing() Standing {
	own := c.member.Standing()
	view, _ := c.member.View()
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := Standing{
		Role: "standby", State: own.State, Promotable: own.Ready, Applied: own.Applied, Newest: own.Newest, Objects: own.Objects,
		NoSpace: own.Full, LeaderAddress: view.Address, ViewVersion: uint64(view.Created),
	}
	switch {
	case own.State != replication.StateServing:
	case c.service != nil:
		s.Role, s.Ready = "leader", own.Ready
		s.Unacked, s.Objects = c.service.history.term.Stats().Unacked, c.service.cat.KeyCount()
	case own.Ready: // the lead was won a moment ago
		s.Role, s.State, s.Promotable = "leader", stateWarmup, false
	default: // it was lost a moment ago
		s.State, s.Promotable = replication.StateStandby, false
	}
	return s
}

// Stats implements metrics.Source. A standby has nothing to count.
func (c *cluster) Stats() metrics.Stats {
	now := c.Standing()
	ha := &metrics.HA{
		Shared: true, Following: now.Role != Alone.Role,
		Leader: now.Ready, Ready: (now.Ready || now.Promotable) && !now.NoSpace, NoSpace: now.NoSpace, Term: now.ViewVersion, Applied: now.Applied, Newest: now.Newest,
	}
	own := c.member.Standing()
	ha.EtcdBytes, ha.EtcdQuota = uint64(own.EtcdBytes), uint64(own.EtcdQuota)
	c.mu.RLock()
	defer c.mu.RUnlock()
	ha.Terms, ha.Changes = c.terms, c.changes
	out := metrics.Stats{HA: ha}
	if c.service != nil {
		log := c.service.history.term.Stats()
		ha.LogRecords, ha.LogBytes, ha.LogMicros = log.Records, log.Bytes, uint64(log.WriteTime.Microseconds())
		ha.Snapshots, ha.Failed, ha.Unacked = log.Snapshots, log.SnapshotErrors, log.Unacked
		ha.DamagedValues, ha.LostRecords = log.Harm.Values, log.Harm.Records
		by := log.Harm.Dropped
		ha.DroppedGranted, ha.DroppedTaken, ha.DroppedOverlapped = by[replication.DroppedGranted], by[replication.DroppedTaken], by[replication.DroppedOverlap]
		out = c.service.Stats()
		out.HA = ha
	}
	return out
}

// Segments implements metrics.Source.
func (c *cluster) Segments() []metrics.Segment {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.service == nil {
		return nil
	}
	return c.service.Segments()
}

// Keys implements AdminSource.
func (c *cluster) Keys(yield func(key string) bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.service != nil {
		c.service.Keys(yield)
	}
}

// SegmentStatuses implements AdminSource.
func (c *cluster) SegmentStatuses() []catalog.SegmentStatus {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.service == nil {
		return nil
	}
	return c.service.SegmentStatuses()
}

// Lookup implements AdminSource.
func (c *cluster) Lookup(key string) ([]catalog.Replica, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.service == nil {
		return nil, catalog.ErrUnavailableStatus
	}
	return c.service.Lookup(key)
}
