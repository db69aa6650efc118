package replication

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"mooncake/internal/limits"
	"mooncake/internal/peerpb"
)

// dialPeer prepares to ask another master.
func dialPeer(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(limits.PeerMessageBytes), grpc.MaxCallSendMsgSize(limits.PeerMessageBytes)))
}

// fetch gets a snapshot from the first member that keeps it.
func (s *shelf) fetch(ctx context.Context, p pointer) ([]byte, error) {
	members, err := s.others(ctx, "")
	if err != nil {
		return nil, err
	}
	// Who says that he keeps it is asked first; who keeps it may not have said so yet.
	slices.SortStableFunc(members, func(a, b presence) int {
		switch x, y := a.Snapshot == p.ID, b.Snapshot == p.ID; {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	})
	var errs error
	for _, m := range members {
		if m.GRPC == "" || !m.Keeps {
			continue
		}
		text, err := fetchFrom(ctx, m.GRPC, s.cluster, p)
		if err == nil {
			return text, nil
		}
		errs = errors.Join(errs, fmt.Errorf("member %s: %w", m.ID, err))
	}
	return nil, fmt.Errorf("snapshot %s, which members keep, is with none of the %d that live: %w", p.ID, len(members), errors.Join(errs, errNotKept))
}

var errNotKept = errors.New("start one of the masters that had it with its --snapshot_dir")

// fetchFrom gets a snapshot from one member. A member that stops sending is given up.
func fetchFrom(ctx context.Context, address, cluster string, p pointer) ([]byte, error) {
	if p.Bytes < 0 || p.Bytes > limits.SnapshotBytesMax {
		return nil, fmt.Errorf("a snapshot of %d bytes; %d is the limit", p.Bytes, int64(limits.SnapshotBytesMax))
	}
	conn, err := dialPeer(address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, limits.PeerSnapshotMs*time.Millisecond)
	defer cancel()
	idle := time.AfterFunc(limits.PeerIdleMs*time.Millisecond, cancel)
	defer idle.Stop()
	stream, err := peerpb.NewPeerClient(conn).FetchSnapshot(ctx, &peerpb.FetchSnapshotRequest{Cluster: cluster, Id: p.ID})
	if err != nil {
		return nil, err
	}
	var text []byte
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return text, p.matches(text)
		}
		if err != nil {
			return nil, err
		}
		if part.GetOffset() != int64(len(text)) || int64(len(text)+len(part.GetData())) > p.Bytes {
			return nil, fmt.Errorf("%d bytes at %d, after %d of %d", len(part.GetData()), part.GetOffset(), len(text), p.Bytes)
		}
		if text == nil {
			text = make([]byte, 0, p.Bytes)
		}
		text = append(text, part.GetData()...)
		idle.Reset(limits.PeerIdleMs * time.Millisecond)
	}
}

// askSnapshot has a member make a snapshot.
func askSnapshot(ctx context.Context, m presence, cluster string, term int64) (p pointer, err error) {
	conn, err := dialPeer(m.GRPC)
	if err != nil {
		return p, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, limits.PeerSnapshotMs*time.Millisecond)
	defer cancel()
	made, err := peerpb.NewPeerClient(conn).MakeSnapshot(ctx, &peerpb.MakeSnapshotRequest{Cluster: cluster, Term: term})
	if err != nil {
		return p, err
	}
	p = pointer{ID: made.GetId(), Last: made.GetLast(), Parts: int(made.GetParts()), Bytes: made.GetBytes(), SHA256: made.GetSha256()}
	if p.Parts == 0 {
		p.Place = placeMembers
	}
	return p, p.check()
}
