package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mooncake/rdma"
)

// hostFacts is what this host says of itself. What it does not say is 0, or unlimited.
type hostFacts struct {
	devices                     []rdma.Device
	devicesErr                  error
	memlock                     uint64
	cgroupLimit                 uint64
	ephemeralLow, ephemeralHigh int
	reserved                    [][2]int
}

const unlimited = math.MaxUint64

// readHost asks the kernel. root is "/" but in tests.
func readHost(root string) hostFacts {
	h := hostFacts{memlock: unlimited, cgroupLimit: unlimited}
	h.devices, h.devicesErr = rdma.Scan(root)
	if text, err := os.ReadFile(filepath.Join(root, "proc/self/limits")); err == nil {
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "Max locked memory"); ok {
				if n, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64); err == nil {
					h.memlock = n
				}
			}
		}
	}
	if text, err := os.ReadFile(filepath.Join(root, "proc/sys/net/ipv4/ip_local_port_range")); err == nil {
		_, _ = fmt.Sscan(string(text), &h.ephemeralLow, &h.ephemeralHigh) // without them nothing is said of ports
	}
	if text, err := os.ReadFile(filepath.Join(root, "proc/sys/net/ipv4/ip_local_reserved_ports")); err == nil {
		h.reserved = ranges(strings.TrimSpace(string(text)))
	}
	h.readCgroup(root)
	return h
}

// ranges reads 8080,9000-9010.
func ranges(text string) (out [][2]int) {
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(low)
		b, errHigh := a, error(nil)
		if isRange {
			b, errHigh = strconv.Atoi(high)
		}
		if err == nil && errHigh == nil {
			out = append(out, [2]int{a, b})
		}
	}
	return out
}

func (h *hostFacts) isReserved(port int) bool {
	return slices.ContainsFunc(h.reserved, func(r [2]int) bool { return port >= r[0] && port <= r[1] })
}

// readCgroup finds the tightest limit above this process, for both versions of cgroups.
func (h *hostFacts) readCgroup(root string) {
	text, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		base, file := "", ""
		switch {
		case parts[0] == "0":
			base, file = "sys/fs/cgroup", "memory.max"
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			base, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for dir := parts[2]; ; dir = filepath.Dir(dir) {
			if text, err := os.ReadFile(filepath.Join(root, base, dir, file)); err == nil {
				if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
					h.cgroupLimit = min(h.cgroupLimit, n)
				}
			}
			if dir == "/" || dir == "." {
				break
			}
		}
	}
}

// wanted gives the memory that this host is to give, and who says so.
func (p *patient) wanted() (uint64, string) {
	if p.wish.segmentBytes > 0 {
		return p.wish.segmentBytes, "--segment_size"
	}
	return 0, ""
}

func checkMemlock(_ context.Context, p *patient) []finding {
	want, from := p.wanted()
	switch {
	case p.host.memlock == unlimited:
		return fine("memory may be locked without a limit")
	case len(p.wish.devices) == 0:
		return unknown("memory may be locked up to %s; that counts for RDMA: --device_names and --segment_size", size(p.host.memlock))
	case want == 0:
		return unknown("memory may be locked up to %s; --segment_size says how much this host is to give", size(p.host.memlock))
	case p.host.memlock < want:
		return mistake("LimitMEMLOCK=infinity in the unit, ulimit -l unlimited, or --ulimit memlock=-1 for a container",
			"memory may be locked up to %s, and RDMA locks all of %s (%s)", size(p.host.memlock), size(want), from)
	}
	return fine("memory may be locked up to %s", size(p.host.memlock))
}

func checkCgroup(_ context.Context, p *patient) []finding {
	want, from := p.wanted()
	switch {
	case p.host.cgroupLimit >= 1<<62: // version 1 has a number for no limit
		return fine("no memory limit of a cgroup")
	case want == 0:
		return unknown("the cgroup here may have %s; --segment_size says how much this host is to give", size(p.host.cgroupLimit))
	case p.host.cgroupLimit < want+want/16: // its own memory beside the arena
		return mistake("raise the memory limit of the container or unit: shared memory counts against it",
			"the cgroup here may have %s, too little for a segment of %s (%s)", size(p.host.cgroupLimit), size(want), from)
	}
	return fine("the cgroup here may have %s", size(p.host.cgroupLimit))
}

