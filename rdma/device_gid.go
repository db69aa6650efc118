package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"mooncake/internal/limits"
)

// gidClass ranks the entries of a GID table as published clients do, best first: both ends have to come to the same kind
// of address without having talked.
type gidClass uint8

const (
	// gidRoutable is an address that routers forward, on a network interface; on InfiniBand any address, because a subnet
	// goes by LIDs.
	gidRoutable gidClass = iota
	// gidRoutableBare is one without a network interface.
	gidRoutableBare
	// gidPrivate is an address of 10/8, 172.16/12 or 100.64/10 on an interface: often, not always, an overlay.
	gidPrivate
	// gidLocal is link-local, or on the interface of an overlay network.
	gidLocal
	// gidDegraded is a private or link-local address without an interface, or the host's own.
	gidDegraded
	// gidOther is RoCE v1, which no router forwards, or an entry whose type is not known.
	gidOther
)

// gidClassTexts say what a class means, for the table.
var gidClassTexts = [...]string{
	gidRoutable: "routable", gidRoutableBare: "routable", gidPrivate: "private", gidLocal: "link-local or overlay",
	gidDegraded: "degraded", gidOther: "RoCE v1 or unknown",
}

// poor reports an address that peers probably do not reach: a port with a better one goes first, however far it is.
func (c gidClass) poor() bool { return c > gidPrivate }

var (
	privateNets = []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("100.64.0.0/10"),
	}
	overlayNames = []string{"docker", "cni", "cali", "flannel", "vxlan", "tunl0"}
)

// address reads a GID of RoCE as the IP address that it is.
func (g GID) address() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// classOf ranks one entry of a port.
func classOf(e *GIDEntry, linkLayer string) gidClass {
	if linkLayer == LinkInfiniBand {
		return gidRoutable
	}
	if e.Type != GIDTypeRoCEv2 {
		return gidOther
	}
	addr := e.GID.address()
	local, bare := addr.IsLinkLocalUnicast() || isOverlay(e.NetDev), e.NetDev == ""
	private := isPrivate(addr)
	switch {
	case addr.IsLoopback(), bare && (local || private):
		return gidDegraded
	case local:
		return gidLocal
	case private:
		return gidPrivate
	case bare:
		return gidRoutableBare
	}
	return gidRoutable
}

func isPrivate(addr netip.Addr) bool {
	for _, net := range privateNets {
		if net.Contains(addr) {
			return true
		}
	}
	return false
}

func isOverlay(netDev string) bool {
	for _, name := range overlayNames {
		if strings.HasPrefix(netDev, name) {
			return true
		}
	}
	return false
}

// compareGIDs orders the entries of one port, best first: by class, IPv4 before IPv6 within it, then by index.
func compareGIDs(a, b *GIDEntry, linkLayer string) int {
	family := func(e *GIDEntry) int {
		if linkLayer == LinkEthernet && !e.GID.address().Is4() {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(classOf(a, linkLayer), classOf(b, linkLayer)), cmp.Compare(family(a), family(b)), cmp.Compare(a.Index, b.Index))
}

// pickGID finds the entry to use: the pinned one or the best of those that a queue pair can be given. The error says why
// there is none.
func pickGID(p *Port, pinned int) (*GIDEntry, error) {
	var best, beyond *GIDEntry
	for i := range p.GIDs {
		e := &p.GIDs[i]
		switch {
		case e.GID.IsZero(): // Scan leaves them out
		case e.Index > limits.RDMAGIDIndexMax:
			beyond = e
		case pinned >= 0 && e.Index == pinned:
			return e, nil
		case pinned < 0 && (best == nil || compareGIDs(e, best, p.LinkLayer) < 0):
			best = e
		}
	}
	if best != nil {
		return best, nil
	}
	if beyond != nil && pinned < 0 {
		return nil, fmt.Errorf("GID index %d is beyond %d, the last one that a queue pair can be given; no entry before it is filled", beyond.Index, limits.RDMAGIDIndexMax)
	}
	if filled := filledGIDs(p.GIDs); pinned >= 0 && len(filled) > 0 {
		return nil, fmt.Errorf("GID index %d (MC_GID_INDEX) is empty; filled are %s", pinned, strings.Join(filled, ", "))
	}
	return nil, errors.New("no GID: give its network interface an address")
}

// filledGIDs names the first filled entries.
func filledGIDs(entries []GIDEntry) []string {
	var indices []int
	for i := range entries {
		if !entries[i].GID.IsZero() {
			indices = append(indices, entries[i].Index)
		}
	}
	slices.Sort(indices)
	const named = 8
	var out []string
	for _, index := range indices[:min(len(indices), named)] {
		out = append(out, strconv.Itoa(index))
	}
	if len(indices) > named {
		out = append(out, "…")
	}
	return out
}

// checkMembership wants full membership of the partition at an index: two limited members do not hear each other, and a
// client that cannot reach the segment learns nothing of why.
func checkMembership(p *Port, index int) error {
	const full, partition = 0x8000, 0x7fff
	if len(p.PKeys) == 0 && index == 0 && p.LinkLayer == LinkEthernet {
		return nil // no table: there are no partitions on Ethernet
	}
	if index >= len(p.PKeys) {
		return fmt.Errorf("no partition key at index %d (MC_PKEY_INDEX); the table has %d", index, len(p.PKeys))
	}
	key := p.PKeys[index]
	if key&full != 0 && key&partition != 0 {
		return nil
	}
	text := fmt.Sprintf("limited member of partition 0x%04x (pkey index %d)", key&partition, index)
	if key&partition == 0 {
		text = fmt.Sprintf("pkey index %d is empty", index)
	}
	for other, k := range p.PKeys {
		if k&full != 0 && k&partition != 0 {
			return fmt.Errorf("%s; index %d is a full one (MC_PKEY_INDEX=%d)", text, other, other)
		}
	}
	return fmt.Errorf("%s, and no index is a full one", text)
}
