package segment

import (
	"fmt"
	"net/http"
	"net/netip"

	"go.uber.org/zap"

	"mooncake/internal/access"
	"mooncake/internal/limits"
)

func (c *Config) validateAccess() error {
	if _, err := access.ParseNetworks(c.PeerAllowFrom); err != nil {
		return fmt.Errorf("--peer_allow_from: %w", err)
	}
	return nil
}

// admit tells whether an address may connect to the handshake port and the data port.
func (d *Daemon) admit(addr netip.Addr) bool {
	if d.peerNetworks.Admit(addr) {
		return true
	}
	d.log.Debug("a connection from outside --peer_allow_from is closed", zap.Stringer("peer", addr))
	return false
}

// AllowPeers puts other networks in the place of Config.PeerAllowFrom, for connections from now on. After an error those
// there were stay.
func (d *Daemon) AllowPeers(networks string) error {
	list, err := access.ParseNetworks(networks)
	if err != nil {
		return fmt.Errorf("--peer_allow_from: %w", err)
	}
	d.peerNetworks.Set(list)
	return nil
}

// limitRow is one bound as /limits shows it.
type limitRow struct {
	Name    string  `json:"name"`
	Limit   int64   `json:"limit"`
	Unit    string  `json:"unit"`
	Per     string  `json:"per"`
	Now     *int64  `json:"now,omitempty"`
	Refused *uint64 `json:"refused,omitempty"`
}

// serveLimits shows the bounds on what others may do to this process, with what they hold now where that is known.
func (d *Daemon) serveLimits(w http.ResponseWriter, _ *http.Request) {
	data, handshake, outside := d.data.Stats(), d.handshake.Stats(), d.peerNetworks.Refused()
	writeJSON(w, http.StatusOK, struct {
		Limits []limitRow `json:"limits"`
	}{[]limitRow{
		{"data_connections", limits.DataConns, "connections", "data port", &data.Active, &data.TurnedAway},
		{"data_connections_of_one_address", limits.DataPeerConns, "connections", "address", nil, nil},
		{"data_stall", limits.DataProgressMs, "ms", "request", nil, &data.Stalled},
		{"handshake_connections", limits.HandshakeConns, "connections", "handshake port", &handshake.Active, nil},
		{"handshake_connections_of_one_address", limits.HandshakePeerConns, "connections", "address", nil, nil},
		{"handshake_frame", limits.HandshakeFrameBytes, "bytes", "request", nil, &handshake.Refused},
		{"handshake_time", limits.HandshakeReceiveMs, "ms", "request", nil, &handshake.Stalled},
		{"connections_from_outside", 0, "connections", "process", nil, &outside},
		{"http_connections", limits.SegmentHTTPConns, "connections", "HTTP port", nil, nil},
		{"http_header", limits.SegmentHTTPHeaderBytes, "bytes", "request", nil, nil},
		{"http_request_time", limits.SegmentHTTPMs, "ms", "request", nil, nil},
	}})
}
