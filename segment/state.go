package segment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mooncake/internal/limits"
	"mooncake/wire"
)

// stateVersion is raised when the meaning of a field changes; a daemon refuses a version it does not know.
const stateVersion = 1

// State is what a daemon must bring back after a crash so that a master still holds its objects to be where they are:
// one JSON object beside the arena, written once before anything is announced and removed when the daemon leaves.
type State struct {
	// Version is stateVersion.
	Version int `json:"version"`
	// ClientID is part of the segment's identity: a master that sees the segment under another client id keeps the old
	// client's death sentence running and drops the segment with it.
	ClientID string `json:"client_id"`
	// SegmentID names the mounted region.
	SegmentID string `json:"segment_id"`
	// Base is the address of the arena's first byte as announced; it is no pointer. Every replica the master knows
	// carries it.
	Base uint64 `json:"base"`
	// Size is the announced size in bytes, exact.
	Size uint64 `json:"size"`
	// Name is the segment's name at the master and, with an http or etcd metadata server, in the metadata keys.
	Name string `json:"name"`
	// Endpoint is what readers look up: host:handshake port. Clients cache what they find there for ever.
	Endpoint string `json:"endpoint"`
	// TEPort is the handshake port.
	TEPort int `json:"te_port"`
	// DataPort is the data port; it is inside the descriptor that clients cache.
	DataPort int `json:"data_port"`
	// Protocol is the transport announced.
	Protocol string `json:"protocol"`
	// Master is the master that the segment was offered to. Under another one the segment would hold that one's objects
	// while the first still sends readers to it. Masters that share a pool are named by etcd://members/cluster.
	Master string `json:"master"`
	// Created is when the segment was first made, for people.
	Created time.Time `json:"created"`
}

// errNoState says that there is no state file at all, which is the ordinary first start.
var errNoState = errors.New("no state file")

// encode gives the file's bytes; they are also sealed into the arena, so that the two can be told to belong together.
func (s *State) encode() ([]byte, error) {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// parseState reads a state file strictly: a field it does not know or a value it cannot use is an error, because a
// wrongly read identity puts one run's bytes behind another run's objects.
func parseState(text []byte) (*State, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var s State
	if err := dec.Decode(&s); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, errors.New("text after the object")
	}
	if err := s.validate(); err != nil {
		return nil, err
	}
	return &s, nil
}

func (s *State) validate() error {
	if s.Version != stateVersion {
		return fmt.Errorf("version %d, this daemon writes %d", s.Version, stateVersion)
	}
	if _, err := wire.ParseUUID(s.ClientID); err != nil {
		return fmt.Errorf("client_id: %w", err)
	}
	if _, err := wire.ParseUUID(s.SegmentID); err != nil {
		return fmt.Errorf("segment_id: %w", err)
	}
	switch {
	case s.Base == 0:
		return errors.New("base is 0")
	case s.Size == 0:
		return errors.New("size is 0")
	case s.Base+s.Size < s.Base:
		return errors.New("base + size wraps")
	case s.Name == "" || s.Endpoint == "":
		return errors.New("name or endpoint is missing")
	case len(s.Name) > limits.SegmentNameBytes || len(s.Endpoint) > limits.SegmentNameBytes:
		return errors.New("name or endpoint is too long")
	case s.TEPort <= 0 || s.TEPort > 65535 || s.DataPort <= 0 || s.DataPort > 65535:
		return errors.New("a port is outside 1 to 65535")
	case s.Protocol == "" || s.Master == "":
		return errors.New("protocol or master is missing")
	}
	return nil
}

// readState loads a state file. A file that exists and cannot be used is an error that names it.
func readState(path string) (*State, []byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, errNoState
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	text := make([]byte, limits.SegmentStateBytes+1)
	n, err := readFull(f, text)
	if err != nil {
		return nil, nil, fmt.Errorf("state file %s: %w", path, err)
	}
	if n > limits.SegmentStateBytes {
		return nil, nil, fmt.Errorf("state file %s is damaged (longer than %d bytes): its segment cannot be taken up again; --fresh discards it", path, limits.SegmentStateBytes)
	}
	s, err := parseState(text[:n])
	if err != nil {
		return nil, nil, fmt.Errorf("state file %s is damaged (%w): its segment cannot be taken up again; --fresh discards it", path, err)
	}
	return s, text[:n], nil
}

// unfinishedMark stands after the name of a state file that is being written.
const unfinishedMark = ".tmp-"

// writeState replaces the state file in one step, so that a crash leaves the old one or the new one.
func writeState(path string, text []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+unfinishedMark+"*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails after the rename, as it should
	if err := tmp.Chmod(0o600); err != nil {
		tmp.Close()
		return err
	}
	if _, err := tmp.Write(text); err != nil {
		tmp.Close()
		return err
	}
	if err := tmp.Sync(); err != nil {
		tmp.Close()
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// fits compares a remembered segment with what this start asks for and names the first difference. want.TEPort and
// want.DataPort of 0 accept what is remembered. A segment that has grown may be asked for with the size that it began with
// or with its size now; further is what it has grown by.
func (s *State) fits(c *Config, further uint64) error {
	switch {
	case s.Size != c.SegmentBytes && s.Size+further != c.SegmentBytes:
		return fmt.Errorf("it holds %d bytes and --global_segment_size asks for %d", s.Size+further, c.SegmentBytes)
	case s.Protocol != c.Protocol:
		return fmt.Errorf("it was announced for %s and --protocol asks for %s", s.Protocol, c.Protocol)
	case !samePool(s.Master, c.pool()):
		return fmt.Errorf("it belongs to the master at %s and --master_server_address names %s", s.Master, c.pool())
	case c.TEPort != 0 && s.TEPort != c.TEPort:
		return fmt.Errorf("its handshake port is %d and --te_port asks for %d", s.TEPort, c.TEPort)
	case c.DataPort != 0 && s.DataPort != c.DataPort:
		return fmt.Errorf("its data port is %d and --data_port asks for %d", s.DataPort, c.DataPort)
	case c.SegmentName != "" && s.Name != c.SegmentName:
		return fmt.Errorf("it is named %q and --segment_name asks for %q", s.Name, c.SegmentName)
	}
	return nil
}
