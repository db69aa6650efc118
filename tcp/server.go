package tcp

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/acceptloop"
	"mooncake/internal/limits"
)

// ServerConfig says how a data port is served.
type ServerConfig struct {
	// Options are the knobs of the sockets.
	Options Options
	// Log hears of refusals and of connections that broke. Nil is silence.
	Log *zap.Logger
	// Admit, when set, says which addresses may connect.
	Admit func(netip.Addr) bool
	// PeerConns bounds the connections of one address. 0 means limits.DataPeerConns.
	PeerConns int
	// Conns bounds the connections; further ones are closed at once. 0 means limits.DataConns.
	Conns int
	// Progress bounds how long a request may stand still. 0 means limits.DataProgressMs.
	Progress time.Duration
	// Grace bounds how long requests in progress may go on after Serve's context ended. 0 means limits.DataGraceMs.
	Grace time.Duration
}

// Server serves the regions added to it, on any number of listeners, until the first of their contexts ends.
type Server struct {
	cfg     ServerConfig
	regions atomic.Pointer[[]*region]
	stats   counters

	mu      sync.Mutex
	conns   map[*serverConn]struct{}
	closing bool
}

// NewServer makes a server without regions.
func NewServer(cfg ServerConfig) *Server {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	cfg.PeerConns = cmp.Or(cfg.PeerConns, limits.DataPeerConns)
	cfg.Conns = cmp.Or(cfg.Conns, limits.DataConns)
	cfg.Progress = cmp.Or(cfg.Progress, limits.DataProgressMs*time.Millisecond)
	cfg.Grace = cmp.Or(cfg.Grace, limits.DataGraceMs*time.Millisecond)
	s := &Server{cfg: cfg, conns: map[*serverConn]struct{}{}}
	s.regions.Store(new([]*region))
	return s
}

// Serve serves the listener until the context ends: then it closes the listener and all idle connections, lets requests
// in progress finish within the grace, and returns when no connection is left. It returns an error when the options
// cannot be applied or the listener fails by itself.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if err := s.cfg.Options.tuneListener(ln); err != nil {
		ln.Close()
		return fmt.Errorf("data port %v: %w", ln.Addr(), err)
	}
	drained := make(chan struct{})
	undrain := context.AfterFunc(ctx, func() { s.drain(); close(drained) })
	loop := acceptloop.Loop{
		Max:      s.cfg.Conns,
		Admit:    s.cfg.Admit,
		PeerMax:  s.cfg.PeerConns,
		Handle:   s.handle,
		Overflow: s.turnAway,
		Trouble:  func(err error) { s.cfg.Log.Warn("data port cannot accept", zap.Error(err)) },
	}
	err := s.runUntilDrained(ctx, &loop, ln)
	if !undrain() {
		<-drained
	}
	return err
}

// runUntilDrained cuts what is left when the grace after the end of the context is over.
func (s *Server) runUntilDrained(ctx context.Context, loop *acceptloop.Loop, ln net.Listener) error {
	ended := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		grace := time.NewTimer(s.cfg.Grace)
		defer grace.Stop()
		select {
		case <-ended:
		case <-grace.C:
			s.closeConns(func(*serverConn) bool { return true })
		}
	})
	err := loop.Run(ctx, ln)
	close(ended)
	watcher.Wait()
	return err
}

func (s *Server) handle(conn net.Conn) {
	tcpConn, ok := conn.(*net.TCPConn)
	if !ok {
		conn.Close()
		return
	}
	stream, err := newStream(tcpConn, s.cfg.Options, s.cfg.Progress)
	if err != nil {
		conn.Close()
		return
	}
	c := &serverConn{server: s, stream: stream}
	defer stream.close()
	if !s.enter(c) {
		return
	}
	defer s.leave(c)
	c.serve()
}

func (s *Server) turnAway(conn net.Conn) {
	s.stats.turnedAway.Add(1)
	conn.Close()
}

func (s *Server) enter(c *serverConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.conns[c] = struct{}{}
	s.stats.accepted.Add(1)
	s.stats.active.Add(1)
	return true
}

func (s *Server) leave(c *serverConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.stats.active.Add(-1)
}

// drain ends connections between two requests and tells the others to end after the one at hand.
func (s *Server) drain() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.closeConns(func(c *serverConn) bool { return c.askToLeave() })
}

func (s *Server) closeConns(which func(*serverConn) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if which(c) {
			c.stream.close()
		}
	}
}
