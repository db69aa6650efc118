package tcp

import (
	"context"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mooncake/internal/rawconn"
)

// congestionOf asks the kernel what paces a connection.
func congestionOf(t *testing.T, conn *rawconn.Conn) string {
	t.Helper()
	raw, err := conn.TCP().SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var name string
	var asking error
	if err := raw.Control(func(fd uintptr) {
		name, asking = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	}); err != nil || asking != nil {
		t.Fatal(err, asking)
	}
	return strings.TrimRight(name, "\x00")
}

// TestCongestionControlIsSet asks for reno, which every kernel has, at both ends. What connects before the port is served has
// the system's: a first transfer shows that it is served.
func TestCongestionControlIsSet(t *testing.T) {
	o := DefaultOptions()
	o.CongestionControl = "reno"
	h := startHolder(t, ServerConfig{Options: o}, pattern(64, 1))
	var d *Dialer
	for range 2 {
		d = startDialer(t, DialerConfig{Options: o})
		if err := d.Read(context.Background(), h.target, testBase, make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for _, p := range d.peers {
		for _, l := range p.kept {
			if got := congestionOf(t, l.stream.conn); got != "reno" {
				t.Errorf("the initiator's end is paced by %q", got)
			}
			h.Server.mu.Lock()
			for c := range h.Server.conns {
				if c.stream.conn.RemoteAddr() != l.stream.conn.LocalAddr() {
					continue
				}
				seen++
				if got := congestionOf(t, c.stream.conn); got != "reno" {
					t.Errorf("the holder's end is paced by %q", got)
				}
			}
			h.Server.mu.Unlock()
		}
	}
	if seen != 1 {
		t.Errorf("%d connections with two ends, want 1", seen)
	}
}
