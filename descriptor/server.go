package descriptor

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/acceptloop"
	"mooncake/internal/limits"
)

// ServerConfig says how a process answers on its handshake port.
type ServerConfig struct {
	// Describe returns the descriptor for one asker. It may look at the asker's own descriptor, which names the asker's
	// protocol, but must expect nothing from it: fields may be missing or untrue. It is never nil, and has no protocol
	// when the asker sent none. An error closes the connection without an answer.
	Describe func(asker *Segment) (*Segment, error)
	// Connect answers a request to connect RDMA queue pairs; several may run at once. It refuses with a ReplyMsg. Nil
	// answers as a process without RDMA does: with nothing in every field.
	Connect func(request *Connection) Connection
	// Log hears of requests that were not answered. Nil is silence.
	Log *zap.Logger
	// FrameBytesMax bounds requests and answers. 0 means limits.HandshakeFrameBytes.
	FrameBytesMax int
	// Admit, when set, says which addresses may connect.
	Admit func(netip.Addr) bool
	// PeerConns bounds the connections of one address. 0 means limits.HandshakePeerConns.
	PeerConns int
	// Conns bounds the handshakes served at once. 0 means limits.HandshakeConns.
	Conns int
	// Receive bounds the time a request may take to arrive, and the answer to leave. 0 means limits.HandshakeReceiveMs.
	Receive time.Duration
	// Linger bounds the wait for the asker's close. 0 means limits.HandshakeLingerMs.
	Linger time.Duration
}

// Server answers handshakes: concurrently, one request for each connection.
type Server struct {
	cfg   ServerConfig
	stats serverCounters
}

type serverCounters struct {
	answered [frameTypes]atomic.Uint64
	refused  atomic.Uint64
	stalled  atomic.Uint64
	active   atomic.Int64
}

// ServerStats are the counts since the server was made.
type ServerStats struct {
	// Answered counts answers by frame type.
	Answered [4]uint64
	// Refused counts connections closed for what they sent: garbage, lengths out of bounds, unknown types.
	Refused uint64
	// Stalled counts connections closed for what they did not send or take in time.
	Stalled uint64
	// Active is the number of connections now.
	Active int64
}

// NewServer makes a server. Describe must be set.
func NewServer(cfg ServerConfig) *Server {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	cfg.FrameBytesMax = cmp.Or(cfg.FrameBytesMax, limits.HandshakeFrameBytes)
	cfg.PeerConns = cmp.Or(cfg.PeerConns, limits.HandshakePeerConns)
	cfg.Conns = cmp.Or(cfg.Conns, limits.HandshakeConns)
	cfg.Receive = cmp.Or(cfg.Receive, limits.HandshakeReceiveMs*time.Millisecond)
	cfg.Linger = cmp.Or(cfg.Linger, limits.HandshakeLingerMs*time.Millisecond)
	return &Server{cfg: cfg}
}

// Serve answers on the listener until the context ends, then closes it, wakes every connection, and returns when the
// last one is gone. It returns an error only when the listener fails by itself.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	loop := acceptloop.Loop{
		Max:     s.cfg.Conns,
		Admit:   s.cfg.Admit,
		PeerMax: s.cfg.PeerConns,
		Handle:  func(conn net.Conn) { s.handle(ctx, conn) },
		Trouble: func(err error) { s.cfg.Log.Warn("handshake port cannot accept", zap.Error(err)) },
	}
	return loop.Run(ctx, ln)
}

// Stats returns the counts so far.
func (s *Server) Stats() ServerStats {
	out := ServerStats{Refused: s.stats.refused.Load(), Stalled: s.stats.stalled.Load(), Active: s.stats.active.Load()}
	for i := range out.Answered {
		out.Answered[i] = s.stats.answered[i].Load()
	}
	return out
}

func (s *Server) handle(ctx context.Context, conn net.Conn) {
	s.stats.active.Add(1)
	defer s.stats.active.Add(-1)
	defer conn.Close()
	unhook := context.AfterFunc(ctx, func() { conn.Close() })
	defer unhook()

	if err := s.exchange(conn); err != nil {
		s.count(ctx, conn, err)
		return
	}
	linger(conn, s.cfg.Linger)
}

// exchange reads one request and writes its answer, all within one deadline: a peer that sends a byte a second is as
// stuck as one that sends nothing.
func (s *Server) exchange(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(s.cfg.Receive)); err != nil {
		return err
	}
	request, err := ReadFrame(conn, s.cfg.FrameBytesMax)
	if err != nil {
		return err
	}
	answer, err := s.answer(request)
	if err != nil {
		return err
	}
	if _, err := conn.Write(AppendFrame(nil, answer)); err != nil {
		return err
	}
	s.stats.answered[request.Type].Add(1)
	return nil
}

// linger ends our side and waits a while for the asker to end its own.
func linger(conn net.Conn, patience time.Duration) {
	if half, ok := conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	if conn.SetReadDeadline(time.Now().Add(patience)) != nil {
		return
	}
	var rest [64]byte
	// One read is enough: an asker has nothing more to say, and one that does say more is not listened to.
	_, _ = conn.Read(rest[:])
}

func (s *Server) count(ctx context.Context, conn net.Conn, err error) {
	var timeout net.Error
	switch {
	case ctx.Err() != nil, errors.Is(err, io.EOF): // we are closing; or a port probe that connects and leaves
		return
	case errors.As(err, &timeout) && timeout.Timeout():
		s.stats.stalled.Add(1)
	default:
		s.stats.refused.Add(1)
	}
	s.cfg.Log.Debug("handshake not answered", zap.Stringer("peer", conn.RemoteAddr()), zap.Error(err))
}
