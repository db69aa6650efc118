package rawconn

import (
	"syscall"
	"unsafe"
)

// setRcvLowat is a raw system call: an ordinary one would wake the monitor thread, twice for every body.
func setRcvLowat(fd uintptr, n int) error {
	mark := int32(n)
	_, _, errno := syscall.RawSyscall6(syscall.SYS_SETSOCKOPT, fd, syscall.SOL_SOCKET, syscall.SO_RCVLOWAT,
		uintptr(unsafe.Pointer(&mark)), unsafe.Sizeof(mark), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
