package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// blackHole gives an address at which the kernel drops every attempt to connect, as a firewall does: it listens, nobody accepts,
// and the queue is full.
func blackHole(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	self, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", self.(*unix.SockaddrInet4).Port)
	for range 64 {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
				t.Fatal(err)
			}
			return address
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("64 connections wait, and more are taken")
	return ""
}

// TestNobodyThere asks a port that is closed, one whose host drops everything, one that accepts and never answers, and a name
// that does not exist: each has words of its own, with host and port.
func TestNobodyThere(t *testing.T) {
	if longest := defaultTimeout + 2*probeLimit; longest > 5*time.Second {
		t.Errorf("nobody there is told after %s, 5 s are promised", longest)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	all := map[string]string{
		closed.Addr().String():       syscall.ECONNREFUSED.Error(),
		blackHole(t):                 "no answer from the host",
		silent.Addr().String():       "nothing answers",
		"no.such.host.invalid:50054": "does not resolve",
	}
	for master, want := range all {
		var out, errs bytes.Buffer
		code := run(context.Background(), []string{"status", "--timeout=300ms", "--master=" + master}, strings.NewReader(""), &out, &errs)
		if code != 1 || !strings.Contains(errs.String(), want) || !strings.Contains(errs.String(), master) {
			t.Errorf("%s: exit %d, %s; want %q", master, code, errs.String(), want)
		}
		errs.Reset()
		code = run(context.Background(), []string{"ha", "status", "--timeout=300ms", "--master=" + master}, strings.NewReader(""), &out, &errs)
		if code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("ha status of %s: exit %d, %s", master, code, out.String())
		}
	}
	// All of them named: each is told of.
	var out, errs bytes.Buffer
	code := run(context.Background(), []string{"status", "--timeout=300ms", "--master=" + strings.Join(sortedKeys(all), ",")}, strings.NewReader(""), &out, &errs)
	for master, want := range all {
		if code != 1 || !strings.Contains(errs.String(), want) || !strings.Contains(errs.String(), master) {
			t.Errorf("exit %d, %s; want %s with %q", code, errs.String(), master, want)
		}
	}
}
