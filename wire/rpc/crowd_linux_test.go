package rpc

import (
	"os"
	"strconv"
	"syscall"
	"testing"
)

// openDescriptors are the numbers of this process's descriptors.
func openDescriptors(t *testing.T) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var fds []int
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds
}

func TestThousandIdleConnections(t *testing.T) {
	r := start(t, ServerConfig{})
	r.stillServes(t)
	waitFor(t, "first connection closed", func() bool { return r.srv.Stats().ConnsOpen == 0 })
	before := len(openDescriptors(t))
	closers := make([]func() error, 0, 1000)
	for range cap(closers) {
		closers = append(closers, r.connect(t).Close)
	}
	waitFor(t, "all connections open", func() bool { return r.srv.Stats().ConnsOpen == 1000 })
	r.stillServes(t)
	for _, closeConn := range closers {
		closeConn()
	}
	waitFor(t, "descriptors back to where they were", func() bool { return len(openDescriptors(t)) <= before })
	waitFor(t, "no connection left", func() bool { return r.srv.Stats().ConnsOpen == 0 })
}

// Probes that connect and close, as load balancers do: nothing stays. That nothing is logged follows from the package
// having nothing to log with.
func TestThousandProbes(t *testing.T) {
	r := start(t, ServerConfig{})
	for range 1000 {
		r.connect(t).Close()
	}
	waitFor(t, "all probes gone", func() bool { s := r.srv.Stats(); return s.ConnsAccepted == 1000 && s.ConnsOpen == 0 })
	r.stillServes(t)
}

func TestSocketOptions(t *testing.T) {
	for _, nagle := range []bool{false, true} {
		r := start(t, ServerConfig{Nagle: nagle})
		r.connect(t)
		c := <-r.opened
		raw, err := c.raw.TCP().SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var noDelay int
		var flags uintptr
		err = raw.Control(func(fd uintptr) {
			noDelay, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
			flags, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFD, 0)
		})
		if err != nil {
			t.Fatal(err)
		}
		if (noDelay != 0) == nagle {
			t.Errorf("nagle %v: TCP_NODELAY is %d", nagle, noDelay)
		}
		if flags&syscall.FD_CLOEXEC == 0 {
			t.Error("the descriptor is inherited by programs started later")
		}
	}
}
