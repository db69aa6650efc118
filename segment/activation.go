package segment

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mooncake/internal/limits"
)

// Sockets are listening sockets that a supervisor opened and keeps open: while the daemon is being started again requests
// wait in them instead of being refused. Those that are nil the daemon opens itself.
type Sockets struct {
	Handshake, Data, HTTP net.Listener
}

// firstSocket is the number of the first descriptor that a supervisor passes.
const firstSocket = 3

// InheritedSockets takes the sockets that systemd passes (LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES). Their names say what each is
// for: handshake, data or http.
func InheritedSockets(lookupEnv func(string) (string, bool)) (Sockets, error) {
	return inherit(lookupEnv, os.Getpid(), listenerAt)
}

// listenerAt takes over a descriptor.
func listenerAt(fd int) (net.Listener, error) {
	// Of a socket that does not listen the runtime would only find out when the daemon is in the pool already.
	if listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	} else if listens == 0 {
		return nil, fmt.Errorf("descriptor %d is a socket that does not listen (ListenStream= in the socket unit, with Accept=no)", fd)
	}
	f := os.NewFile(uintptr(fd), "socket "+strconv.Itoa(fd))
	defer f.Close() // the listener has a descriptor of its own
	return net.FileListener(f)
}

func inherit(lookupEnv func(string) (string, bool), pid int, open func(fd int) (net.Listener, error)) (s Sockets, err error) {
	if text, ok := lookupEnv("LISTEN_PID"); !ok || text != strconv.Itoa(pid) {
		return s, nil // they are for another process, or there are none
	}
	count, _ := lookupEnv("LISTEN_FDS")
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > limits.SegmentSockets {
		return s, fmt.Errorf("LISTEN_FDS=%q: want 0 to %d sockets", count, limits.SegmentSockets)
	}
	names, _ := lookupEnv("LISTEN_FDNAMES")
	list := strings.Split(names, ":")
	defer func() {
		if err != nil {
			s.close()
			s = Sockets{}
		}
	}()
	for i := range n {
		if i >= len(list) {
			return s, fmt.Errorf("LISTEN_FDNAMES=%q names fewer than the %d sockets of LISTEN_FDS", names, n)
		}
		var into *net.Listener
		switch list[i] {
		case "handshake":
			into = &s.Handshake
		case "data":
			into = &s.Data
		case "http":
			into = &s.HTTP
		default:
			return s, fmt.Errorf("LISTEN_FDNAMES: the socket %q means nothing here, want handshake, data or http (FileDescriptorName= in the socket unit)", list[i])
		}
		if *into != nil {
			return s, fmt.Errorf("LISTEN_FDNAMES=%q names two sockets %s", names, list[i])
		}
		if *into, err = open(firstSocket + i); err != nil {
			return s, fmt.Errorf("the socket %s that was passed in cannot be used: %w", list[i], err)
		}
	}
	return s, nil
}

func (s *Sockets) close() {
	for _, ln := range []net.Listener{s.Handshake, s.Data, s.HTTP} {
		if ln != nil {
			_ = ln.Close() // the supervisor has its own
		}
	}
}

// takeSockets uses what was passed in, and takes its ports as if flags had named them.
func (l *listeners) takeSockets(c *Config) error {
	rules := readPortRules(c.procRoot)
	l.handshake, l.data, l.http = c.Sockets.Handshake, c.Sockets.Data, c.Sockets.HTTP
	take := func(ln net.Listener, port *int, flag string) error {
		if ln == nil {
			return nil
		}
		addr, ok := ln.Addr().(*net.TCPAddr)
		if !ok {
			return fmt.Errorf("the socket for %s that was passed in listens on %s, want TCP", flag, ln.Addr())
		}
		if *port != 0 && *port != addr.Port {
			return fmt.Errorf("the socket that was passed in listens on port %d and %s=%d", addr.Port, flag, *port)
		}
		*port = addr.Port
		if flag == "--http_port" {
			return nil
		}
		return rules.check(flag, addr.Port)
	}
	if err := take(l.handshake, &c.TEPort, "--te_port"); err != nil {
		return err
	}
	if err := take(l.data, &c.DataPort, "--data_port"); err != nil {
		return err
	}
	return take(l.http, &c.HTTPPort, "--http_port")
}
