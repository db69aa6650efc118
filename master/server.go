package master

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/kvevents"
	"mooncake/metrics"
	"mooncake/wire"
	"mooncake/wire/rpc"
)

// Server is a master with its ports open. Listen makes one, Run serves until its context ends.
type Server struct {
	cfg      Config
	log      *zap.Logger
	service  *Service
	listen   listeners
	metadata *MetadataServer
	admin    http.Handler
	rpc      []*rpc.Server
	up       chan struct{} // closed when all that Run starts runs for the first time
	started  sync.Once
	events   *kvevents.Publisher // nil: nobody is told of objects
	doors    *doors
	page     *livePage

	metadataToken metadataToken
	cluster       *cluster // nil unless this master is one of several
}

// Listen checks the settings and opens every port; nothing is served yet. After an error nothing is open.
func Listen(cfg Config, log *zap.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	page := newLivePage()
	log = page.events.listening(log)
	s := &Server{cfg: cfg, log: log, page: page, up: make(chan struct{})}
	var err error
	if s.doors, err = cfg.openDoors(); err != nil {
		return nil, err
	}
	if s.metadataToken, err = readMetadataToken(cfg.MetadataTokenFile); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	if s.listen.missed != nil {
		log.Warn("gRPC is not served", zap.String("action", "grpc_port_taken"), zap.Error(s.listen.missed))
	}
	if s.events, err = cfg.openEvents(); err != nil {
		s.listen.close()
		return nil, err
	}
	if cfg.HA {
		if err := s.joinCluster(); err != nil {
			s.close()
			return nil, err
		}
		return s, nil
	}
	// The ports are open while the journal is read: who connects meanwhile waits for its answer instead of being refused.
	service, err := newService(cfg, log)
	if err != nil {
		s.close()
		return nil, err
	}
	s.use(service)
	admin := service.adminHandler(s)
	admin.addPage(page, s.callAddress())
	s.admin = admin
	return s, nil
}

// close gives up what was opened, before anything runs.
func (s *Server) close() {
	s.listen.close()
	if s.events != nil {
		_ = s.events.Close() // nothing was sent
	}
}

// use makes a service the one that answers, and its names those of the metadata server.
func (s *Server) use(service *Service) {
	s.service = service
	service.events.publisher = s.events
	service.watchObjects()
	if s.cfg.MetadataServer {
		s.metadata = NewMetadataServer(os.Getenv("MC_METADATA_CLUSTER_ID"))
		s.metadata.inUse = service.nameInUse
		s.metadata.take(&service.history)
		service.suspicion.locate = s.metadata.Handshake
	}
}

// open opens every port and tells them to who waits for the file.
func (s *Server) open() (err error) {
	if s.cfg.PortsFile == "" {
		s.listen, err = s.cfg.listen()
		return err
	}
	file, err := openPortsFile(s.cfg.PortsFile)
	if err != nil {
		return err
	}
	if s.listen, err = s.cfg.listen(); err == nil {
		if err = file.write(s.Ports()); err != nil {
			s.listen.close()
		}
	}
	if err != nil {
		file.abandon()
	}
	return err
}

// Ports tells which ports were opened.
func (s *Server) Ports() Ports { return s.listen.ports() }

// Run serves until ctx ends, then closes every port and connection and returns when the last handler has.
func (s *Server) Run(ctx context.Context) error {
	if s.cluster != nil {
		return s.runCluster(ctx)
	}
	return s.serve(ctx, s.listen.callPorts(), func(ctx context.Context, group *errgroup.Group) {
		s.serveHTTP(ctx, group, s.listen.admin, s.guarded(s.admin))
		s.report(ctx, group, s.service, s.service.calls)
		if s.events != nil {
			group.Go(func() error { return s.events.Run(ctx) })
		}
		if s.listen.metadata != nil {
			s.serveHTTP(ctx, group, s.listen.metadata, s.metadataToken.guard(s.metadata))
		}
		if s.listen.peers != nil {
			group.Go(func() error { return s.serveGRPC(ctx, alone{s.service}) })
		}
	})
}

