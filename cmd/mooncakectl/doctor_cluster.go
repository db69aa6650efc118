package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lookupHost resolves a name.
func lookupHost(ctx context.Context, host string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return net.DefaultResolver.LookupHost(ctx, host)
}

func checkMaster(_ context.Context, p *patient) (out []finding) {
	for _, master := range sortedKeys(p.why) {
		out = append(out, mistake("start mooncake-master there, or name the right address with --master; the port is that of --grpc_port", "%s", p.why[master])...)
	}
	if p.status != nil {
		out = append(out, fine("a master leads and serves")...)
	}
	return out
}

// silent says that the pool could not be looked at.
func (p *patient) silent() []finding {
	if p.status == nil || len(p.why) > 0 {
		return unknown("the master does not answer")
	}
	return nil
}

// setting finds a setting of the master.
func (p *patient) setting(name string) string {
	for _, s := range p.status.GetSettings() {
		if value, ok := strings.CutPrefix(s, name+"="); ok {
			return value
		}
	}
	return ""
}

// hostOf gives the host of an endpoint; empty for a name that the metadata server knows.
func hostOf(endpoint string) string {
	host, _, err := net.SplitHostPort(endpoint)
	if err != nil {
		return ""
	}
	return host
}

func portOf(endpoint string) int {
	_, text, err := net.SplitHostPort(endpoint)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(text)
	return n
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Unmap().IsLoopback() || host == "localhost"
}

// checkLoopback refuses addresses that mean another machine to everybody who reads them, where there is more than one.
func checkLoopback(_ context.Context, p *patient) (out []finding) {
	if s := p.silent(); s != nil {
		return s
	}
	others := !isLoopback(hostOf(p.status.GetHttpAddress())) && hostOf(p.status.GetHttpAddress()) != ""
	for _, c := range p.clients {
		others = others || c.Address != "" && !isLoopback(c.Address)
	}
	if a := hostOf(p.status.GetHttpAddress()); a == "0.0.0.0" || a == "::" {
		others = slices.ContainsFunc(p.clients, func(c clientView) bool { return c.Address != "" && !isLoopback(c.Address) })
	}
	for _, s := range p.segments {
		if h := hostOf(s.Endpoint); isLoopback(h) && others {
			out = append(out, mistake("start it with --local_hostname and an address that the other hosts reach", "segment %s says it is at %s: other hosts ask themselves then", s.Name, s.Endpoint)...)
		}
	}
	if len(out) == 0 {
		return fine("no segment hides behind a loopback address")
	}
	return out
}

func checkResolve(ctx context.Context, p *patient) (out []finding) {
	if s := p.silent(); s != nil {
		return s
	}
	seen := map[string]bool{}
	for _, s := range p.segments {
		host := hostOf(s.Endpoint)
		if host == "" || seen[host] {
			continue
		}
		seen[host] = true
		if _, err := netip.ParseAddr(host); err == nil {
			continue
		}
		if _, err := p.resolve(ctx, host); err != nil {
			out = append(out, mistake("use an IP address for --local_hostname, or make all hosts resolve the name (DNS, /etc/hosts)", "segment %s: the name %s does not resolve here", s.Name, host)...)
		}
	}
	if len(out) == 0 {
		return fine("the addresses of %d segments resolve", len(p.segments))
	}
	return out
}

