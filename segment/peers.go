package segment

import (
	"context"

	"mooncake/descriptor"
	"mooncake/tcp"
)

// newDataServer is the data port over the arena.
func (d *Daemon) newDataServer() (*tcp.Server, error) {
	s := tcp.NewServer(tcp.ServerConfig{Options: d.cfg.Data, Log: d.log.Named("data")})
	return s, s.AddRegion(d.state.Base, d.arena.Bytes())
}

// peers are the other segments, as targets of copies.
type peers struct {
	resolver *descriptor.Resolver
	tcp      *tcp.Dialer
}

func newPeers(store descriptor.Store, c *Config) *peers {
	return &peers{resolver: descriptor.NewResolver(store, nil), tcp: tcp.NewDialer(tcp.DialerConfig{Options: c.Data})}
}

// write puts bytes at an address of the segment behind an endpoint. What is remembered of the endpoint may be old: a
// failed write is tried once more with what the endpoint says now.
func (p *peers) write(ctx context.Context, endpoint string, addr uint64, bytes []byte) error {
	target, err := p.resolver.Lookup(ctx, endpoint)
	if err != nil {
		return err
	}
	if err = p.tcp.Write(ctx, target, addr, bytes); err == nil || ctx.Err() != nil {
		return err
	}
	target, lookErr := p.resolver.Refresh(ctx, endpoint)
	if lookErr != nil {
		return lookErr
	}
	return p.tcp.Write(ctx, target, addr, bytes)
}

func (p *peers) close() { p.tcp.Close() }
