package segment

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"

	"mooncake/internal/limits"
)

// portRange is an inclusive range of TCP ports with the reason why a daemon keeps out of it.
type portRange struct {
	low, high int
	why       string
}

func (r portRange) holds(port int) bool { return port >= r.low && port <= r.high }

// clientRanges are the ports a published client takes for itself. A client that later gets an endpoint equal to its own
// copies from the daemon's addresses inside its own process and dies, so a daemon must never be found there.
var clientRanges = []portRange{
	{12300, 14300, "published clients name themselves by a port of it"},
	{15000, 17000, "published clients listen in it"},
	{50052, 50052, "the master's admin port"},
}

// defaultEphemeral is Linux's default range for outgoing connections. It is refused even where the kernel is set
// otherwise, since the same configuration file usually travels to hosts that are not.
var defaultEphemeral = portRange{32768, 60999, "the usual range for outgoing connections"}

// portRules says which ports a handshake or data listener may have on this host.
type portRules struct {
	ephemeral portRange // the kernel's actual range; low 0 when unknown
	reserved  []portRange
	// crowded is set when the kernel's range leaves next to nothing; then it is not used as a rule, only warned about.
	crowded bool
}

// readPortRules reads the kernel's settings below procRoot ("/proc").
func readPortRules(procRoot string) portRules {
	var r portRules
	if text, err := os.ReadFile(procRoot + "/sys/net/ipv4/ip_local_port_range"); err == nil {
		f := strings.Fields(string(text))
		if len(f) == 2 {
			low, errLow := strconv.Atoi(f[0])
			high, errHigh := strconv.Atoi(f[1])
			if errLow == nil && errHigh == nil && low <= high {
				r.ephemeral = portRange{low, high, "the kernel's range for outgoing connections (net.ipv4.ip_local_port_range)"}
			}
		}
	}
	if text, err := os.ReadFile(procRoot + "/sys/net/ipv4/ip_local_reserved_ports"); err == nil {
		r.reserved = parsePortList(strings.TrimSpace(string(text)))
	}
	free := 0
	for p := limits.SegmentPortLow; p <= limits.SegmentPortHigh; p++ {
		if !r.inEphemeral(p) {
			free++
		}
	}
	r.crowded = free < limits.SegmentPortsFree
	return r
}

// parsePortList reads the kernel's "8080,9000-9010" form; what it cannot read it leaves out.
func parsePortList(text string) []portRange {
	var out []portRange
	for _, part := range strings.Split(text, ",") {
		lowText, highText, ranged := strings.Cut(strings.TrimSpace(part), "-")
		low, err := strconv.Atoi(lowText)
		if err != nil {
			continue
		}
		high := low
		if ranged {
			if high, err = strconv.Atoi(highText); err != nil {
				continue
			}
		}
		out = append(out, portRange{low: low, high: high})
	}
	return out
}

func (r *portRules) inEphemeral(port int) bool {
	if r.ephemeral.low == 0 || !r.ephemeral.holds(port) {
		return false
	}
	for _, x := range r.reserved {
		if x.holds(port) {
			return false
		}
	}
	return true
}

// check says in one line why a port given by a flag is refused; 0 means "choose one" and is always accepted.
func (r *portRules) check(flag string, port int) error {
	if port == 0 {
		return nil
	}
	if port < 0 || port > 65535 {
		return fmt.Errorf("%s=%d: a port is a number from 0 to 65535", flag, port)
	}
	bad := func(x portRange) error {
		return fmt.Errorf("%s=%d lies in %d-%d, %s: choose a port outside 12300-14300, 15000-17000 and 32768-60999, or 0",
			flag, port, x.low, x.high, x.why)
	}
	for _, x := range clientRanges {
		if x.holds(port) {
			return bad(x)
		}
	}
	if !r.crowded && r.inEphemeral(port) {
		return bad(r.ephemeral)
	}
	if defaultEphemeral.holds(port) {
		return bad(defaultEphemeral)
	}
	return nil
}

// choose binds a free port outside every forbidden range, in random order so that many daemons starting at once do not
// queue behind the same candidates. listen opens one port.
func (r *portRules) choose(listen func(port int) (net.Listener, error)) (net.Listener, error) {
	span := limits.SegmentPortHigh - limits.SegmentPortLow + 1
	var last error
	for range limits.SegmentPortTries {
		port := limits.SegmentPortLow + rand.IntN(span)
		if r.check("", port) != nil {
			continue
		}
		ln, err := listen(port)
		if err == nil {
			return ln, nil
		}
		if !isAddrInUse(err) {
			return nil, err
		}
		last = err
	}
	if last == nil {
		last = errors.New("no candidate port is allowed on this host")
	}
	return nil, fmt.Errorf("no free port in %d-%d after %d tries: %w", limits.SegmentPortLow, limits.SegmentPortHigh, limits.SegmentPortTries, last)
}
