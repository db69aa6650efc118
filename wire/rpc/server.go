package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mooncake/internal/access"
	"mooncake/internal/limits"
	"mooncake/internal/rawconn"
)

// Request is one call as it arrived.
type Request struct {
	Seq        uint32 // the peer's number of it, for Conn.Reply
	FunctionID uint32
	Body       []byte // valid until Serve returns, and not to be written
}

// Handler gives the calls their meaning. All three methods run on the connection's goroutine; those of different
// connections run at the same time.
type Handler interface {
	// Opened is called once, before the first request.
	Opened(c *Conn)
	// Serve answers one request. Like append, it returns dst with the reply's body added; what dst holds already
	// belongs to other replies. A code other than CodeOK goes with a body made by AppendErrorText. With parked, body
	// and code are ignored, and somebody calls c.Reply once, later or already now.
	Serve(c *Conn, r Request, dst []byte) (body []byte, code uint8, parked bool)
	// Closed is called once, after the last request; c.Cause tells why. Reply fails from then on.
	Closed(c *Conn)
}

// A Settler is a Handler whose replies must wait: Settle is called on the connection's goroutine before the replies of
// what Serve answered since the last time are sent. An error ends the connection without them.
type Settler interface {
	Settle(c *Conn) error
}

// ServerConfig bounds a server. The zero value is what a daemon wants.
type ServerConfig struct {
	// Std moves bytes through net.Conn only instead of raw system calls (--io=std).
	Std bool
	// Nagle lets the kernel hold small replies back (--rpc_enable_tcp_no_delay=false).
	Nagle bool
	// FrameBytesMax is the largest body plus attachment of a request. 0 means limits.RPCFrameBytes.
	FrameBytesMax int64
	// LargeBytesMax is how much all connections together may hold of frames above limits.RPCKeepBytes that are not
	// complete yet; who would need more is disconnected. 0 means limits.RPCLargeBytes.
	LargeBytesMax int64
	// ConnsMax is how many connections may be open; further ones are closed at once. 0 means limits.RPCConns.
	ConnsMax int64
	// PeerConnsMax is how many of them one address may have. 0 means limits.RPCPeerConns.
	PeerConnsMax int
	// PeerCallsMax is how many calls of one address may be unanswered; further ones get an error. 0 means limits.RPCPeerCalls.
	PeerCallsMax int64
	// Admit, if set, says which addresses may connect; the connections of others are closed before a byte is read.
	Admit func(netip.Addr) bool
	// PendingBytesMax is how much may wait for a peer that does not read its parked replies. 0 means
	// limits.RPCPendingBytes.
	PendingBytesMax int
	// IdleTimeout closes a connection without requests and without a parked one (--rpc_conn_timeout_seconds).
	// 0 means never: the wheels keep connections of a pool for as long as they like.
	IdleTimeout time.Duration
	// HalfFrameTimeout is how long the rest of a frame may take. 0 means limits.RPCHalfFrameMs.
	HalfFrameTimeout time.Duration
	// StallTimeout is how long a peer may take no byte of a reply. 0 means limits.RPCStallMs.
	StallTimeout time.Duration
	// ShutdownGrace is how long Serve lets requests in progress finish after its context ended. 0 means
	// limits.RPCShutdownMs.
	ShutdownGrace time.Duration
	// HandOver, if set, gets the connections that wait for a request when the context of Serve ends, and what was read of
	// that request, instead of their being closed. It must not block.
	HandOver func(c *net.TCPConn, rest []byte)
}

func (c ServerConfig) withDefaults() ServerConfig {
	orMs := func(d *time.Duration, ms int) {
		if *d <= 0 {
			*d = time.Duration(ms) * time.Millisecond
		}
	}
	if c.FrameBytesMax <= 0 {
		c.FrameBytesMax = limits.RPCFrameBytes
	}
	if c.LargeBytesMax <= 0 {
		c.LargeBytesMax = limits.RPCLargeBytes
	}
	if c.ConnsMax <= 0 {
		c.ConnsMax = limits.RPCConns
	}
	if c.PeerConnsMax <= 0 {
		c.PeerConnsMax = limits.RPCPeerConns
	}
	if c.PeerCallsMax <= 0 {
		c.PeerCallsMax = limits.RPCPeerCalls
	}
	if c.PendingBytesMax <= 0 {
		c.PendingBytesMax = limits.RPCPendingBytes
	}
	orMs(&c.HalfFrameTimeout, limits.RPCHalfFrameMs)
	orMs(&c.StallTimeout, limits.RPCStallMs)
	orMs(&c.ShutdownGrace, limits.RPCShutdownMs)
	return c
}

// Server serves any number of listeners with one Handler.
type Server struct {
	cfg      ServerConfig
	handler  Handler
	settler  Settler // the handler, if it is one
	counters counters
	lastID   atomic.Uint64

	largeBytes atomic.Int64 // buffers of large frames under way, all connections
	peers      access.Peers // what each address holds

	mu     sync.Mutex
	ports  map[*port]struct{}
	closed bool
}

// port is one listener being served, with its connections.
type port struct {
	ln    net.Listener
	conns sync.WaitGroup
	done  chan struct{} // Serve has ended

	mu      sync.Mutex
	open    map[*Conn]struct{}
	stopped bool
}

// NewServer makes a server; Serve starts it.
func NewServer(cfg ServerConfig, h Handler) *Server {
	s := &Server{cfg: cfg.withDefaults(), handler: h, ports: map[*port]struct{}{}}
	s.settler, _ = h.(Settler)
	return s
}

