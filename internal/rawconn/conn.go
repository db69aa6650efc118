package rawconn

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"mooncake/internal/limits"
)

// Conn is one TCP connection. See the package comment for who may call what at the same time.
type Conn struct {
	tcp *net.TCPConn
	raw syscall.RawConn
	std bool

	// The callbacks exist once, so that handing them to the poller does not allocate.
	readFn  func(fd uintptr) bool
	fillFn  func(fd uintptr) bool
	writeFn func(fd uintptr) bool

	in  transfer
	out transfer

	beforeWait func() error // of a Fill, nil is nothing
	yields     bool
	yielded    uint64 // how often
	dry        bool   // the last Read left nothing in the kernel
	mark       int    // low-water mark of the Fill in progress, 0 is none

	lowat int // the mark the kernel has, 1 when untouched
}

// transfer is the state of the read or write in progress, shared between a method and its callback.
type transfer struct {
	pieces [limits.RawPieces][]byte
	count  int
	done   int
	try    bool // give up instead of waiting
	errno  syscall.Errno
	cause  error // ends a Fill, besides errno
}

// New takes over c. With std, or where the raw path does not exist, all calls go through c itself.
func New(c *net.TCPConn, std bool) (*Conn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("descriptor of %v: %w", c.RemoteAddr(), err)
	}
	conn := &Conn{tcp: c, raw: raw, std: std || !rawSupported, lowat: 1}
	conn.readFn = conn.readStep
	conn.fillFn = conn.fillStep
	conn.writeFn = conn.writeStep
	return conn, nil
}

// Std reports whether the connection is used through net.Conn only.
func (c *Conn) Std() bool { return c.std }

// Read waits until there is something to read and returns what is there, at most len(p) bytes.
func (c *Conn) Read(p []byte) (int, error) {
	if c.std {
		return c.tcp.Read(p)
	}
	if len(p) == 0 {
		return 0, nil
	}
	c.in.pieces[0] = p
	c.in.count = 1
	return c.read()
}

// Readv is Read into two buffers, the second filled after the first. Fewer bytes than both hold, or even than the first
// holds, is an ordinary result.
func (c *Conn) Readv(a, b []byte) (int, error) {
	if len(a) == 0 {
		return c.Read(b)
	}
	if c.std || len(b) == 0 {
		return c.Read(a)
	}
	c.in.pieces[0], c.in.pieces[1] = a, b
	c.in.count = 2
	return c.read()
}

func (c *Conn) read() (int, error) {
	t := &c.in
	t.done, t.errno = 0, 0
	err := c.raw.Read(c.readFn)
	n, errno := t.done, t.errno
	t.release()
	switch {
	case err != nil:
		return 0, err
	case errno != 0:
		return 0, os.NewSyscallError("read", errno)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write returns when all of p is with the kernel, or with the number of bytes that got there and the reason.
func (c *Conn) Write(p []byte) (int, error) {
	if c.std {
		return c.tcp.Write(p)
	}
	if len(p) == 0 {
		return 0, nil
	}
	c.out.pieces[0] = p
	c.out.count = 1
	return c.write(false)
}

// Writev writes up to limits.RawPieces buffers one after another, as few system calls as the kernel allows.
func (c *Conn) Writev(pieces ...[]byte) (int, error) {
	if len(pieces) > limits.RawPieces {
		return 0, fmt.Errorf("%d pieces in one write, limit %d", len(pieces), limits.RawPieces)
	}
	if c.std {
		return c.writevStd(pieces)
	}
	t := &c.out
	t.count = 0
	for _, p := range pieces {
		if len(p) > 0 {
			t.pieces[t.count] = p
			t.count++
		}
	}
	if t.count == 0 {
		return 0, nil
	}
	return c.write(false)
}

func (c *Conn) writevStd(pieces [][]byte) (int, error) {
	bufs := make(net.Buffers, 0, limits.RawPieces)
	bufs = append(bufs, pieces...)
	n, err := bufs.WriteTo(c.tcp)
	return int(n), err
}

// TryWrite hands over what the kernel takes at once and never waits: less than len(p) with a nil error means that the
// kernel's buffer is full. Standard mode cannot know and takes nothing.
func (c *Conn) TryWrite(p []byte) (int, error) {
	if c.std || len(p) == 0 {
		return 0, nil
	}
	c.out.pieces[0] = p
	c.out.count = 1
	return c.write(true)
}

func (c *Conn) write(try bool) (int, error) {
	t := &c.out
	t.done, t.errno, t.try = 0, 0, try
	err := c.raw.Write(c.writeFn)
	n, errno := t.done, t.errno
	t.release()
	if err != nil {
		return n, err
	}
	if errno != 0 {
		return n, os.NewSyscallError("write", errno)
	}
	return n, nil
}

// release forgets the buffers, so that a connection at rest keeps no memory of its callers alive.
func (t *transfer) release() {
	clear(t.pieces[:t.count])
	t.count = 0
}

// advance drops the first n bytes from the pieces and reports whether nothing is left.
func (t *transfer) advance(n int) bool {
	t.done += n
	i := 0
	for i < t.count && n >= len(t.pieces[i]) {
		n -= len(t.pieces[i])
		i++
	}
	left := copy(t.pieces[:], t.pieces[i:t.count])
	clear(t.pieces[left:t.count])
	t.count = left
	if left == 0 {
		return true
	}
	t.pieces[0] = t.pieces[0][n:]
	return false
}

// SetRcvLowat makes later reads wait until n bytes are there (or the peer has closed); a read that finds fewer bytes
// without waiting still returns them. Only the reader may call it, and it must never leave a mark above what is still to
// come: lower it before every wait, and back to 1 before the next header. A mark that is already set costs nothing.
func (c *Conn) SetRcvLowat(n int) error {
	if n = max(n, 1); n == c.lowat {
		return nil
	}
	var cause error
	if err := c.raw.Control(func(fd uintptr) { cause = c.setMark(fd, n) }); err != nil {
		return err
	}
	return cause
}

// setMark tells the kernel a mark that it does not have yet.
func (c *Conn) setMark(fd uintptr, n int) error {
	if n == c.lowat {
		return nil
	}
	if err := setRcvLowat(fd, n); err != nil {
		c.lowat = 0 // unknown: the next call asks the kernel again
		return err
	}
	c.lowat = n
	return nil
}

// SetDeadline bounds both directions, as net.Conn does. A time in the past wakes whoever waits.
func (c *Conn) SetDeadline(t time.Time) error { return c.tcp.SetDeadline(t) }

// SetReadDeadline bounds reads, as net.Conn does.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.tcp.SetReadDeadline(t) }

// SetWriteDeadline bounds writes, as net.Conn does.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.tcp.SetWriteDeadline(t) }

// Close ends the connection and wakes whoever reads or writes with net.ErrClosed.
func (c *Conn) Close() error { return c.tcp.Close() }

// TCP is the connection underneath, for socket options. Reading or writing it directly is not forbidden, but pointless.
func (c *Conn) TCP() *net.TCPConn { return c.tcp }

// RemoteAddr is the peer's address; an IPv4 address is never shown as IPv6.
func (c *Conn) RemoteAddr() netip.AddrPort { return addrPort(c.tcp.RemoteAddr()) }

// LocalAddr is the address the peer connected to.
func (c *Conn) LocalAddr() netip.AddrPort { return addrPort(c.tcp.LocalAddr()) }

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok || t == nil {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
