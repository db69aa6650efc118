package master

import (
	"net"
	"sync"

	"mooncake/internal/limits"
)

// limitListener holds at most HTTPConnections connections of ln open. Further ones wait in the kernel's queue until one
// ends, and the idle timeout of the server sees to it that one does.
func limitListener(ln net.Listener) net.Listener {
	return &boundedListener{Listener: ln, slots: make(chan struct{}, limits.HTTPConnections), closed: make(chan struct{})}
}

type boundedListener struct {
	net.Listener
	slots  chan struct{} // one per open connection
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &boundedConn{Conn: c, release: func() { <-l.slots }}, nil
}

// Close implements net.Listener; it wakes an Accept that waits for its turn.
func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// boundedConn gives its slot back when it is closed for the first time.
type boundedConn struct {
	net.Conn
	once    sync.Once
	release func()
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.release)
	return err
}
