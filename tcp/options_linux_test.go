package tcp

import (
	"context"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mooncake/internal/rawconn"
)

// congestionOf asks the kernel what paces a connection.
func congestionOf(t *testing.T, conn *rawconn.Conn) string {
	t.Helper()
	var name string
	if err := onSocket(conn.TCP(), func(fd uintptr) (err error) {
		name, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		return err
	}); err != nil {
		t.Fatal(err)
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

// TestLocalSendBuffer looks at both ends of a connection over loopback. The kernel doubles what it is told.
func TestLocalSendBuffer(t *testing.T) {
	for _, c := range []struct {
		all, local, want int
	}{{1 << 20, 64 << 10, 128 << 10}, {64 << 10, 0, 128 << 10}, {0, 32 << 10, 64 << 10}} {
		o := Options{IO: IORaw, SndbufBytes: c.all, SndbufLocalBytes: c.local}
		h := startHolder(t, ServerConfig{Options: o}, pattern(64, 1))
		d := startDialer(t, DialerConfig{Options: o})
		for range 2 { // what connects before the port is served has other settings at the holder's end
			if err := d.Read(context.Background(), h.target, testBase, make([]byte, 64)); err != nil {
				t.Fatal(err)
			}
		}
		seen := 0
		for _, p := range d.peers {
			for _, l := range p.kept {
				seen++
				if got := sendBufferOf(t, l.stream.conn); got != c.want {
					t.Errorf("%+v: the initiator's end has %d bytes", c, got)
				}
			}
		}
		if seen == 0 {
			t.Errorf("%+v: no connection is kept", c)
		}
		h.Server.mu.Lock()
		for conn := range h.Server.conns {
			if got := sendBufferOf(t, conn.stream.conn); got != c.want && c.local != 0 {
				t.Errorf("%+v: the holder's end has %d bytes", c, got)
			}
		}
		h.Server.mu.Unlock()
	}
}

func sendBufferOf(t *testing.T, conn *rawconn.Conn) (bytes int) {
	t.Helper()
	if err := onSocket(conn.TCP(), func(fd uintptr) (err error) {
		bytes, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return bytes
}

func TestSameMachine(t *testing.T) {
	at := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	for _, c := range []struct {
		local, remote string
		want          bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1", "127.8.9.1", true},
		{"::1", "::1", true},
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"2001:db8::1", "2001:db8::2", false},
		{"::ffff:192.0.2.1", "192.0.2.1", true},
	} {
		if got := sameMachine(at(c.local), at(c.remote)); got != c.want {
			t.Errorf("%s and %s: %v", c.local, c.remote, got)
		}
	}
	if sameMachine(&net.UnixAddr{Name: "a"}, at("127.0.0.1")) || sameMachine(at("127.0.0.1"), &net.UnixAddr{Name: "a"}) {
		t.Error("a socket that is not TCP is taken for one")
	}
}
