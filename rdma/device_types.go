package rdma

import (
	"encoding/hex"
	"strings"
)

// StateActive is the state of a port that carries traffic; sysfs and verbs know DOWN, INIT, ARMED and ACTIVE_DEFER besides.
const StateActive = "ACTIVE"

// The link layers of a port. An adapter that names another one speaks neither InfiniBand nor RoCE.
const (
	LinkEthernet   = "Ethernet"
	LinkInfiniBand = "InfiniBand"
)

// The types of a GID entry as sysfs spells them. On an InfiniBand port GIDTypeIB is the native kind, on an Ethernet port it
// is RoCE v1, which no router forwards.
const (
	GIDTypeIB     = "IB/RoCE v1"
	GIDTypeRoCEv2 = "RoCE v2"
)

// GID is the 16-byte address of a port.
type GID [16]byte

// String gives the form of descriptors and handshakes: sixteen pairs of hex digits with colons between.
func (g GID) String() string {
	var b strings.Builder
	b.Grow(3*len(g) - 1)
	for i, octet := range g {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(hex.EncodeToString([]byte{octet}))
	}
	return b.String()
}

// IsZero reports an entry without an address.
func (g GID) IsZero() bool { return g == GID{} }

// Device is one RDMA adapter, or one function of it, as sysfs shows it.
type Device struct {
	// Name is the verbs name, like mlx5_0.
	Name string
	// NodeType is the kind of adapter: "CA" for InfiniBand and RoCE, "RNIC" for iWARP. Empty where sysfs does not say.
	NodeType string
	// NUMA is the node that the adapter hangs on, -1 where unknown.
	NUMA int
	// Distances holds the firmware's distance from every NUMA node to this one, by node number; empty where unknown.
	Distances []int
	// Virtual marks a virtual function of an adapter.
	Virtual bool
	// Ports are the ports by ascending number.
	Ports []Port
	// Fault says what of the device could not be read. A faulty device is never chosen.
	Fault string
}

// Port is one port of a device.
type Port struct {
	// Number counts from 1.
	Number int
	// State is StateActive or the word that sysfs shows instead.
	State string
	// LinkLayer is LinkEthernet, LinkInfiniBand or what sysfs shows instead.
	LinkLayer string
	// RateGbps is the signalling rate in 10^9 bits per second.
	RateGbps float64
	// LID is the local identifier in an InfiniBand subnet, 0 on Ethernet.
	LID uint16
	// GIDs are the filled entries of the GID table by ascending index.
	GIDs []GIDEntry
	// PKeys is the partition table from index 0 on. The highest bit of an entry marks full membership.
	PKeys []uint16
	// Fault says what of the port could not be read. A faulty port is never chosen.
	Fault string
}

// GIDEntry is one filled entry of a port's GID table.
type GIDEntry struct {
	// Index is the place in the table, which the peer never sees.
	Index int
	// GID is the address.
	GID GID
	// Type is GIDTypeIB, GIDTypeRoCEv2, or empty where sysfs does not say.
	Type string
	// NetDev is the network interface of the entry; empty on InfiniBand.
	NetDev string
}

// Wish is what was asked for: pins by flags and environment, and where the memory lies.
type Wish struct {
	// Names pins the devices; empty chooses one.
	Names []string
	// NUMA is the node of the segment's memory, -1 where unknown or spread.
	NUMA int
	// Port pins the port number on every device; 0 takes the best one of each.
	Port int
	// GIDIndex pins the entry of the GID table; -1 takes the best one.
	GIDIndex int
	// PKeyIndex is the entry of the partition table.
	PKeyIndex int
}

// Verdict is what was decided about one port of one device.
type Verdict struct {
	// Device is the name of the device, Virtual whether it is a virtual function of an adapter.
	Device  string
	Virtual bool
	// Port is the number of the port, 0 for a device that shows none. State and LinkLayer are as in Port.
	Port             int
	State, LinkLayer string
	// GIDIndex is the entry that would be used, -1 where there is none; GID, GIDType and NetDev are what it holds.
	GIDIndex        int
	GID             GID
	GIDType, NetDev string
	// LID is as in Port, PKeyIndex as in Wish.
	LID       uint16
	PKeyIndex int
	// NUMA and RateGbps are as in Device and Port.
	NUMA     int
	RateGbps float64
	// Usable says whether the port could be published, Chosen whether it is, Reason why or why not.
	Usable, Chosen bool
	Reason         string
}

// Choice is the outcome of Choose: a verdict for every port there is, by device name and port number.
type Choice struct {
	Verdicts   []Verdict
	order      []int // of the chosen ones, as pinned
	memoryNUMA int
	names      []string
}

// Chosen gives the chosen verdicts, pinned ones in the order of the names. It is the order of devices and keys in the
// descriptor.
func (c Choice) Chosen() []Verdict {
	out := make([]Verdict, 0, len(c.order))
	for _, i := range c.order {
		out = append(out, c.Verdicts[i])
	}
	return out
}
