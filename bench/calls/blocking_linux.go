package calls

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mooncake/internal/limits"
)

// block makes a connection one whose calls wait inside the kernel, as those of a client without a runtime of its own do: a
// paced load is to show what the master costs, and waking a goroutine takes longer than some answers.
func (c *conn) block(ctx context.Context) error {
	tcp := c.net.(*net.TCPConn)
	file, err := tcp.File()
	if err != nil {
		return err
	}
	fd := int(file.Fd()) // this lets it wait
	limit := unix.NsecToTimeval(limits.BenchAnswerMs * int64(time.Millisecond))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		file.Close()
		return err
	}
	c.stop()
	c.stop = context.AfterFunc(ctx, func() { _ = tcp.CloseRead() }) // who waits gets the end
	c.net = &waiting{TCPConn: tcp, file: file, fd: fd}
	c.in = bufio.NewReaderSize(c.net, limits.BenchReadBytes)
	return nil
}

// waiting reads and writes with system calls that wait.
type waiting struct {
	*net.TCPConn
	file *os.File
	fd   int
}

func (w *waiting) Read(p []byte) (int, error) {
	for {
		n, err := syscall.Read(w.fd, p)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

func (w *waiting) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := syscall.Write(w.fd, p[done:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return done, os.NewSyscallError("write", err)
		}
		done += n
	}
	return done, nil
}

func (w *waiting) Close() error { return errors.Join(w.file.Close(), w.TCPConn.Close()) }

// pause waits in the kernel: the runtime's timers may be a millisecond late.
func pause(d time.Duration) {
	left := unix.NsecToTimespec(int64(d))
	for unix.Nanosleep(&left, &left) == unix.EINTR {
	}
}
