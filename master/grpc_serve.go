package master

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/limits"
)

// grpcServer serves api/mooncake/v1. What a call means is decided where the calls of published clients are decided, by the
// same functions under the same rules of durability; here requests are only turned into theirs, and their answers back.
type grpcServer struct {
	source   grpcSource
	settings func() Config // with the real ports

	// authorize is asked before each call with its full method name; the context has the caller's metadata.
	authorize func(ctx context.Context, method string) error

	saving sync.Mutex // held while a snapshot is saved
}

// grpcSource finds the service that answers.
type grpcSource interface {
	// hold gives the service, which stays usable until release is called. Without one the error is a status with a Redirect.
	hold(ctx context.Context) (s *Service, release func(), err error)
	// while runs do if s is the service that answers, and keeps it for that time.
	while(s *Service, do func())
	// standing tells the role of this process; leader who leads, nil without other masters.
	standing() Standing
	leader(ctx context.Context) *mooncakev1.Redirect
}

// serveGRPC answers on the gRPC port until ctx ends. Further services share the port.
func (s *Server) serveGRPC(ctx context.Context, source grpcSource, more ...func(grpc.ServiceRegistrar)) error {
	g := &grpcServer{source: source, authorize: s.authorizeGRPC}
	g.settings = func() Config { return s.cfg.With(s.Ports()) }
	options, err := s.cfg.grpcOptions()
	if err != nil {
		return err
	}
	frames := func() error { return nil }
	if len(options) == 0 { // without TLS
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		parted := newParting(s.listen.peers.Addr())
		options = append(options, grpc.Creds(parted))
		f := newFramedServer(ctx, g, s.cfg.logs())
		group := new(errgroup.Group)
		group.Go(func() error { return f.serve(parted) })
		frames = func() error { cancel(); return group.Wait() }
	}
	srv := grpc.NewServer(append(options,
		grpc.WaitForHandlers(true), grpc.StatsHandler(connTracker{source}),
		grpc.MaxRecvMsgSize(limits.GRPCMessageBytes), grpc.MaxSendMsgSize(limits.GRPCMessageBytes),
		grpc.MaxConcurrentStreams(limits.GRPCStreams), grpc.ConnectionTimeout(limits.PeerDialMs*time.Millisecond),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: limits.PeerIdleMs * time.Millisecond, Timeout: limits.PeerDialMs * time.Millisecond}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: limits.GRPCPingMinMs * time.Millisecond, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(g.admitUnary), grpc.StreamInterceptor(g.admitStream),
	)...)
	mooncakev1.RegisterObjectsServer(srv, objectsServer{g: g})
	mooncakev1.RegisterBundlesServer(srv, bundlesServer{g: g})
	mooncakev1.RegisterWorkloadsServer(srv, workloadsServer{g: g})
	mooncakev1.RegisterSegmentsServer(srv, segmentsServer{g: g})
	mooncakev1.RegisterAdminServer(srv, adminServer{g: g})
	grpc_health_v1.RegisterHealthServer(srv, healthServer{g: g})
	for _, register := range more {
		register(srv)
	}
	reflection.Register(srv)
	defer context.AfterFunc(ctx, srv.Stop)()
	err = srv.Serve(newCountedListener(welcoming{s.listen.peers, &s.doors.grpcNetworks}, limits.GRPCConnections))
	srv.Stop() // waits for the handlers
	framesErr := frames()
	if ctx.Err() != nil {
		return framesErr
	}
	return fmt.Errorf("serve gRPC on %s: %w", s.listen.peers.Addr(), err)
}

// admitUnary and admitStream let only those in that may call.
func (g *grpcServer) admitUnary(ctx context.Context, q any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := g.authorize(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, q)
}

func (g *grpcServer) admitStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := g.authorize(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(srv, stream)
}

// alone is the grpcSource of a master without others.
type alone struct{ s *Service }

func (a alone) hold(context.Context) (*Service, func(), error)     { return a.s, func() {}, nil }
func (a alone) standing() Standing                                 { return Alone }
func (a alone) leader(context.Context) (none *mooncakev1.Redirect) { return nil }
func (c *cluster) standing() Standing                              { return c.Standing() }

func (a alone) while(_ *Service, do func()) { do() }

// while implements grpcSource.
func (c *cluster) while(s *Service, do func()) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.service == s {
		do()
	}
}

// hold implements grpcSource: as long as the service is held this master does not exchange it.
func (c *cluster) hold(ctx context.Context) (*Service, func(), error) {
	c.mu.RLock()
	if s := c.service; s != nil && s.history.leads() {
		return s, c.mu.RUnlock, nil
	}
	c.mu.RUnlock()
	return nil, nil, redirect(c.leader(ctx))
}

// redirect is the status of a master that stands by.
func redirect(to *mooncakev1.Redirect) error {
	text := "this master stands by, and nobody leads"
	if to.GetRpcAddress() != "" {
		text = "this master stands by, the leader is " + to.GetRpcAddress()
	}
	st := status.New(codes.Unavailable, text)
	if with, err := st.WithDetails(to); err == nil {
		st = with
	}
	return st.Err()
}

// leader implements grpcSource.
func (c *cluster) leader(ctx context.Context) *mooncakev1.Redirect {
	view, _ := c.member.View()
	to := &mooncakev1.Redirect{RpcAddress: view.Address, Term: view.Created}
	if view.Address != "" {
		ctx, cancel := context.WithTimeout(ctx, limits.EtcdCallMs*time.Millisecond)
		defer cancel()
		to.GrpcAddress = c.member.PeerAddress(ctx, view.Address)
	}
	return to
}

// healthServer answers the health protocol of gRPC from what /readyz says, at the moment it is asked.
type healthServer struct {
	grpc_health_v1.UnimplementedHealthServer
	g *grpcServer
}

// Check implements the health protocol.
func (h healthServer) Check(_ context.Context, q *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if name := q.GetService(); name != "" {
		if _, known := servedNames[name]; !known {
			return nil, status.Errorf(codes.NotFound, "no service %.100q here", name)
		}
	}
	now := h.g.source.standing()
	reply := &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}
	if now.Ready && !now.NoSpace {
		reply.Status = grpc_health_v1.HealthCheckResponse_SERVING
	}
	return reply, nil
}

// servedNames are the services whose health can be asked for.
var servedNames = map[string]struct{}{
	mooncakev1.Objects_ServiceDesc.ServiceName: {}, mooncakev1.Bundles_ServiceDesc.ServiceName: {}, mooncakev1.Workloads_ServiceDesc.ServiceName: {},
	mooncakev1.Segments_ServiceDesc.ServiceName: {}, mooncakev1.Admin_ServiceDesc.ServiceName: {},
}

// openPeers opens the gRPC port. A master without others goes on without it where nobody asked for this very port.
func (c *Config) openPeers(l *listeners) error {
	if c.GRPCPort < 0 {
		return nil
	}
	ln, err := listen(c.RPCAddress, c.GRPCPort, "--rpc_address", "--grpc_port")
	switch {
	case err == nil:
		l.peers = ln
	case c.GRPCOptional && !c.HA:
		l.missed = err
	default:
		return err
	}
	return nil
}
