package segment

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"mooncake/internal/limits"
)

// listeners are all the ports of a daemon, bound together before anything is announced: whoever learns of a segment
// finds its ports open.
type listeners struct {
	handshake, data, http net.Listener
	admin                 net.Listener // a socket of the file system
}

// listenFixed binds what the configuration fixes. It comes before the arena is looked at, so that a busy port is told
// as such.
func (l *listeners) listenFixed(c *Config) (err error) {
	if err := l.takeSockets(c); err != nil {
		return err
	}
	if l.http == nil && c.HTTPPort > 0 {
		if l.http, err = listen(c.BindAddress, c.HTTPPort, "--http_port"); err != nil {
			return err
		}
	}
	if l.handshake == nil && c.TEPort != 0 {
		if l.handshake, err = listen(c.BindAddress, c.TEPort, "--te_port"); err != nil {
			return err
		}
	}
	if l.data == nil && c.DataPort != 0 {
		if l.data, err = listen(c.BindAddress, c.DataPort, "--data_port"); err != nil {
			return err
		}
	}
	return nil
}

// listenRest binds the other ports: those of the segment that is taken up again, which must be the same because clients
// remember them, or else any that are allowed.
func (l *listeners) listenRest(c *Config, cl *claim) error {
	rules := readPortRules(c.procRoot)
	pick := func(at *net.Listener, remembered func(*State) int, usual int, flag string) error {
		if *at != nil {
			return nil
		}
		var err error
		if cl.state != nil {
			*at, err = listen(c.BindAddress, remembered(cl.state), flag)
			if err != nil {
				return fmt.Errorf("%w; it is the port of the segment in %s, which clients remember, and --fresh discards that segment", err, cl.arenaPath)
			}
			return nil
		}
		for _, port := range []int{portOf(cl.wanted, remembered), usual} {
			if port == 0 || rules.check(flag, port) != nil {
				continue
			}
			if *at, err = listen(c.BindAddress, port, flag); err == nil {
				return nil
			}
		}
		*at, err = rules.choose(func(port int) (net.Listener, error) { return listen(c.BindAddress, port, flag) })
		return err
	}
	if err := pick(&l.handshake, func(s *State) int { return s.TEPort }, 0, "--te_port"); err != nil {
		return err
	}
	if err := pick(&l.data, func(s *State) int { return s.DataPort }, usualDataPort(c), "--data_port"); err != nil {
		return err
	}
	if c.HTTPPort != 0 || l.http != nil {
		return nil
	}
	var err error
	l.http, err = rules.choose(func(port int) (net.Listener, error) { return listen(c.BindAddress, port, "--http_port") })
	return err
}

func portOf(s *State, of func(*State) int) int {
	if s == nil {
		return 0
	}
	return of(s)
}

// usualDataPort is the data port tried first when only the handshake port is fixed, 0 when neither is. Clients remember
// the data port of an endpoint for the life of their process, so one endpoint should have one data port even after a
// clean stop, which leaves no state behind.
func usualDataPort(c *Config) int {
	if c.TEPort == 0 {
		return 0
	}
	h := fnv.New32a()
	fmt.Fprintf(h, "%s:%d", c.host(), c.TEPort)
	return limits.SegmentPortLow + int(h.Sum32()%(limits.SegmentPortHigh-limits.SegmentPortLow+1))
}

func (l *listeners) close() {
	for _, ln := range []net.Listener{l.handshake, l.data, l.http, l.admin} {
		if ln != nil {
			_ = ln.Close() // a second close only says that it is closed
		}
	}
}

// listen opens one port; the error is one sentence with the address, the reason and the flag to change.
func listen(host string, port int, flag string) (net.Listener, error) {
	host = strings.Trim(host, "[]")
	network := "tcp"
	if host == "0.0.0.0" {
		network = "tcp4"
	}
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	ln, err := net.Listen(network, addr)
	if err == nil {
		return ln, nil
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another with %s", addr, errno, flag)
	}
	return nil, fmt.Errorf("cannot listen on %s: %w; choose another with %s", addr, err, flag)
}

func isAddrInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

// Ports are the real ports of a running daemon; 0 means not open.
type Ports struct {
	TE   int `json:"te_port"`
	Data int `json:"data_port"`
	HTTP int `json:"http_port"`
}

func (l *listeners) ports() Ports {
	port := func(ln net.Listener) int {
		if ln == nil {
			return 0
		}
		return ln.Addr().(*net.TCPAddr).Port
	}
	return Ports{TE: port(l.handshake), Data: port(l.data), HTTP: port(l.http)}
}

// write leaves the ports where a launcher looks for them: complete, or not at all.
func (p Ports) write(path string) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("--ports_file: %w", err)
	}
	part := path + ".part"
	if err := os.WriteFile(part, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("--ports_file=%s cannot be written: %w", path, err)
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("--ports_file=%s cannot be written: %w", path, err)
	}
	return nil
}
