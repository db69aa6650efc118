package segment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"mooncake/descriptor"
	"mooncake/internal/hostport"
)

// passed gives a copy of a socket as a daemon gets it from its supervisor, which keeps its own.
func passed(t *testing.T, ln net.Listener) net.Listener {
	t.Helper()
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRequestsOfTheGapWait keeps the sockets open over a restart: who asks while no daemon runs gets the answer of the next.
func TestRequestsOfTheGapWait(t *testing.T) {
	m := newFakeMaster(t)
	handshake, err := readPortRulesAndChoose(t)
	if err != nil {
		t.Fatal(err)
	}
	defer handshake.Close()
	data, err := readPortRulesAndChoose(t)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	c := daemonConfig(t, m)
	c.Sockets = Sockets{Handshake: passed(t, handshake), Data: passed(t, data)}
	first := run(t, c)
	m.wait(t, "ReMountSegment")
	was := first.State()
	first.end(t, ErrStay)
	asked := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := net.Dial("tcp", handshake.Addr().String())
	if err != nil {
		t.Fatalf("the socket is closed in the gap: %v", err)
	}
	conn.Close()
	go func() { asked <- descriptor.Probe(ctx, hostport.Join("127.0.0.1", was.TEPort)) }()
	c.Sockets = Sockets{Handshake: passed(t, handshake), Data: passed(t, data)}
	second := run(t, c)
	if second.State() != was {
		t.Errorf("came back as %+v, was %+v", second.State(), was)
	}
	if err := <-asked; err != nil {
		t.Errorf("who asked in the gap: %v", err)
	}
}

func TestInheritedSockets(t *testing.T) {
	env := func(pid, fds, names string) func(string) (string, bool) {
		all := map[string]string{"LISTEN_PID": pid, "LISTEN_FDS": fds, "LISTEN_FDNAMES": names}
		return func(name string) (string, bool) { v, ok := all[name]; return v, ok }
	}
	var opened []int
	open := func(fd int) (net.Listener, error) {
		opened = append(opened, fd)
		return net.Listen("tcp", "127.0.0.1:0")
	}
	s, err := inherit(env("7", "2", "data:handshake"), 7, open)
	if err != nil || s.Handshake == nil || s.Data == nil || s.HTTP != nil || fmt.Sprint(opened) != "[3 4]" {
		t.Errorf("%+v, %v, descriptors %v", s, err, opened)
	}
	s.close()
	if s, err = inherit(env("8", "2", "data:handshake"), 7, open); err != nil || s != (Sockets{}) {
		t.Errorf("sockets of another process: %+v, %v", s, err)
	}
	for name, c := range map[string]struct{ fds, names, want string }{
		"no number":      {"x", "data", "LISTEN_FDS"},
		"too many":       {"1000000", "data", "LISTEN_FDS"},
		"fewer names":    {"2", "data", "names fewer"},
		"a strange name": {"1", "mooncake-segment.socket", "FileDescriptorName="},
		"one name twice": {"2", "data:data", "two sockets data"},
	} {
		if s, err := inherit(env("7", c.fds, c.names), 7, open); err == nil || !strings.Contains(err.Error(), c.want) || s != (Sockets{}) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	if _, err := inherit(env("7", "1", "http"), 7, func(int) (net.Listener, error) { return nil, errors.New("no socket") }); err == nil {
		t.Error("what is no socket was taken")
	}
}

// TestSocketsAndFlagsAgree passes a socket in whose port is not the one of the flag, and one that clients could have.
func TestSocketsAndFlagsAgree(t *testing.T) {
	m := newFakeMaster(t)
	good, err := readPortRulesAndChoose(t)
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	c := daemonConfig(t, m)
	c.TEPort, c.Sockets.Handshake = good.Addr().(*net.TCPAddr).Port+1, passed(t, good)
	if _, err := Open(t.Context(), *c, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "--te_port") {
		t.Errorf("another port than the flag's: %v", err)
	}
}

// TestDescriptorsThatDoNotListen are refused before the daemon enters the pool.
func TestDescriptorsThatDoNotListen(t *testing.T) {
	for name, kind := range map[string]int{"bound, not listening": unix.SOCK_STREAM, "of UDP": unix.SOCK_DGRAM} {
		fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			t.Fatal(err)
		}
		if _, err := listenerAt(fd); err == nil || !strings.Contains(err.Error(), "does not listen") {
			t.Errorf("a socket %s: %v", name, err)
		}
		if err := unix.Close(fd); err != nil { // whoever passed it keeps it
			t.Error(err)
		}
	}
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := listenerAt(int(file.Fd())); !errors.Is(err, unix.ENOTSOCK) {
		t.Errorf("a file: %v", err)
	}
}
