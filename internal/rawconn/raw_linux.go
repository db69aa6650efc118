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

func recv(fd uintptr, t *transfer) (int, syscall.Errno) {
	var n uintptr
	var errno syscall.Errno
	if t.count == 1 {
		p := t.pieces[0]
		at := unsafe.Pointer(unsafe.SliceData(p))
		if len(p) <= limits.RawCallBytes {
			n, _, errno = syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(at), uintptr(len(p)))
		} else {
			n, _, errno = syscall.Syscall(syscall.SYS_READ, fd, uintptr(at), uintptr(len(p)))
		}
		return int(n), errno
	}
	iov := t.vectors()
	at := unsafe.Pointer(&iov[0])
	if t.size() <= limits.RawCallBytes {
		n, _, errno = syscall.RawSyscall(syscall.SYS_READV, fd, uintptr(at), uintptr(t.count))
	} else {
		n, _, errno = syscall.Syscall(syscall.SYS_READV, fd, uintptr(at), uintptr(t.count))
	}
	return int(n), errno
}

// send uses the calls that take MSG_NOSIGNAL: a peer that has gone is an error here, not a signal to the process.
func send(fd uintptr, t *transfer) (int, syscall.Errno) {
	var n uintptr
	var errno syscall.Errno
	if t.count == 1 {
		p := t.pieces[0]
		at := unsafe.Pointer(unsafe.SliceData(p))
		if len(p) <= limits.RawCallBytes {
			n, _, errno = syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(at), uintptr(len(p)), syscall.MSG_NOSIGNAL, 0, 0)
		} else {
			n, _, errno = syscall.Syscall6(syscall.SYS_SENDTO, fd, uintptr(at), uintptr(len(p)), syscall.MSG_NOSIGNAL, 0, 0)
		}
		return int(n), errno
	}
	iov := t.vectors()
	msg := syscall.Msghdr{Iov: &iov[0], Iovlen: uint64(t.count)}
	at := unsafe.Pointer(&msg)
	if t.size() <= limits.RawCallBytes {
		n, _, errno = syscall.RawSyscall(syscall.SYS_SENDMSG, fd, uintptr(at), syscall.MSG_NOSIGNAL)
	} else {
		n, _, errno = syscall.Syscall(syscall.SYS_SENDMSG, fd, uintptr(at), syscall.MSG_NOSIGNAL)
	}
	return int(n), errno
}

// vectors describes the pieces to the kernel. The array lives on the caller's stack, which does not move during a call.
func (t *transfer) vectors() (iov [limits.RawPieces]syscall.Iovec) {
	for i, p := range t.pieces[:t.count] {
		iov[i].Base = unsafe.SliceData(p)
		iov[i].SetLen(len(p))
	}
	return iov
}
