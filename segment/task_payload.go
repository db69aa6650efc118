package segment

import (
	"encoding/json"
	"errors"
	"fmt"

	"mooncake/internal/limits"
	"mooncake/wire"
)

// copyPayload is the text of a copy task.
type copyPayload struct {
	TenantID string   `json:"tenant_id"`
	Key      string   `json:"key"`
	Source   string   `json:"source"`
	Targets  []string `json:"targets"`
	// The three numbers are 0 in an ordinary task. A task of dynamic replication carries them back to the master, which
	// thereby knows that its order is still the current one. Release 12 does not know them.
	LeaseHigh    uint64 `json:"dynamic_replication_lease_id_high"`
	LeaseLow     uint64 `json:"dynamic_replication_lease_id_low"`
	VersionEpoch uint64 `json:"dynamic_replication_version_epoch"`
}

// movePayload is the text of a move task.
type movePayload struct {
	TenantID string `json:"tenant_id"`
	Key      string `json:"key"`
	Source   string `json:"source"`
	Target   string `json:"target"`
}

func (p *copyPayload) lease() wire.UUID { return wire.UUID{Hi: p.LeaseHigh, Lo: p.LeaseLow} }

func parseCopy(text string) (*copyPayload, error) {
	var p copyPayload
	if err := parsePayload(text, &p); err != nil {
		return nil, err
	}
	if len(p.Targets) > limits.SegmentTaskTargets {
		return nil, fmt.Errorf("task has %d targets, at most %d are allowed", len(p.Targets), limits.SegmentTaskTargets)
	}
	if p.Key == "" {
		return nil, errors.New("task has no key")
	}
	return &p, nil
}

func parseMove(text string) (*movePayload, error) {
	var p movePayload
	if err := parsePayload(text, &p); err != nil {
		return nil, err
	}
	if p.Key == "" {
		return nil, errors.New("task has no key")
	}
	return &p, nil
}

// parsePayload reads a task's JSON. Keys it does not know are left alone: a newer master may add some.
func parsePayload(text string, into any) error {
	if len(text) > limits.SegmentTaskPayloadBytes {
		return fmt.Errorf("task of %d bytes, at most %d are allowed", len(text), limits.SegmentTaskPayloadBytes)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("task cannot be read: %w", err)
	}
	return nil
}
