package segment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"mooncake/descriptor"
	"mooncake/internal/hostport"
	"mooncake/internal/limits"
)

// describe is the descriptor in the metadata server, which is the same for everybody.
func (d *Daemon) describe() *descriptor.Segment {
	if d.rails != nil {
		return d.describeRDMA()
	}
	return d.describeTCP()
}

// describeTo answers one asker on the handshake port with the protocol that it speaks itself: clients can use no other.
// One that does not say speaks tcp, as all foreign tools do.
func (d *Daemon) describeTo(asker *descriptor.Segment) *descriptor.Segment {
	if d.rails != nil && asker.Protocol == descriptor.ProtocolRDMA {
		return d.describeRDMA()
	}
	return d.describeTCP()
}

// connect answers a peer's queue pairs.
func (d *Daemon) connect(request *descriptor.Connection) descriptor.Connection {
	return d.rails.fabric.accept(d.published, request)
}

func (d *Daemon) describeTCP() *descriptor.Segment {
	return &descriptor.Segment{
		Buffers:         d.buffers(),
		Name:            d.published,
		Protocol:        descriptor.ProtocolTCP,
		TCPDataHost:     d.cfg.host(),
		TCPDataPort:     uint16(d.state.DataPort),
		TCPProtoVersion: descriptor.TCPAcknowledged,
		Timestamp:       descriptor.Stamp(time.Now()),
	}
}

func (d *Daemon) location() descriptor.Location {
	return descriptor.Location{Host: d.cfg.host(), RPCPort: uint16(d.state.TEPort)}
}

// publish writes the metadata keys; without a metadata server there is nothing to do. A name that is taken by a process
// that no longer answers is taken over: it died without withdrawing.
func (d *Daemon) publish(ctx context.Context) error {
	if descriptor.IsP2P(d.store) {
		return nil
	}
	// Two at once could leave the older descriptor behind. Only goroutines that wait for this very thing wait here.
	d.publishing.Lock()
	defer d.publishing.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := d.unhurried(ctx)
	defer cancel()
	err := descriptor.Publish(ctx, d.store, d.describe(), d.location())
	if !errors.Is(err, descriptor.ErrNameTaken) {
		return err
	}
	key := descriptor.RPCMetaKey(d.published)
	text, getErr := d.store.Get(ctx, key)
	if getErr != nil && !errors.Is(getErr, descriptor.ErrNotFound) {
		return getErr
	}
	if other, err := descriptor.ParseLocation(text); getErr == nil && err == nil {
		at := hostport.Join(other.Host, int(other.RPCPort))
		if at != d.state.Endpoint && descriptor.Probe(ctx, at) == nil {
			return fmt.Errorf("the name %s is held by a living process at %s: give this daemon another --segment_name", d.published, at)
		}
		d.log.Info("taking over the name of a process that is gone", zap.String("name", d.published), zap.String("was_at", at))
	}
	if err := d.store.Delete(ctx, key); err != nil && !errors.Is(err, descriptor.ErrNotFound) {
		return err
	}
	return descriptor.Publish(ctx, d.store, d.describe(), d.location())
}

// unhurried is the context of a publication: when the daemon leaves meanwhile it still has the time that each step of leaving
// has. A request that is cut off here may reach the server later, behind the one that removes the keys, and they would stay.
func (d *Daemon) unhurried(ctx context.Context) (context.Context, context.CancelFunc) {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.SegmentPublishMs*time.Millisecond)
	grace := d.cfg.LeaveTimeout
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return own, func() {
		stop()
		cancel()
	}
}

// checkReachable knocks once at the announced address as a peer would. Where that fails from this very host, peers are
// unlikely to do better, and they would only say that a transfer failed.
func (d *Daemon) checkReachable(ctx context.Context) {
	at := hostport.Join(d.cfg.host(), d.state.TEPort)
	if err := descriptor.Probe(ctx, at); err != nil && ctx.Err() == nil {
		d.log.Warn("this host does not reach the address it announces; check --local_hostname and --bind_address", zap.String("address", at), zap.Error(err))
	}
}
