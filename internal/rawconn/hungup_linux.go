package rawconn

import (
	"syscall"
	"unsafe"
)

// HungUp tells whether the peer has closed, or the connection has failed, with nothing left to read. It takes nothing, waits for
// nothing and may be called at any time.
func (c *Conn) HungUp() bool {
	ended := false
	if err := c.raw.Control(func(fd uintptr) { ended = hungUp(fd) }); err != nil {
		return true // it is closed
	}
	return ended
}

func hungUp(fd uintptr) bool {
	var first [1]byte
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&first[0])), 1,
			syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return n == 0
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			return true
		}
	}
}
