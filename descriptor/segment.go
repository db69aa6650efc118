package descriptor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Protocols a descriptor can name. Others exist in foreign builds; they parse, and nobody here can use them.
const (
	ProtocolTCP  = "tcp"
	ProtocolRDMA = "rdma"
)

// Framings of the data port, as tcp_proto_version names them. A descriptor without the field means the first.
const (
	TCPUnacknowledged = 1
	TCPAcknowledged   = 2
)

// timestampLayout is the local time text real processes write. Nobody reads it.
const timestampLayout = "2006-01-02 15:04:05.000000"

// Segment is what a process tells others about the memory it serves. Field order is the order of the keys in the text:
// sorted, as real processes write it.
type Segment struct {
	// Buffers are the ranges that can be read and written. Real processes also list private ones.
	Buffers []Buffer `json:"buffers"`
	// Devices are the RDMA devices; rkeys and the priority matrix refer to them by place and by name.
	Devices []Device `json:"devices,omitzero"`
	// MetadataVersion is microseconds since 1970 in descriptors that release 14 publishes; 0 is "none".
	MetadataVersion uint64 `json:"metadata_version,omitzero"`
	// Name is ip:handshake_port in P2P mode, else the segment's name.
	Name string `json:"name"`
	// PriorityMatrix maps a memory location to the devices near to it and the others.
	PriorityMatrix map[string]NICPreference `json:"priority_matrix,omitzero"`
	// Protocol decides which transport a reader uses.
	Protocol string `json:"protocol"`
	// RDMAServerName replaces Name inside nic paths.
	RDMAServerName string `json:"rdma_server_name,omitzero"`
	// TCPDataHost is the host to dial for data. Release 12 never looks at it.
	TCPDataHost string `json:"tcp_data_host,omitzero"`
	// TCPDataPort is the port to dial for data; 0 in descriptors for rdma.
	TCPDataPort uint16 `json:"tcp_data_port"`
	// TCPProtoVersion is the framing of the data port: TCPUnacknowledged or TCPAcknowledged.
	TCPProtoVersion int `json:"tcp_proto_version"`
	// Timestamp is informative local time.
	Timestamp string `json:"timestamp"`
}

// Buffer is one range of memory in the holder's address space.
type Buffer struct {
	// Addr is the first address. To TCP peers it is an opaque number.
	Addr uint64 `json:"addr"`
	// Length is the number of bytes.
	Length uint64 `json:"length"`
	// LKey has one number per device; readers only count them.
	LKey []uint32 `json:"lkey,omitzero"`
	// Name is the segment's name (tcp) or the location of the memory, such as cpu:0 (rdma).
	Name string `json:"name"`
	// RKey has one key per device, or none when the range is private.
	RKey []uint32 `json:"rkey,omitzero"`
}

// Device is one RDMA device of the holder.
type Device struct {
	// GID is 16 bytes, two hexadecimal digits each, with colons between.
	GID string `json:"gid"`
	// LID is the local identifier; 0 on Ethernet.
	LID uint16 `json:"lid"`
	// Name is the device's name on its host.
	Name string `json:"name"`
}

// NICPreference holds the devices to use for one memory location: the preferred ones first, then the others.
type NICPreference [2][]string

// Stamp writes a moment the way the timestamp field has it.
func Stamp(at time.Time) string { return at.Format(timestampLayout) }

// Encode writes the descriptor as real processes do: compact, keys sorted, with a newline at the end.
func (s *Segment) Encode() []byte {
	written := *s
	if written.Buffers == nil {
		written.Buffers = []Buffer{}
	}
	return encodeJSON(&written)
}

// encodeJSON writes a value of this package, none of which can fail to encode.
func encodeJSON(v any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic("descriptor: a plain struct did not encode: " + err.Error())
	}
	return text.Bytes()
}

// Validate reports why a reader would throw the descriptor away, or nil.
func (s *Segment) Validate() error {
	switch {
	case s.Name == "":
		return errors.New("descriptor has no name")
	case s.Protocol == "":
		return fmt.Errorf("descriptor of %q has no protocol", s.Name)
	case s.Protocol == ProtocolTCP && s.TCPDataPort == 0:
		return fmt.Errorf("descriptor of %q has no tcp_data_port", s.Name)
	case s.TCPProtoVersion < 1:
		return fmt.Errorf("descriptor of %q: tcp_proto_version is %d, want 1 or more", s.Name, s.TCPProtoVersion)
	}
	for i := range s.Devices {
		if err := s.Devices[i].validate(); err != nil {
			return fmt.Errorf("descriptor of %q: devices[%d]: %w", s.Name, i, err)
		}
	}
	for i := range s.Buffers {
		if err := s.Buffers[i].validate(s); err != nil {
			return fmt.Errorf("descriptor of %q: buffers[%d]: %w", s.Name, i, err)
		}
	}
	return nil
}

func (b *Buffer) validate(s *Segment) error {
	switch {
	case b.Name == "":
		return errors.New("no name")
	case b.Addr == 0:
		return errors.New("addr is 0")
	case b.Length == 0:
		return errors.New("length is 0")
	case b.Addr+b.Length-1 < b.Addr:
		return fmt.Errorf("addr %#x and length %d reach beyond the end of the address space", b.Addr, b.Length)
	}
	if s.Protocol == ProtocolRDMA && len(b.RKey) > 0 && (len(b.RKey) != len(s.Devices) || len(b.LKey) != len(s.Devices)) {
		return fmt.Errorf("%d rkeys and %d lkeys for %d devices", len(b.RKey), len(b.LKey), len(s.Devices))
	}
	return nil
}

func (d *Device) validate() error {
	if d.Name == "" {
		return errors.New("no name")
	}
	parts := strings.Split(d.GID, ":")
	if len(parts) != gidBytes {
		return fmt.Errorf("gid %q is not %d bytes", d.GID, gidBytes)
	}
	for _, part := range parts {
		if len(part) != 2 || strings.Trim(strings.ToLower(part), "0123456789abcdef") != "" {
			return fmt.Errorf("gid %q: %q is not two hexadecimal digits", d.GID, part)
		}
	}
	return nil
}

const gidBytes = 16
