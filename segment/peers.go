package segment

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"mooncake/descriptor"
	"mooncake/rdma"
	"mooncake/tcp"
)

// newDataServer is the data port over all memory.
func (d *Daemon) newDataServer() (*tcp.Server, error) {
	s := tcp.NewServer(tcp.ServerConfig{Options: d.cfg.Data, Log: d.log.Named("data"), Admit: d.admit})
	for _, x := range d.all() {
		if err := s.AddRegion(x.state.Base, x.arena.Bytes(), x.arena.ready); err != nil {
			return s, err
		}
	}
	return s, nil
}

// peers are the other segments, as targets of copies.
type peers struct {
	// asTCP and asRDMA look endpoints up as a process of that protocol; a holder of both answers accordingly. With a
	// metadata server everybody reads the same, and the two are one. asRDMA is nil in a daemon of tcp.
	asTCP, asRDMA *descriptor.Resolver
	client        *descriptor.Client
	tcp           *tcp.Dialer
	fabric        fabric
	self          string // our server name in nic paths
	fellBack      func(endpoint string, cause error)
}

func (d *Daemon) newPeers() *peers {
	p := &peers{
		asTCP: descriptor.NewResolver(d.store, nil),
		tcp:   tcp.NewDialer(tcp.DialerConfig{Options: d.cfg.Data}),
	}
	if d.rails == nil {
		return p
	}
	p.fabric, p.self, p.client = d.rails.fabric, d.published, &descriptor.Client{Self: d.describeRDMA}
	p.asRDMA = p.asTCP
	if descriptor.IsP2P(d.store) {
		p.asRDMA = descriptor.NewResolver(d.store, p.client)
	}
	p.fellBack = func(endpoint string, cause error) {
		d.count.taskOverTCP.Add(1)
		d.log.Warn("copy goes over tcp, RDMA failed", zap.String("peer", endpoint), zap.Error(cause))
	}
	return p
}

// write puts bytes at an address of the segment behind an endpoint: over RDMA where both sides have it, and over tcp
// where the peer serves that, if only after RDMA failed.
func (p *peers) write(ctx context.Context, endpoint string, addr uint64, bytes []byte) error {
	if p.fabric == nil {
		return p.writeBy(ctx, p.asTCP, endpoint, func(t *descriptor.Target) error { return p.tcp.Write(ctx, t, addr, bytes) })
	}
	err := p.writeBy(ctx, p.asRDMA, endpoint, func(t *descriptor.Target) error {
		if t.Segment.Protocol != descriptor.ProtocolRDMA {
			return p.tcp.Write(ctx, t, addr, bytes)
		}
		return p.fabric.write(ctx, p.railTarget(t), addr, bytes)
	})
	if err == nil || ctx.Err() != nil || p.asTCP == p.asRDMA {
		return err
	}
	target, lookErr := p.asTCP.Refresh(ctx, endpoint)
	if lookErr != nil {
		return errors.Join(err, lookErr)
	}
	if target.Segment.Protocol != descriptor.ProtocolTCP {
		return err
	}
	p.fellBack(endpoint, err)
	if tcpErr := p.tcp.Write(ctx, target, addr, bytes); tcpErr != nil {
		return fmt.Errorf("%w; then over tcp: %w", err, tcpErr)
	}
	return nil
}

// writeBy writes to what a resolver knows of the endpoint. That may be old: a failed write is tried once more with what
// the endpoint says now.
func (p *peers) writeBy(ctx context.Context, resolver *descriptor.Resolver, endpoint string, write func(*descriptor.Target) error) error {
	target, err := resolver.Lookup(ctx, endpoint)
	if err != nil {
		return err
	}
	if err = write(target); err == nil || ctx.Err() != nil {
		return err
	}
	target, lookErr := resolver.Refresh(ctx, endpoint)
	if lookErr != nil {
		return lookErr
	}
	return write(target)
}

// railTarget is a target of RDMA with the way to its handshake port.
func (p *peers) railTarget(t *descriptor.Target) rdma.Target {
	return rdma.Target{Self: p.self, Segment: t.Segment, Handshake: func(ctx context.Context, request *descriptor.Connection) (*descriptor.Connection, error) {
		return p.client.Handshake(ctx, t.Handshake, request)
	}}
}

func (p *peers) close() { p.tcp.Close() }
