package master

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/replication"
	"mooncake/wire"
)

// grpcConn is what is remembered of a gRPC connection: its record with the service that answers at the moment, as a
// connection of a published client has one. So the same signs tell that a writer is gone.
type grpcConn struct {
	peer netip.Addr

	mu      sync.Mutex // guards the three below
	service *Service
	record  *peerConn
	over    bool

	turn sync.Mutex // held while a call of the connection decides, as calls of published clients follow each other
}

type grpcConnKey struct{}

// connTracker gives every connection its grpcConn.
type connTracker struct{ source grpcSource }

// TagConn implements stats.Handler.
func (connTracker) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	c := &grpcConn{}
	if tcp, ok := info.RemoteAddr.(*net.TCPAddr); ok {
		c.peer = tcp.AddrPort().Addr().Unmap()
	}
	return context.WithValue(ctx, grpcConnKey{}, c)
}

// HandleConn implements stats.Handler.
func (t connTracker) HandleConn(ctx context.Context, s stats.ConnStats) {
	if _, over := s.(*stats.ConnEnd); over {
		if c, ok := ctx.Value(grpcConnKey{}).(*grpcConn); ok {
			c.end(t.source, true)
		}
	}
}

// TagRPC implements stats.Handler.
func (connTracker) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (connTracker) HandleRPC(context.Context, stats.RPCStats) {}

// at gives the connection's record with a service. A call that had to wait until its connection was over gets one that counts
// nowhere: nobody would ever close it.
func (c *grpcConn) at(s *Service) *peerConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return &peerConn{peer: c.peer, grpc: true}
	}
	if c.service != s {
		c.service, c.record = s, s.families.opened(c.peer, familyUnknown)
		c.record.grpc = true
	}
	return c.record
}

// end forgets the connection; clients that it leaves without any are looked after. byPeer tells that the peer, or the net between,
// ended it.
func (c *grpcConn) end(source grpcSource, byPeer bool) {
	c.mu.Lock()
	s, record := c.service, c.record
	c.service, c.record, c.over = nil, nil, true
	c.mu.Unlock()
	if s == nil {
		return
	}
	select {
	case <-s.quit: // it was this side that ended the connection
	default:
		source.while(s, func() { s.left(record, byPeer) })
	}
}

// decide makes the decisions of one call, and returns when they are kept for good and may be told. id is the call of
// published clients that it is equal to. What do returns as an error is the call's.
func (g *grpcServer) decide(ctx context.Context, id wire.CallID, do func(s *Service, p *peerConn) error) error {
	s, release, err := g.source.hold(ctx)
	if err != nil {
		return err
	}
	number, err := s.decideFor(ctx, id, do)
	h := &s.history
	release()
	if number != 0 {
		if waitErr := h.waitFor(number); waitErr != nil {
			return unsure(waitErr)
		}
	}
	if waitErr := h.waitLeading(); waitErr != nil {
		return unsure(waitErr)
	}
	return err
}

// decideFor is decide up to the number in the log that the answer waits for.
func (s *Service) decideFor(ctx context.Context, id wire.CallID, do func(s *Service, p *peerConn) error) (uint64, error) {
	switch _, err := s.history.admit(id); {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, replication.ErrFull):
		return 0, status.Error(codes.ResourceExhausted, "too much waits to be written: nothing was done")
	case err != nil:
		return 0, unsure(err)
	}
	c, ok := ctx.Value(grpcConnKey{}).(*grpcConn)
	if !ok {
		return 0, status.Error(codes.Internal, "a call without a connection")
	}
	p := c.at(s)
	p.lastCall.Store(int64(s.clock.Now()))
	if askOnly[id] {
		return 0, do(s, p)
	}
	c.turn.Lock()
	defer c.turn.Unlock()
	p.started, p.after, p.waits = startedNothing, 0, 0
	err := do(s, p)
	if logErr := s.history.decided(p, id); logErr != nil {
		return 0, unsure(logErr)
	}
	return p.waits, err
}

// unsure is the status of a call of which nobody knows whether its decisions last.
func unsure(err error) error {
	return status.Errorf(codes.Unavailable, "it is not known whether this lasts: %v", err)
}

