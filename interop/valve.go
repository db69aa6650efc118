package interop

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Valve passes the bytes of TCP connections on to an address until it is shut. A shut one keeps its connections and takes
// new ones, and lets nothing through in either direction: so a network looks that has come apart.
type Valve struct {
	Addr string // host:port where it listens

	slow  atomic.Int64 // bytes a second from the address; 0 is as many as come
	ln    net.Listener
	to    string
	all   sync.WaitGroup
	mu    sync.Mutex // guards what follows
	open  chan struct{}
	shut  bool
	done  bool
	conns map[net.Conn]struct{}
}

// StartValve starts an open valve before an address; it ends with Close.
func StartValve(listen, to string) (*Valve, error) {
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	v := &Valve{Addr: ln.Addr().String(), ln: ln, to: to, open: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	close(v.open)
	v.all.Go(v.accept)
	return v, nil
}

// Throttle lets so many bytes a second through from the address on each connection; little is read ahead. 0 ends that.
func (v *Valve) Throttle(bytes int64) { v.slow.Store(bytes) }

// Shut lets nothing through from now on.
func (v *Valve) Shut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.shut {
		v.shut, v.open = true, make(chan struct{})
	}
}

// Open lets everything through again, also what was held.
func (v *Valve) Open() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shut {
		v.shut = false
		close(v.open)
	}
}

// Close ends all connections.
func (v *Valve) Close() {
	v.Open()
	_ = v.ln.Close() // nobody connects any more
	v.mu.Lock()
	v.done = true
	for c := range v.conns {
		_ = c.Close() // whoever copies learns of it
	}
	v.mu.Unlock()
	v.all.Wait()
}

func (v *Valve) accept() {
	for {
		c, err := v.ln.Accept()
		if err != nil {
			return
		}
		v.all.Go(func() { v.pass(c) })
	}
}

// keep notes a connection that Close ends; it is false after Close.
func (v *Valve) keep(c net.Conn) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.done {
		_ = c.Close() // it comes too late
		return false
	}
	v.conns[c] = struct{}{}
	return true
}

func (v *Valve) wait() {
	v.mu.Lock()
	open := v.open
	v.mu.Unlock()
	<-open
}

func (v *Valve) pass(c net.Conn) {
	if !v.keep(c) {
		return
	}
	v.wait()
	up, err := net.Dial("tcp", v.to)
	if err == nil && v.keep(up) {
		if v.slow.Load() > 0 {
			_ = up.(*net.TCPConn).SetReadBuffer(throttledBuffer) // without it more is on the way, and nothing else differs
		}
		var both sync.WaitGroup
		both.Go(func() { v.carry(up, c, new(atomic.Int64)) })
		both.Go(func() { v.carry(c, up, &v.slow) })
		both.Wait()
	} else {
		_ = c.Close() // nobody is there
	}
	v.mu.Lock()
	delete(v.conns, c)
	delete(v.conns, up)
	v.mu.Unlock()
}

// throttledBuffer is how much a throttled connection takes ahead of who reads.
const throttledBuffer = 64 << 10

// carry copies one direction, no faster than rate says; its end is the end of both.
func (v *Valve) carry(to io.WriteCloser, from io.ReadCloser, rate *atomic.Int64) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		v.wait()
		if slow := rate.Load(); slow > 0 {
			time.Sleep(time.Duration(n) * time.Second / time.Duration(slow))
		}
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			_, _ = to.Close(), from.Close() // the other direction learns of it
			return
		}
	}
}
