package master

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"

	"mooncake/internal/limits"
)

// parting tells the two kinds of connections of the gRPC port apart by their first byte, which it leaves where it is. It stands
// where credentials are exchanged: there every connection has a goroutine and a deadline of its own, and may be taken over.
type parting struct{ *inlet } // of those that begin with a frame

func newParting(addr net.Addr) *parting { return &parting{newInlet(addr)} }

// frameMagic begins a connection of frames. HTTP/2 begins with a P.
const frameMagic = 21

// ServerHandshake implements credentials.TransportCredentials.
func (p *parting) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	own, ok := conn.(*countedConn)
	if !ok {
		return conn, nil, nil
	}
	first, err := own.peek()
	if err != nil || first != frameMagic {
		return conn, nil, err
	}
	own.handOver()
	select {
	case p.conns <- own.TCPConn:
		return nil, nil, credentials.ErrConnDispatched
	case <-p.done:
		_ = own.TCPConn.Close() // it has asked for nothing yet
		return nil, nil, credentials.ErrConnDispatched
	}
}

// ClientHandshake implements credentials.TransportCredentials; it is not a client's.
func (p *parting) ClientHandshake(_ context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return conn, nil, nil
}

// Info implements credentials.TransportCredentials.
func (p *parting) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "insecure"}
}

// Clone implements credentials.TransportCredentials.
func (p *parting) Clone() credentials.TransportCredentials { return p }

// OverrideServerName implements credentials.TransportCredentials.
func (p *parting) OverrideServerName(string) error { return nil }

// countedListener bounds the connections that are open, as netutil.LimitListener does; its connections can be taken over.
type countedListener struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newCountedListener(ln net.Listener, most int) *countedListener {
	return &countedListener{Listener: ln, slots: make(chan struct{}, most), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *countedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	tcp, ok := conn.(*net.TCPConn)
	if err != nil || !ok {
		<-l.slots
		return conn, err
	}
	return &countedConn{TCPConn: tcp, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close implements net.Listener.
func (l *countedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// countedConn is a connection of a countedListener.
type countedConn struct {
	*net.TCPConn
	release func()
	gone    atomic.Bool // somebody else has the connection underneath
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.release()
	if c.gone.Load() {
		return nil
	}
	return c.TCPConn.Close()
}

// SetDeadline implements net.Conn. Who has taken the connection over sets deadlines of its own, which must last.
func (c *countedConn) SetDeadline(t time.Time) error {
	if c.gone.Load() {
		return nil
	}
	return c.TCPConn.SetDeadline(t)
}

// handOver lets go of the connection underneath. The kernel asks a silent peer for a sign of life, as gRPC would: the death of a
// host must be known while it still says something about its writers.
func (c *countedConn) handOver() {
	_ = c.TCPConn.SetKeepAliveConfig(net.KeepAliveConfig{ // see below
		Enable: true, Idle: limits.FramedSilenceMs * time.Millisecond, Interval: limits.FramedProbeMs * time.Millisecond, Count: limits.FramedProbes,
	})
	_ = c.TCPConn.SetDeadline(time.Time{}) // one that is closed shows that where it is read
	c.gone.Store(true)
	c.release()
}

// peek waits for the first byte and leaves it in the socket. 0 is a connection that ended, which whoever reads finds out.
func (c *countedConn) peek() (first byte, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var one [1]byte
	var result error
	err = raw.Read(func(fd uintptr) bool {
		for {
			_, _, result = unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK)
			if result != unix.EINTR {
				return result != unix.EAGAIN
			}
		}
	})
	if err == nil {
		err = result
	}
	return one[0], err
}
