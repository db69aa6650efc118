package replication

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mooncake/internal/limits"
	"mooncake/internal/peerpb"
)

// Successor tells why no other member could lead at once; nil when one could. It asks them.
func (m *Member) Successor(ctx context.Context) error {
	members, err := m.shelf.others(ctx, m.cfg.Address)
	if err != nil {
		return fmt.Errorf("etcd does not tell which masters live: %w", err)
	}
	if len(members) == 0 {
		return errors.New("there is no other master")
	}
	var reasons error
	for _, p := range members {
		now, err := askStanding(ctx, p.GRPC)
		switch {
		case err != nil:
			reasons = errors.Join(reasons, fmt.Errorf("%s does not answer: %w", p.ID, err))
		case now.GetCluster() != m.cfg.Cluster || now.GetState() != StateStandby || !now.GetReady():
			reasons = errors.Join(reasons, fmt.Errorf("%s is %s and has %d of %d records", p.ID, now.GetState(), now.GetApplied(), now.GetNewest()))
		default:
			return nil
		}
	}
	return reasons
}

// askStanding asks a member how far it is.
func askStanding(ctx context.Context, address string) (*peerpb.StatusReply, error) {
	if address == "" {
		return nil, errors.New("it serves no gRPC")
	}
	conn, err := dialPeer(address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, limits.PeerDialMs*time.Millisecond)
	defer cancel()
	return peerpb.NewPeerClient(conn).Status(ctx, &peerpb.StatusRequest{})
}