// statusOf turns what the catalog says into the status of a call that is about one thing.
func statusOf(err error, about string) error {
	if err == nil {
		return nil
	}
	if _, isStatus := status.FromError(err); isStatus {
		return err
	}
	code := codes.Internal
	var e catalog.Error
	if errors.As(err, &e) {
		code = codeFor(e)
	}
	outcome := &mooncakev1.Outcome{Code: int32(codeOf(e)), Text: codeOf(e).String()}
	st := status.Newf(code, "%s: %v", shortened(about), err)
	if with, detailErr := st.WithDetails(outcome); detailErr == nil && e != 0 {
		st = with
	}
	return st.Err()
}

func codeFor(e catalog.Error) codes.Code {
	switch e {
	case catalog.ErrInvalidParams:
		return codes.InvalidArgument
	case catalog.ErrObjectNotFound, catalog.ErrSegmentNotFound, catalog.ErrReplicaNotFound:
		return codes.NotFound
	case catalog.ErrObjectExists:
		return codes.AlreadyExists
	case catalog.ErrNoSpace, catalog.ErrTenantQuota:
		return codes.ResourceExhausted
	case catalog.ErrInternal:
		return codes.Internal
	}
	return codes.FailedPrecondition
}

// outcome turns a code of the other wire into an item's outcome.
func outcomeOut(code wire.ErrorCode) *mooncakev1.Outcome {
	if code == 0 {
		return &mooncakev1.Outcome{}
	}
	return &mooncakev1.Outcome{Code: int32(code), Text: code.String()}
}

// few refuses batches that are too large, and those that say nothing.
func few(what string, n int) error {
	if n == 0 || n > limits.GRPCBatch {
		return status.Errorf(codes.InvalidArgument, "%d %s, want 1 to %d", n, what, limits.GRPCBatch)
	}
	return nil
}

func uuidIn(u *mooncakev1.Uuid) wire.UUID { return wire.UUID{Hi: u.GetHigh(), Lo: u.GetLow()} }

func uuidOut(hi, lo uint64) *mooncakev1.Uuid { return &mooncakev1.Uuid{High: hi, Low: lo} }

// writerIn refuses a writer without a number: it could not be told from others.
func writerIn(u *mooncakev1.Uuid) (wire.UUID, error) {
	if u.GetHigh() == 0 && u.GetLow() == 0 {
		return wire.UUID{}, status.Error(codes.InvalidArgument, "client is not set: a writer has to draw a number")
	}
	return uuidIn(u), nil
}

func policyIn(p *mooncakev1.PutPolicy, keys int) *wire.ReplicateConfig {
	c := &wire.ReplicateConfig{
		ReplicaNum: uint64(max(p.GetReplicas(), 1)), WithHardPin: p.GetHardPin(), PreferredSegments: p.GetPreferredSegments(),
		PreferAllocInSameNode: p.GetSameSegment(),
	}
	if p.GetSoftPin() {
		c.SoftPinAction = wire.SoftPinEnable
		c.SoftPinTTLMs = wire.Opt[uint64]{Set: p.GetSoftPinTtlMs() > 0, Value: p.GetSoftPinTtlMs()}
	}
	if group := p.GetGroup(); group != "" {
		c.GroupIDs.Set = true
		c.GroupIDs.Value = make([]string, keys)
		for i := range c.GroupIDs.Value {
			c.GroupIDs.Value[i] = group
		}
	}
	return c
}

func placementsOut(list []wire.ReplicaDescriptor) []*mooncakev1.Placement {
	out := make([]*mooncakev1.Placement, len(list))
	for i := range list {
		d := &list[i]
		p := &mooncakev1.Placement{ReplicaId: d.ID, Status: int32(d.Status)}
		switch v := &d.DescriptorVariant; {
		case v.Index == wire.VariantDisk && v.Disk != nil:
			p.Place = &mooncakev1.Placement_File{File: &mooncakev1.FilePlace{Path: v.Disk.FilePath, Size: v.Disk.ObjectSize}}
		case v.Index == wire.VariantLocalDisk && v.LocalDisk != nil:
			p.Place = &mooncakev1.Placement_Disk{Disk: &mooncakev1.DiskPlace{
				Client: uuidOut(v.LocalDisk.ClientID.Hi, v.LocalDisk.ClientID.Lo), Endpoint: v.LocalDisk.TransportEndpoint, Size: v.LocalDisk.ObjectSize,
			}}
		default:
			b := &v.Memory.BufferDescriptor
			p.Place = &mooncakev1.Placement_Memory{Memory: &mooncakev1.MemoryPlace{Endpoint: b.TransportEndpoint, Address: b.BufferAddress, Size: b.Size, Protocol: b.Protocol}}
		}
		out[i] = p
	}
	return out
}
