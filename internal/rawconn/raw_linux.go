//go:build linux && (amd64 || arm64) && !race

package rawconn

import (
	"syscall"
	"unsafe"

	"mooncake/internal/limits"
)

const rawSupported = true

// readStep is the read callback: true ends the read, false waits until the socket has something.
func (c *Conn) readStep(fd uintptr) bool {
	t := &c.in
	for {
		n, errno := recv(fd, t)
		switch errno {
		case 0:
			t.done = n
			c.dry = n < t.asks()
			return true
		case syscall.EAGAIN:
			return false
		case syscall.EINTR:
		default:
			t.errno = errno
			return true
		}
	}
}

// fillStep is the callback of Fill: it reads piece after piece until nothing is left, and sets the mark before it waits.
func (c *Conn) fillStep(fd uintptr) bool {
	t := &c.in
	if c.yields && c.dry && t.done == 0 && len(t.pieces[0]) < limits.DataRcvLowatFromBytes {
		c.dry = false
		c.yielded++
		_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) // never fails
	}
	for {
		rest := t.pieces[0]
		n, errno := recvPiece(fd, rest)
		switch errno {
		case 0:
			if n == 0 {
				return true
			}
			if t.advance(n) {
				t.cause = c.setMark(fd, 1)
				return true
			}
		case syscall.EAGAIN:
			t.cause = c.beforeFillWaits(fd, len(rest))
			return t.cause != nil
		case syscall.EINTR:
		default:
			t.errno = errno
			return true
		}
	}
}

// beforeFillWaits never leaves a mark above the rest: that would wait for bytes that nobody sends.
func (c *Conn) beforeFillWaits(fd uintptr, rest int) error {
	if c.beforeWait != nil {
		if err := c.beforeWait(); err != nil {
			return err
		}
	}
	return c.setMark(fd, max(1, min(rest, c.mark)))
}

// writeStep is the write callback: true ends the write, false waits until the socket takes more.
func (c *Conn) writeStep(fd uintptr) bool {
	t := &c.out
	for {
		n, errno := send(fd, t)
		switch errno {
		case 0:
			if t.advance(n) {
				return true
			}
		case syscall.EAGAIN:
			return t.try
		case syscall.EINTR:
		default:
			t.errno = errno
			return true
		}
	}
}

// asks is how much one recv may bring.
func (t *transfer) asks() (n int) {
	for _, p := range t.pieces[:t.count] {
		n += len(p)
	}
	return min(n, limits.RawCallBytes)
}

// recv moves at most what one raw call may.
func recv(fd uintptr, t *transfer) (int, syscall.Errno) {
	if t.count == 1 {
		return recvPiece(fd, t.pieces[0])
	}
	iov, count := t.vectors()
	n, _, errno := syscall.RawSyscall(syscall.SYS_READV, fd, uintptr(unsafe.Pointer(&iov[0])), uintptr(count))
	return int(n), errno
}

func recvPiece(fd uintptr, p []byte) (int, syscall.Errno) {
	p = p[:min(len(p), limits.RawCallBytes)]
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

// send moves at most what one raw call may. It uses the calls that take MSG_NOSIGNAL: a peer that has gone is an error
// here, not a signal to the process.
func send(fd uintptr, t *transfer) (int, syscall.Errno) {
	if t.count == 1 {
		p := t.pieces[0]
		p = p[:min(len(p), limits.RawCallBytes)]
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_NOSIGNAL, 0, 0)
		return int(n), errno
	}
	iov, count := t.vectors()
	msg := syscall.Msghdr{Iov: &iov[0], Iovlen: uint64(count)}
	n, _, errno := syscall.RawSyscall(syscall.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&msg)), syscall.MSG_NOSIGNAL)
	return int(n), errno
}

// vectors describes what one raw call may move of the pieces to the kernel. The array lives on the caller's stack, which
// does not move during a call.
func (t *transfer) vectors() (iov [limits.RawPieces]syscall.Iovec, count int) {
	room := limits.RawCallBytes
	for _, p := range t.pieces[:t.count] {
		n := min(len(p), room)
		iov[count].Base = unsafe.SliceData(p)
		iov[count].SetLen(n)
		count++
		if room -= n; room == 0 {
			break
		}
	}
	return iov, count
}
