package replication

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
	"mooncake/internal/peerpb"
)

// peerServer answers other masters of the cluster.
type peerServer struct {
	peerpb.UnimplementedPeerServer
	m       *Member
	making  sync.Mutex    // one snapshot at a time
	sending chan struct{} // bounds the snapshots that are sent
}

// RegisterPeer lets a server answer the other members.
func (m *Member) RegisterPeer(r grpc.ServiceRegistrar) {
	peerpb.RegisterPeerServer(r, &peerServer{m: m, sending: make(chan struct{}, limits.PeerFetches)})
}

// PeerAddress gives where the member with an RPC address answers over gRPC; empty when that is not known.
func (m *Member) PeerAddress(ctx context.Context, address string) string {
	list, err := m.shelf.others(ctx, "")
	if err != nil {
		return ""
	}
	for _, p := range list {
		if p.ID == address {
			return p.GRPC
		}
	}
	return ""
}

// ServePeers answers the other members on a listener until ctx ends.
func (m *Member) ServePeers(ctx context.Context, ln net.Listener) error {
	srv := grpc.NewServer(grpc.WaitForHandlers(true),
		grpc.MaxRecvMsgSize(limits.PeerMessageBytes), grpc.MaxSendMsgSize(limits.PeerMessageBytes),
		grpc.MaxConcurrentStreams(limits.PeerStreams), grpc.ConnectionTimeout(limits.PeerDialMs*time.Millisecond),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: limits.PeerIdleMs * time.Millisecond, Time: limits.PeerIdleMs * time.Millisecond, Timeout: limits.PeerDialMs * time.Millisecond,
		}))
	m.RegisterPeer(srv)
	defer context.AfterFunc(ctx, srv.Stop)()
	err := srv.Serve(ln)
	srv.Stop() // waits for what it had begun
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// mine refuses who asks for another cluster.
func (s *peerServer) mine(cluster string) error {
	if cluster != s.m.cfg.Cluster {
		return status.Errorf(codes.FailedPrecondition, "this master is of cluster %q, not of %q", s.m.cfg.Cluster, cluster)
	}
	return nil
}

// Status tells how far this member is.
func (s *peerServer) Status(context.Context, *peerpb.StatusRequest) (*peerpb.StatusReply, error) {
	now := s.m.Standing()
	reply := &peerpb.StatusReply{Cluster: s.m.cfg.Cluster, State: now.State, Applied: now.Applied, Newest: now.Newest, Ready: now.Ready}
	if d := s.m.shelf.dir; d != nil {
		ids, err := d.ids()
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		for _, id := range ids {
			one := &peerpb.SnapshotDescription{Id: id}
			if info, err := os.Stat(d.file(id)); err == nil {
				one.Bytes = info.Size()
			}
			reply.Snapshots = append(reply.Snapshots, one)
		}
	}
	return reply, nil
}

// MakeSnapshot makes one for the leader.
func (s *peerServer) MakeSnapshot(ctx context.Context, q *peerpb.MakeSnapshotRequest) (*peerpb.SnapshotDescription, error) {
	if err := s.mine(q.GetCluster()); err != nil {
		return nil, err
	}
	view, _ := s.m.View()
	if view.Created != q.GetTerm() || view.Address == s.m.cfg.Address {
		return nil, status.Errorf(codes.FailedPrecondition, "the term is %d of %s, not %d of another", view.Created, view.Address, q.GetTerm())
	}
	if !s.making.TryLock() {
		return nil, status.Error(codes.ResourceExhausted, "a snapshot is being made already")
	}
	defer s.making.Unlock()
	p, err := s.m.shelf.buildSnapshot(ctx, etcdkv.Condition{Key: s.m.shelf.keys.leader, Created: q.GetTerm()}, s.m.cfg.Address)
	if err != nil {
		return nil, status.Error(codes.Aborted, err.Error())
	}
	return &peerpb.SnapshotDescription{Id: p.ID, Last: p.Last, Bytes: p.Bytes, Sha256: p.SHA256, Parts: int32(p.Parts)}, nil
}

// FetchSnapshot sends one that is kept here.
func (s *peerServer) FetchSnapshot(q *peerpb.FetchSnapshotRequest, out grpc.ServerStreamingServer[peerpb.SnapshotPart]) error {
	if err := s.mine(q.GetCluster()); err != nil {
		return err
	}
	d := s.m.shelf.dir
	if d == nil || !snapshotID.MatchString(q.GetId()) {
		return status.Errorf(codes.NotFound, "no snapshot %.60q here", q.GetId())
	}
	select {
	case s.sending <- struct{}{}:
		defer func() { <-s.sending }()
	default:
		return status.Errorf(codes.ResourceExhausted, "%d snapshots are being sent already", limits.PeerFetches)
	}
	f, err := os.Open(d.file(q.GetId()))
	if err != nil {
		return status.Errorf(codes.NotFound, "no snapshot %s here", q.GetId())
	}
	defer f.Close()
	piece := make([]byte, limits.LogPartBytes)
	for at := int64(0); ; {
		n, err := f.ReadAt(piece, at)
		if n > 0 {
			if err := out.Send(&peerpb.SnapshotPart{Offset: at, Data: piece[:n]}); err != nil {
				return err
			}
			at += int64(n)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return status.Error(codes.Internal, err.Error())
		}
	}
}
