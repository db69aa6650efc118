package segment

import (
	"context"
	"fmt"

	"mooncake/wire"
)

// plainCopy makes further replicas of an object on other segments.
func (d *Daemon) plainCopy(p *copyPayload) *transfer {
	return &transfer{
		tenant: p.TenantID, key: p.Key,
		start: func(ctx context.Context) (source wire.ReplicaDescriptor, targets []wire.ReplicaDescriptor, err error) {
			r, err := call(ctx, d.tasks, &wire.CopyStart, &wire.CopyStartRequest{
				ClientID: d.clientID, Key: p.Key, TenantID: p.TenantID, Source: p.Source, Targets: p.Targets,
			})
			return r.Source, r.Targets, err
		},
		end: func(ctx context.Context) error {
			_, err := call(ctx, d.tasks, &wire.CopyEnd, &wire.CopyEndRequest{ClientID: d.clientID, Key: p.Key, TenantID: p.TenantID})
			return err
		},
		revoke: func(ctx context.Context) error {
			_, err := call(ctx, d.tasks, &wire.CopyRevoke, &wire.CopyRevokeRequest{ClientID: d.clientID, Key: p.Key, TenantID: p.TenantID})
			return err
		},
	}
}

// dynamicCopy is a copy that the master ordered by itself because an object is read much. It returns the order's lease
// and epoch, so that an order overtaken by events is refused. The same call answers a master that asks with a key
// nobody has whether this client is newer than release 12.
func (d *Daemon) dynamicCopy(p *copyPayload) *transfer {
	return &transfer{
		tenant: p.TenantID, key: p.Key,
		start: func(ctx context.Context) (source wire.ReplicaDescriptor, targets []wire.ReplicaDescriptor, err error) {
			r, err := call(ctx, d.tasks, &wire.DynamicReplicaCopyStart, &wire.DynamicReplicaCopyStartRequest{
				ClientID: d.clientID, Key: p.Key, TenantID: p.TenantID, Source: p.Source, Targets: p.Targets,
				LeaseID: p.lease(), VersionEpoch: p.VersionEpoch,
			})
			return r.Source, r.Targets, err
		},
		end: func(ctx context.Context) error {
			_, err := call(ctx, d.tasks, &wire.DynamicReplicaCopyEnd, &wire.DynamicReplicaCopyEndRequest{
				ClientID: d.clientID, Key: p.Key, TenantID: p.TenantID, LeaseID: p.lease(), VersionEpoch: p.VersionEpoch,
			})
			return err
		},
		revoke: func(ctx context.Context) error {
			_, err := call(ctx, d.tasks, &wire.DynamicReplicaCopyRevoke, &wire.DynamicReplicaCopyRevokeRequest{
				ClientID: d.clientID, Key: p.Key, TenantID: p.TenantID, LeaseID: p.lease(), VersionEpoch: p.VersionEpoch,
			})
			return err
		},
	}
}

// plainMove makes one replica elsewhere and gives this one up.
func (d *Daemon) plainMove(p *movePayload) *transfer {
	return &transfer{
		tenant: p.TenantID, key: p.Key,
		start: func(ctx context.Context) (source wire.ReplicaDescriptor, targets []wire.ReplicaDescriptor, err error) {
			r, err := call(ctx, d.tasks, &wire.MoveStart, &wire.MoveStartRequest{
				ClientID: d.clientID, Key: p.Key, TenantID: p.TenantID, Source: p.Source, Target: p.Target,
			})
			if r.Target.Set { // not set: the object is there already
				targets = append(targets, r.Target.Value)
			}
			return r.Source, targets, err
		},
		end: func(ctx context.Context) error {
			_, err := call(ctx, d.tasks, &wire.MoveEnd, &wire.MoveEndRequest{ClientID: d.clientID, Key: p.Key, TenantID: p.TenantID})
			return err
		},
		revoke: func(ctx context.Context) error {
			_, err := call(ctx, d.tasks, &wire.MoveRevoke, &wire.MoveRevokeRequest{ClientID: d.clientID, Key: p.Key, TenantID: p.TenantID})
			return err
		},
	}
}

// push writes the source's bytes, which lie in this arena, to every target. The master holds the source while the
// transfer is open, so the bytes do not change.
func (d *Daemon) push(ctx context.Context, source *wire.ReplicaDescriptor, targets []wire.ReplicaDescriptor) (uint64, error) {
	if len(targets) == 0 {
		return 0, nil
	}
	from, err := memoryOf(source)
	if err != nil {
		return 0, fmt.Errorf("source: %w", err)
	}
	bytes, done, err := d.ownBytes(from)
	if err != nil {
		return 0, err
	}
	defer done()
	var total uint64
	for i := range targets {
		to, err := memoryOf(&targets[i])
		if err != nil {
			return total, fmt.Errorf("target %d: %w", i, err)
		}
		if to.Size != from.Size {
			return total, fmt.Errorf("target at %s has %d bytes, the source %d", to.TransportEndpoint, to.Size, from.Size)
		}
		if err := d.peers.write(ctx, to.TransportEndpoint, to.BufferAddress, bytes); err != nil {
			return total, fmt.Errorf("cannot write to %s: %w", to.TransportEndpoint, err)
		}
		total += to.Size
	}
	return total, nil
}

func memoryOf(r *wire.ReplicaDescriptor) (*wire.BufferDescriptor, error) {
	if r.DescriptorVariant.Index != 0 {
		return nil, fmt.Errorf("replica %d is not in memory", r.ID)
	}
	return &r.DescriptorVariant.Memory.BufferDescriptor, nil
}

// ownBytes is the part of our memory that a descriptor names; it stays until done is called.
func (d *Daemon) ownBytes(b *wire.BufferDescriptor) (bytes []byte, done func(), err error) {
	if b.TransportEndpoint != d.state.Endpoint {
		return nil, nil, fmt.Errorf("the source is at %s, not in this segment", b.TransportEndpoint)
	}
	if bytes, done = d.held(b.BufferAddress, b.Size); bytes == nil {
		return nil, nil, fmt.Errorf("source range %#x + %d lies outside the segment", b.BufferAddress, b.Size)
	}
	return bytes, done, nil
}