// serve answers calls, and whatever more starts, until ctx ends.
func (s *Server) serve(ctx context.Context, ports []callPort, more func(ctx context.Context, group *errgroup.Group)) error {
	stopHistory := s.service.history.start()
	group, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, func() { close(s.service.quit) })()
	for _, p := range ports {
		s.serveRPC(ctx, group, p)
	}
	more(ctx, group)
	group.Go(func() error { return s.sweep(ctx) })
	group.Go(func() error { return s.attend(ctx) })
	group.Go(func() error { return s.direct(ctx) })
	group.Go(func() error { return s.service.suspicion.greetAll(ctx) })
	group.Go(func() error { return s.service.suspicion.answerAll(ctx) })
	group.Go(func() error { return s.service.history.watch(ctx) })
	group.Go(func() error { return s.service.tellWatchers(ctx) })
	group.Go(func() error { return s.service.verifyManifests(ctx) })
	if s.service.events.publisher != nil {
		group.Go(func() error { return s.service.publish(ctx) })
	}
	if s.up != nil {
		s.started.Do(func() { close(s.up) })
	}
	err := errors.Join(group.Wait(), s.service.closeTenants())
	s.service.cat.EndWindows(s.service.clock.Now()) // nobody asks for ranges any more
	if stopErr := stopHistory(); err == nil {
		err = stopErr
	}
	return err
}

// callPort is a port that clients call.
type callPort struct {
	net.Listener
	fixed    family                                       // familyUnknown: to be found out
	handOver func(c *net.TCPConn, rest []byte, who guest) // gets the connections in the end; nil: they are closed
}

func (l *listeners) callPorts() []callPort {
	ports := []callPort{{Listener: l.rpc, fixed: familyUnknown}}
	if l.rpcV12 != nil {
		ports = append(ports, callPort{Listener: l.rpcV12, fixed: family12})
	}
	return ports
}

func (s *Server) serveRPC(ctx context.Context, group *errgroup.Group, p callPort) {
	cfg := rpc.ServerConfig{
		IdleTimeout: s.cfg.RPCIdle,
		Nagle:       !s.cfg.RPCNoDelay,
		Std:         s.cfg.IO == "std",
		Admit:       s.admit,
	}
	if p.handOver != nil {
		families := s.service.families
		cfg.HandOver = func(tag any, c *net.TCPConn, rest []byte) { p.handOver(c, rest, families.guestOf(tag.(*peerConn))) }
	}
	srv := rpc.NewServer(cfg, &port{Service: s.service, fixed: p.fixed})
	s.rpc = append(s.rpc, srv)
	ended := s.doors.answering(srv)
	group.Go(func() error {
		defer ended()
		return srv.Serve(ctx, p.Listener)
	})
}

func (s *Server) serveHTTP(ctx context.Context, group *errgroup.Group, ln net.Listener, h http.Handler) {
	srv := newHTTPServer(h)
	srv.ErrorLog = quietly(s.log)
	open := netutil.LimitListener(ln, limits.HTTPConnections)
	if ln == s.listen.admin {
		open = s.doors.secured(open)
		srv.RegisterOnShutdown(s.page.end) // its streams would outlive the others' grace
	}
	group.Go(func() error {
		if err := srv.Serve(open); err != http.ErrServerClosed {
			return fmt.Errorf("serve http on %s: %w", ln.Addr(), err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), limits.HTTPShutdownMs*time.Millisecond)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			return srv.Close()
		}
		return nil
	})
}

// newHTTPServer bounds how long a peer may take over a request, its body included, and over the next one.
func newHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: limits.HTTPHeaderMs * time.Millisecond,
		ReadTimeout:       limits.HTTPReadMs * time.Millisecond,
		IdleTimeout:       limits.HTTPIdleMs * time.Millisecond,
		MaxHeaderBytes:    limits.HTTPHeaderBytes,
	}
}

// sweep lets time pass in the catalog. It may take long, so nothing else waits for it.
func (s *Server) sweep(ctx context.Context) error {
	refused, bundles := refusalLog{logger: s.log}, bundleLog{logger: s.log}
	memory := thrift{giveBack: func() {
		s.service.cat.Shrink()
		debug.FreeOSMemory()
	}}
	return every(ctx, limits.SweepMs*time.Millisecond, func() {
		now := s.service.clock.Now()
		swept := s.service.cat.Sweep(now)
		s.service.tell(&swept)
		s.service.bundleTimes.note(&swept.Bundles)
		bundles.tell(now, &swept.Bundles)
		s.page.events.heed(&swept)
		s.service.verifyLater(swept.Bundles.Published)
		stats := s.service.cat.Stats()
		refused.tell(now, &stats)
		memory.look(now, stats.ArenaBytes)
		if s.metadata != nil {
			s.forgetNames(&swept)
		}
	})
}