// Serve takes connections from ln, whose connections must be TCP, until ctx ends or Shutdown is called, then returns nil;
// otherwise it returns why it could not go on. It closes ln, and when it returns, no connection taken from ln is left.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	p := &port{ln: ln, done: make(chan struct{}), open: map[*Conn]struct{}{}}
	if !s.addPort(p) {
		ln.Close()
		return ErrClosed
	}
	defer s.dropPort(p)
	unhook := context.AfterFunc(ctx, p.stop)
	defer unhook()
	err := s.accept(ctx, p)
	p.stop()
	hard := time.AfterFunc(s.cfg.ShutdownGrace, p.abort)
	defer hard.Stop()
	p.conns.Wait()
	return err
}

// Shutdown stops all listeners, lets requests in progress finish and waits for all of Serve to return. When ctx ends
// first, connections are cut and the reason of ctx returned. Parked requests are not waited for.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	ports := make([]*port, 0, len(s.ports))
	for p := range s.ports {
		ports = append(ports, p)
	}
	s.mu.Unlock()
	for _, p := range ports {
		p.stop()
	}
	var err error
	for _, p := range ports {
		select {
		case <-p.done:
		case <-ctx.Done():
			err = ctx.Err()
			p.abort()
			<-p.done
		}
	}
	return err
}

func (s *Server) addPort(p *port) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.ports[p] = struct{}{}
	return true
}

func (s *Server) dropPort(p *port) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ports, p)
	close(p.done)
}

func (s *Server) accept(ctx context.Context, p *port) error {
	pauseMs := limits.RPCAcceptPauseMinMs
	for {
		nc, err := p.ln.Accept()
		switch {
		case err == nil:
			pauseMs = limits.RPCAcceptPauseMinMs
			if err := s.admit(p, nc); err != nil {
				return err
			}
		case p.isStopped():
			return nil
		case passing(err):
			s.counters.acceptErrors.Add(1)
			select {
			case <-time.After(time.Duration(pauseMs) * time.Millisecond):
			case <-ctx.Done():
			}
			pauseMs = min(2*pauseMs, limits.RPCAcceptPauseMaxMs)
		default:
			return fmt.Errorf("accept on %v: %w", p.ln.Addr(), err)
		}
	}
}

// passing tells errors of accept that go away by themselves: no descriptors or memory, or a peer that left in line.
func passing(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// admit starts a connection, or closes it when there are too many. Only a listener of the wrong kind is an error.
func (s *Server) admit(p *port, nc net.Conn) error {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		nc.Close()
		return fmt.Errorf("listener %v gives %T instead of TCP connections", p.ln.Addr(), nc)
	}
	from := tcp.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
	if s.cfg.Admit != nil && !s.cfg.Admit(from.Unmap()) {
		s.counters.connsUnwelcome.Add(1)
		tcp.Close()
		return nil
	}
	peer := s.peers.Enter(from, s.cfg.PeerConnsMax)
	if peer == nil {
		s.counters.connsRefused.Add(1)
		tcp.Close()
		return nil
	}
	if s.counters.connsOpen.Add(1) > s.cfg.ConnsMax {
		s.counters.connsOpen.Add(-1)
		s.counters.connsRefused.Add(1)
		s.peers.Leave(peer)
		tcp.Close()
		return nil
	}
	c, err := s.newConn(tcp, peer)
	if err != nil || !p.add(c) {
		s.counters.connsOpen.Add(-1)
		s.peers.Leave(peer)
		tcp.Close()
		return nil // it ended before it began
	}
	s.counters.connsAccepted.Add(1)
	go s.serveConn(p, c) // ends with p: see port.conns
	return nil
}

func (s *Server) newConn(tcp *net.TCPConn, peer *access.Peer) (*Conn, error) {
	if s.cfg.Nagle {
		if err := tcp.SetNoDelay(false); err != nil { // Go itself has set it
			return nil, err
		}
	}
	raw, err := rawconn.New(tcp, s.cfg.Std)
	if err != nil {
		return nil, err
	}
	c := &Conn{srv: s, peer: peer, id: s.lastID.Add(1), raw: raw, remote: raw.RemoteAddr(), local: raw.LocalAddr()}
	c.in = inbox{limit: s.cfg.FrameBytesMax, request: true, large: &s.largeBytes, largeMax: s.cfg.LargeBytesMax}
	c.rep.raw, c.rep.stall, c.rep.limit, c.rep.sent = raw, s.cfg.StallTimeout, s.cfg.PendingBytesMax, &s.counters.bytesOut
	c.rep.idle.L = &c.rep.mu
	return c, nil
}

func (s *Server) serveConn(p *port, c *Conn) {
	c.run()
	if c.handedOver {
		s.cfg.HandOver(c.raw.TCP(), bytes.Clone(c.in.buf[c.in.start:c.in.end]))
	}
	c.in.release()
	c.giveUpCalls()
	s.peers.Leave(c.peer)
	s.counters.connsOpen.Add(-1)
	p.remove(c)
}

func (p *port) add(c *Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return false
	}
	p.open[c] = struct{}{}
	p.conns.Add(1)
	return true
}

func (p *port) remove(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
	p.conns.Done()
}

func (p *port) isStopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}

// stop closes the listener and tells every connection to end after what it is serving.
func (p *port) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	p.stopped = true
	p.ln.Close()
	for c := range p.open {
		c.stop()
	}
}

// abort cuts every connection.
func (p *port) abort() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.Close()
	}
}
