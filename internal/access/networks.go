package access

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"

	"mooncake/internal/limits"
)

// Networks are the addresses that may connect. The zero value lets everybody in.
type Networks struct {
	list    atomic.Pointer[[]netip.Prefix]
	refused atomic.Uint64
}

// ParseNetworks reads networks with commas or semicolons between: 10.0.0.0/8, 192.168.1.7, fd00::/8. Nothing is everybody.
func ParseNetworks(text string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for item := range strings.SplitSeq(strings.ReplaceAll(text, ";", ","), ",") {
		item = strings.Trim(strings.TrimSpace(item), "[]")
		p, err := netip.ParsePrefix(item)
		if err != nil {
			ip, badIP := netip.ParseAddr(item)
			if badIP != nil || ip.Zone() != "" {
				return nil, fmt.Errorf("%q is neither an address nor a network like 10.0.0.0/8", item)
			}
			p = netip.PrefixFrom(ip, ip.BitLen())
		}
		if p.Masked() != p {
			return nil, fmt.Errorf("%q has bits behind its mask: the network is %s", item, p.Masked())
		}
		out = append(out, p)
	}
	if len(out) > limits.AccessNetworks {
		return nil, fmt.Errorf("%d networks, at most %d are allowed", len(out), limits.AccessNetworks)
	}
	return out, nil
}

// Set puts other networks in the place of those there are.
func (n *Networks) Set(list []netip.Prefix) { n.list.Store(&list) }

// Admit tells whether an address may connect, and counts those that may not. Nil networks admit everybody.
func (n *Networks) Admit(addr netip.Addr) bool {
	if n == nil {
		return true
	}
	list := n.list.Load()
	if list == nil || len(*list) == 0 {
		return true
	}
	addr = addr.Unmap().WithZone("")
	for _, p := range *list {
		if p.Contains(addr) {
			return true
		}
	}
	n.refused.Add(1)
	return false
}

// Refused counts connections that were not let in.
func (n *Networks) Refused() uint64 { return n.refused.Load() }