// forgetNames keeps the metadata server in step: the names of silent clients may be taken over, and those of clients that
// are gone go with them.
func (s *Server) forgetNames(swept *catalog.Swept) {
	for _, id := range swept.SuspectedClients {
		for _, seg := range s.service.cat.SegmentsOf(id) {
			s.metadata.Abandon(seg.Name)
		}
	}
	for _, seg := range swept.LostSegments {
		if s.metadata.Abandoned(seg.Name) && !s.service.nameInUse(seg.Name) {
			s.metadata.RemoveSegment(seg.Name)
		}
	}
}

// attend lets time pass for the connections: held replies end, and clients whose connections are gone are given up.
func (s *Server) attend(ctx context.Context) error {
	return every(ctx, limits.SweepMs*time.Millisecond, func() {
		s.service.families.sweep(time.Now())
		s.service.endWriters()
		s.service.callLog.sweep()
	})
}

// direct lets time pass for what the master asks clients to do: tasks, drain jobs, copies on demand and copies that are made again or moved.
func (s *Server) direct(ctx context.Context) error {
	return every(ctx, limits.DrainEveryMs*time.Millisecond, func() {
		now := s.service.clock.Now()
		s.service.tasks.expire(now)
		s.service.stepDrains()
		s.service.noticeSegments(now)
		s.service.serveHot(now)
		s.service.loseCold(now)
		s.service.stepHeal(now)
		s.service.stepBalance(now)
		s.service.stepIntegrity()
	})
}

// report has the log say from time to time what is stored and was asked for.
func (s *Server) report(ctx context.Context, group *errgroup.Group, source AdminSource, calls *metrics.Calls) {
	if !s.cfg.Reporting {
		return
	}
	l := summaryLog{source: source, log: s.log}
	group.Go(func() error {
		return every(ctx, limits.SummaryLogMs*time.Millisecond, func() { l.tell(calls) })
	})
}

func every(ctx context.Context, step time.Duration, do func()) error {
	tick := time.NewTicker(step)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			do()
		}
	}
}

func newService(cfg Config, log *zap.Logger) (*Service, error) {
	s := emptyService(cfg, log, metrics.NewCalls())
	if err := s.openHistory(); err != nil {
		return nil, err
	}
	return s, s.ready()
}

func emptyService(cfg Config, log *zap.Logger, calls *metrics.Calls) *Service {
	callLog := cfg.callLog
	if callLog == nil {
		callLog = newCallLog(log, calls, cfg.SlowCall)
	}
	s := &Service{
		cfg: cfg, log: log, clock: NewClock(), calls: calls, callLog: callLog, quit: make(chan struct{}),
		families: newFamilyRegistry(cfg.family(), cfg.ClientActiveTTL),
		tasks:    newTaskBook(&cfg), heat: newHeat(&cfg), healer: newHealer(&cfg), integrity: newIntegrity(&cfg),
		verifier: verifier{queue: make(chan string, limits.VerifyQueue)},
		events:   events{some: make(chan struct{}, 1)}, watchers: watchers{some: make(chan struct{}, 1)},
	}
	for id := range s.counted {
		s.counted[id] = calls.Named(wire.CallID(id).Name())
	}
	return s
}

// ready binds the calls, once there is a catalog.
func (s *Service) ready() error {
	s.tasks.added = s.attached.nudge
	s.suspicion = newSuspicion(s.cat, s.clock, s.log)
	s.suspicion.pinged = s.families.lastPing
	s.suspicion.from = s.families.addressOf
	s.registerPuts()
	s.registerReads()
	s.registerRemoves()
	s.registerSegments()
	s.registerPlain()
	s.registerSession()
	s.registerDisks()
	if err := errors.Join(s.loadWorkloads(), s.loadTenants()); err != nil {
		return err
	}
	s.takeUpDrains()
	return s.registerTasks()
}