// device finds a device that was named.
func (p *patient) device(name string) *rdma.Device {
	for i := range p.host.devices {
		if p.host.devices[i].Name == name {
			return &p.host.devices[i]
		}
	}
	return nil
}

func checkDeviceThere(_ context.Context, p *patient) (out []finding) {
	if len(p.wish.devices) == 0 {
		return unknown("RDMA is not looked at: --device_names")
	}
	if p.host.devicesErr != nil {
		return mistake("run it where /sys can be read", "%v", p.host.devicesErr)
	}
	var there []string
	for _, d := range p.host.devices {
		there = append(there, d.Name)
	}
	for _, name := range p.wish.devices {
		if p.device(name) == nil {
			out = append(out, mistake("name one that is there, load its driver, or give the container /dev/infiniband",
				"there is no RDMA device %s; there are: %s", name, strings.Join(append(there, "none")[:max(len(there), 1)], ", "))...)
		}
	}
	if len(out) == 0 {
		return fine("%s: there", strings.Join(p.wish.devices, ", "))
	}
	return out
}

func checkDeviceUp(_ context.Context, p *patient) (out []finding) {
	if len(p.wish.devices) == 0 {
		return unknown("RDMA is not looked at: --device_names")
	}
	for _, name := range p.wish.devices {
		d := p.device(name)
		if d == nil {
			continue
		}
		up := slices.ContainsFunc(d.Ports, func(x rdma.Port) bool { return x.State == rdma.StateActive })
		if !up {
			var states []string
			for _, x := range d.Ports {
				states = append(states, fmt.Sprintf("port %d is %s", x.Number, x.State))
			}
			out = append(out, mistake("look at the cable, the switch port and ip link; on InfiniBand a subnet manager must run",
				"%s carries no traffic: %s", name, strings.Join(append(states, "no port")[:max(len(states), 1)], ", "))...)
		}
	}
	if len(out) == 0 {
		return fine("the devices carry traffic")
	}
	return out
}

// fabric tells what a device is connected with: its link layer, and whether it can be routed there.
func fabric(d *rdma.Device) (layers []string, routed bool) {
	for _, x := range d.Ports {
		if x.State != rdma.StateActive {
			continue
		}
		if !slices.Contains(layers, x.LinkLayer) {
			layers = append(layers, x.LinkLayer)
		}
		for _, g := range x.GIDs {
			routed = routed || x.LinkLayer == rdma.LinkInfiniBand || g.Type == rdma.GIDTypeRoCEv2
		}
	}
	slices.Sort(layers)
	return layers, routed
}

// checkFabric looks for devices that cannot reach each other: of different link layers, or Ethernet without an address that
// is routed.
func checkFabric(_ context.Context, p *patient) (out []finding) {
	if len(p.wish.devices) == 0 {
		return unknown("RDMA is not looked at: --device_names")
	}
	first := ""
	for _, name := range p.wish.devices {
		d := p.device(name)
		if d == nil {
			continue
		}
		layers, routed := fabric(d)
		if len(layers) == 0 {
			continue
		}
		here := strings.Join(layers, " and ")
		switch {
		case first != "" && here != first:
			out = append(out, mistake("name only devices of one fabric: peers on the other cannot be reached", "%s is on %s, those before are on %s", name, here, first)...)
		case !routed:
			out = append(out, mistake("give its network interface an IP address: RoCE v2 takes its own from there", "%s has no RoCE v2 address on %s", name, here)...)
		}
		if first == "" {
			first = here
		}
	}
	if len(out) == 0 {
		return fine("the devices are on one fabric")
	}
	return out
}
