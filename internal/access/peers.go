package access

import (
	"net/netip"
	"sync"
	"sync/atomic"
)

// Peers counts what each address holds: connections, and calls that are not answered. The zero value is ready.
type Peers struct {
	mu   sync.Mutex
	held map[netip.Addr]*Peer
}

// Peer is one address with at least one connection.
type Peer struct {
	addr  netip.Addr
	conns int // under the lock of Peers
	calls atomic.Int64
}

// Enter takes a connection of an address; nil when it has so many already.
func (p *Peers) Enter(addr netip.Addr, most int) *Peer {
	addr = addr.Unmap()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = map[netip.Addr]*Peer{}
	}
	peer := p.held[addr]
	if peer == nil {
		peer = &Peer{addr: addr}
		p.held[addr] = peer
	}
	if peer.conns >= most {
		return nil
	}
	peer.conns++
	return peer
}

// Leave gives a connection back.
func (p *Peers) Leave(peer *Peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if peer.conns--; peer.conns == 0 {
		delete(p.held, peer.addr)
	}
}

// Most are the most connections, and the most calls, that one address holds now.
func (p *Peers) Most() (conns int, calls int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, peer := range p.held {
		conns, calls = max(conns, peer.conns), max(calls, peer.calls.Load())
	}
	return conns, calls
}

// Begin takes a call; false when the address has so many already. End follows either way.
func (p *Peer) Begin(most int64) bool { return p.calls.Add(1) <= most }

// End gives calls back.
func (p *Peer) End(calls int64) { p.calls.Add(-calls) }
