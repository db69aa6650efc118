package descriptor

import (
	"fmt"
	"strings"

	"mooncake/internal/limits"
)

// Connection is the JSON text of a FrameConnection exchange: what two processes tell each other to connect queue pairs.
// What newer releases add for things that are not offered here (efa_addr, ctrl_channel, notify_qp_num, notify_rq_depth)
// is left alone in requests and left out of answers; peers of all releases accept both. The zero value is the answer of
// a process without RDMA.
type Connection struct {
	// LocalGID is the sender's address, as Device.GID has it. A real process may leave it empty; then it is found in the
	// descriptor of the sender.
	LocalGID string `json:"local_gid"`
	// LocalLID is the sender's local identifier; 0 on Ethernet.
	LocalLID uint16 `json:"local_lid"`
	// LocalNICPath and PeerNICPath name the two devices from the sender's point of view; see NICPath.
	LocalNICPath string `json:"local_nic_path"`
	// Payload is always empty between processes that use verbs. Release 12 does not know the field.
	Payload     string `json:"payload"`
	PeerNICPath string `json:"peer_nic_path"`
	// QPNum are the numbers of the sender's queue pairs, to be connected one to one with the answerer's.
	QPNum []uint32 `json:"qp_num"`
	// ReadyAck is false in the first frame and true in the second, which a connecting process sends when its queue pairs
	// are ready, provided that the answer to the first had the field. Nil: the field is not there.
	ReadyAck *bool `json:"ready_ack,omitempty"`
	// ReplyMsg says why the answerer refuses; empty means that it does not.
	ReplyMsg string `json:"reply_msg"`
}

// Ready reports whether this is the second frame of a connection, the one that opens nothing.
func (c *Connection) Ready() bool { return c.ReadyAck != nil && *c.ReadyAck }

// Encode writes the text as real processes do.
func (c *Connection) Encode() []byte {
	written := *c
	if written.QPNum == nil {
		written.QPNum = []uint32{}
	}
	return encodeJSON(&written)
}

// ParseConnection reads a request or an answer. It checks types and sizes, and no meaning: an empty object is a
// Connection, as the answer to a second frame is one.
func ParseConnection(text []byte) (*Connection, error) {
	r := fieldReader{path: "connection"}
	o := r.object(text, "")
	c := &Connection{
		LocalGID:     o.str("local_gid"),
		LocalLID:     uint16(o.number("local_lid", 0, 1<<16-1)),
		LocalNICPath: o.str("local_nic_path"),
		Payload:      o.str("payload"),
		PeerNICPath:  o.str("peer_nic_path"),
		QPNum:        o.keys("qp_num"),
		ReplyMsg:     o.str("reply_msg"),
	}
	o.value("ready_ack", &c.ReadyAck)
	if r.err != nil {
		return nil, r.err
	}
	for _, path := range []string{c.LocalNICPath, c.PeerNICPath} {
		if len(path) > limits.HandshakeNICPathBytes {
			return nil, fmt.Errorf("connection: a nic path of %d bytes, at most %d are allowed", len(path), limits.HandshakeNICPathBytes)
		}
	}
	if len(c.QPNum) > limits.HandshakeQPs {
		return nil, fmt.Errorf("connection: %d queue pairs, at most %d are allowed", len(c.QPNum), limits.HandshakeQPs)
	}
	return c, nil
}

// NICPath names one device of one process: the process's server name, @, the device's name.
func NICPath(server, device string) string { return server + "@" + device }

// SplitNICPath takes a path apart at its first @.
func SplitNICPath(path string) (server, device string, ok bool) {
	server, device, ok = strings.Cut(path, "@")
	return server, device, ok && server != "" && device != ""
}

// ServerName is what nic paths call the process: its name, unless it has another for them.
func (s *Segment) ServerName() string {
	if s.RDMAServerName != "" {
		return s.RDMAServerName
	}
	return s.Name
}

// Remote returns the first buffer that holds the whole range and is open to peers, or nil.
func (s *Segment) Remote(addr, length uint64) *Buffer {
	for i := range s.Buffers {
		b := &s.Buffers[i]
		if len(b.RKey) > 0 && addr >= b.Addr && length <= b.Length && addr-b.Addr <= b.Length-length {
			return b
		}
	}
	return nil
}

// connect gives a request to the owner. Requests that cannot be read are refused in words: the peer's log is where
// somebody will look first.
func (s *Server) connect(request []byte) []byte {
	if s.cfg.Connect == nil {
		return emptyConnection
	}
	c, err := ParseConnection(request)
	if err != nil {
		return (&Connection{ReplyMsg: err.Error()}).Encode()
	}
	answer := s.cfg.Connect(c)
	return answer.Encode()
}