// checkPorts looks for ports that the kernel may give to somebody else before the daemon comes back.
func checkPorts(_ context.Context, p *patient) (out []finding) {
	if s := p.silent(); s != nil {
		return s
	}
	low, high := p.host.ephemeralLow, p.host.ephemeralHigh
	if high == 0 {
		return unknown("this host does not tell its range of ephemeral ports")
	}
	taken := func(what string, port int) {
		if port < low || port > high || p.host.isReserved(port) {
			return
		}
		found := mistake(fmt.Sprintf("choose a port below %d, or add it to net.ipv4.ip_local_reserved_ports", low),
			"%s has port %d, which the kernel gives to outgoing connections (%d-%d)", what, port, low, high)
		if port >= 50051 && port <= 50054 { // what everybody has; it is seldom hit
			found[0].State, found[0].Remedy = "advice", "sysctl net.ipv4.ip_local_reserved_ports=50051-50054, so that a restart finds it free"
		}
		out = append(out, found...)
	}
	for _, flag := range []string{"rpc_port", "metrics_port", "grpc_port"} {
		if n, err := strconv.Atoi(p.setting(flag)); err == nil {
			taken("the master's --"+flag, n)
		}
	}
	for _, s := range p.segments {
		taken("segment "+s.Name, portOf(s.Endpoint))
	}
	if len(out) == 0 {
		return fine("no port lies in the ephemeral range %d-%d", low, high)
	}
	return out
}

// checkReleases looks for clients of 0.3.12 and later ones at one address: the master cannot tell some of their calls apart.
func checkReleases(_ context.Context, p *patient) (out []finding) {
	if s := p.silent(); s != nil {
		return s
	}
	releases := map[string]map[string]bool{}
	for _, c := range p.clients {
		if c.Daemon || !strings.HasPrefix(c.Release, "0.3.") {
			continue
		}
		if releases[c.Address] == nil {
			releases[c.Address] = map[string]bool{}
		}
		releases[c.Address][c.Release] = true
	}
	for _, address := range sortedKeys(releases) {
		if r := releases[address]; r["0.3.12"] && len(r) > 1 && p.setting("rpc_port_v12") == "-1" {
			out = append(out, mistake("give the master --rpc_port_v12 and the clients of 0.3.12 that port, or use one release per host",
				"clients of %s share the address %s", strings.Join(sortedKeys(r), " and "), address)...)
		}
	}
	if len(out) == 0 {
		return fine("no address has clients of 0.3.12 beside later ones on one port")
	}
	return out
}

// checkTrainers looks for clients that give memory on a host where a daemon does.
func checkTrainers(_ context.Context, p *patient) (out []finding) {
	if s := p.silent(); s != nil {
		return s
	}
	daemons := map[string]bool{}
	for _, c := range p.clients {
		if c.Daemon && c.Segments > 0 {
			daemons[c.Address] = true
		}
	}
	for _, c := range p.clients {
		if !c.Daemon && c.Segments > 0 && daemons[c.Address] {
			out = append(out, mistake(`set "global_segment_size":"0" in the Mooncake settings of the trainers`,
				"client %s at %s gives %s beside the segment daemon there; it goes when the trainer ends", c.ID, c.Address, size(c.SegmentBytes))...)
		}
	}
	if len(out) == 0 {
		return fine("no trainer gives memory beside a daemon")
	}
	return out
}

// checkSizes compares the pool with what one step writes. One step is still read while the next is written.
func checkSizes(_ context.Context, p *patient) []finding {
	if s := p.silent(); s != nil {
		return s
	}
	capacity := uint64(0)
	largest := segmentView{}
	for _, s := range p.segments {
		capacity += s.Size
		if s.Size > largest.Size {
			largest = s
		}
	}
	step, from := p.wish.stepBytes, "--step_bytes"
	if step == 0 {
		from = "the largest bundle in the pool"
		for _, b := range p.bundles {
			step = max(step, b.Allocated)
		}
	}
	const remedy = "give more memory: a larger --global_segment_size, or more hosts; two steps must fit, for one is read while the next is written"
	switch {
	case len(p.segments) == 0:
		return mistake("start mooncake-segment on a host", "the pool has no segment")
	case step == 0:
		return unknown("the pool has %s, and no bundle yet to compare with; --step_bytes says what a step writes", size(capacity))
	case 2*step > capacity:
		return mistake(remedy, "the pool has %s in %d segments; a step has %s (%s)", size(capacity), len(p.segments), size(step), from)
	}
	return fine("the pool has %s for steps of %s (%s)", size(capacity), size(step), from)
}
