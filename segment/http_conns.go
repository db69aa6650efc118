package segment

import (
	"net"
	"sync"
)

// limitConns keeps the connections of a listener below a number; further ones wait in the kernel's queue. Slow clients
// of the HTTP port thereby cost a bounded number of descriptors and goroutines.
func limitConns(ln net.Listener, n int) net.Listener {
	return &connLimiter{Listener: ln, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

type connLimiter struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

// Accept waits for a slot and then for a connection.
func (l *connLimiter) Accept() (net.Conn, error) {
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
	return &limitedConn{Conn: c, release: func() { <-l.slots }}, nil
}

// Close also wakes an Accept that waits for a slot.
func (l *connLimiter) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	once    sync.Once
	release func()
}

// Close gives the slot back, once.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.release)
	return err
}
