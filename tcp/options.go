package tcp

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"mooncake/internal/limits"
)

// Ways to move bytes: see the package rawconn.
const (
	IORaw = "raw"
	IOStd = "std"
)

// Options are the knobs of a data socket, the same for both ends. DefaultOptions has the measured best values; the zero
// value is plain Go with the kernel's settings.
type Options struct {
	// IO is IORaw or IOStd; empty means IOStd.
	IO string
	// RcvLowatBytes wakes the reader of a large body only when this many bytes are there. 0 is off.
	RcvLowatBytes int
	// SndbufBytes is the socket's send buffer. 0 leaves it to the kernel, which then tunes it by itself.
	SndbufBytes int
	// SndbufLocalBytes is the same for peers on this machine. 0 gives them what others get.
	SndbufLocalBytes int
	// SndbufWholeBytes lets a body of up to so many bytes that an initiator writes go into the send buffer whole: for a holder on this
	// machine, where the process may have so large a buffer, and while it writes no other body. 0 is off.
	SndbufWholeBytes int
	// YieldForBody gives up the processor once when a header came without its body, see rawconn.
	YieldForBody bool
	// CongestionControl names the algorithm for our sockets. Empty leaves it to the system.
	CongestionControl string
}

// DefaultOptions are the values for production.
func DefaultOptions() Options {
	return Options{
		IO: IORaw, RcvLowatBytes: limits.DataRcvLowatBytes,
		SndbufBytes: limits.DataSndbufBytes, SndbufLocalBytes: limits.DataSndbufLocalBytes,
	}
}

// Validate reports the first value that cannot be used, with the flag that sets it.
func (o Options) Validate() error {
	switch {
	case o.IO != "" && o.IO != IORaw && o.IO != IOStd:
		return fmt.Errorf("io %q is neither %s nor %s", o.IO, IORaw, IOStd)
	case o.RcvLowatBytes < 0 || o.RcvLowatBytes > limits.DataRcvLowatBytesMax:
		return fmt.Errorf("data_rcvlowat %d is not between 0 and %d", o.RcvLowatBytes, limits.DataRcvLowatBytesMax)
	case o.SndbufBytes < 0 || o.SndbufBytes > limits.DataSndbufBytesMax:
		return fmt.Errorf("data_sndbuf %d is not between 0 and %d", o.SndbufBytes, limits.DataSndbufBytesMax)
	case o.SndbufLocalBytes < 0 || o.SndbufLocalBytes > limits.DataSndbufBytesMax:
		return fmt.Errorf("data_sndbuf_local %d is not between 0 and %d", o.SndbufLocalBytes, limits.DataSndbufBytesMax)
	case o.SndbufWholeBytes < 0 || o.SndbufWholeBytes > limits.DataSndbufBytesMax:
		return fmt.Errorf("a send buffer for bodies of %d bytes is not between 0 and %d", o.SndbufWholeBytes, limits.DataSndbufBytesMax)
	}
	return checkCongestionControl(o.CongestionControl)
}

// checkCongestionControl asks the kernel's list, where there is one: a wrong name would otherwise show only when the
// first socket is made.
func checkCongestionControl(name string) error {
	if name == "" {
		return nil
	}
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		return nil
	}
	if known := strings.Fields(string(text)); !slices.Contains(known, name) {
		return fmt.Errorf("tcp_congestion_control %q is not known to this kernel (%s)", name, strings.Join(known, ", "))
	}
	return nil
}

func (o Options) std() bool { return o.IO != IORaw }

// tuneListener sets what accepted sockets inherit, so that short connections pay nothing for it.
func (o Options) tuneListener(ln net.Listener) error {
	listener, ok := ln.(*net.TCPListener)
	if !ok {
		return nil
	}
	return onSocket(listener, o.tuneSocket)
}

// onSocket does something with a socket's descriptor.
func onSocket(socket syscall.Conn, do func(fd uintptr) error) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	if err := raw.Control(func(fd uintptr) { done = do(fd) }); err != nil {
		return err
	}
	return done
}

// tuneConn sets what depends on who the peer is, which a listener cannot know.
func (o Options) tuneConn(conn *net.TCPConn) error {
	if o.SndbufLocalBytes == 0 || !sameMachine(conn.LocalAddr(), conn.RemoteAddr()) {
		return nil
	}
	return onSocket(conn, o.tuneLocalSocket)
}

// sameMachine tells whether both ends are here. A container that has an address of its own counts as another machine.
func sameMachine(local, remote net.Addr) bool {
	l, ok := local.(*net.TCPAddr)
	if !ok {
		return false
	}
	r, ok := remote.(*net.TCPAddr)
	return ok && (r.IP.IsLoopback() || r.IP.Equal(l.IP))
}
