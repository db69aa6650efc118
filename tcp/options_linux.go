package tcp

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// tuneSocket applies the send buffer and the congestion control to a socket that is not connected yet.
func (o Options) tuneSocket(fd uintptr) error {
	if o.SndbufBytes > 0 {
		if err := setSndbuf(int(fd), o.SndbufBytes); err != nil {
			return fmt.Errorf("data_sndbuf %d: %w", o.SndbufBytes, err)
		}
	}
	if o.CongestionControl != "" {
		if err := unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, o.CongestionControl); err != nil {
			return fmt.Errorf("tcp_congestion_control %q: %w", o.CongestionControl, err)
		}
	}
	return nil
}

// tuneLocalSocket applies the send buffer for peers on this machine.
func (o Options) tuneLocalSocket(fd uintptr) error {
	if err := setSndbuf(int(fd), o.SndbufLocalBytes); err != nil {
		return fmt.Errorf("data_sndbuf_local %d: %w", o.SndbufLocalBytes, err)
	}
	return nil
}

// setSndbuf leaves the buffer alone where the system's limit is below the wish: setting it turns the kernel's own tuning
// off, and that reaches further than a small fixed buffer.
func setSndbuf(fd, bytes int) error {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, bytes) == nil {
		return nil
	}
	if text, err := os.ReadFile("/proc/sys/net/core/wmem_max"); err == nil {
		if most, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && most < bytes {
			return nil
		}
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, bytes)
}

// setBuffer sets the send buffer of a connection, whatever the system's limit is. It is an error where that is not allowed.
func setBuffer(conn *net.TCPConn, bytes int) error {
	return onSocket(conn, func(fd uintptr) error {
		return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, bytes)
	})
}
