package blocking

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is a connection that waits in the kernel.
type Conn struct {
	tcp  *net.TCPConn
	file *os.File
	fd   int
	stop func() bool
}

// New takes over a connection.
func New(ctx context.Context, tcp *net.TCPConn) (*Conn, error) {
	file, err := tcp.File()
	if err != nil {
		return nil, err
	}
	c := &Conn{tcp: tcp, file: file, fd: int(file.Fd())} // asking for the number lets it wait
	c.stop = context.AfterFunc(ctx, func() {             // who waits gets the end
		_ = tcp.CloseRead()
		_ = tcp.CloseWrite()
	})
	return c, nil
}

// Read reads what is there, and waits until something is.
func (c *Conn) Read(p []byte) (int, error) {
	for {
		n, err := syscall.Read(c.fd, p)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// Write writes all of p.
func (c *Conn) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := syscall.Write(c.fd, p[done:])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return done, os.NewSyscallError("write", err)
		}
		done += n
	}
	return done, nil
}

// Close ends the connection. Nobody may wait any more.
func (c *Conn) Close() error {
	c.stop()
	return errors.Join(c.file.Close(), c.tcp.Close())
}

// Pause waits in the kernel: the runtime's timers may be a millisecond late.
func Pause(d time.Duration) {
	left := unix.NsecToTimespec(int64(d))
	for errors.Is(unix.Nanosleep(&left, &left), unix.EINTR) {
	}
}
