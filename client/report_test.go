package client

import (
	"strconv"
	"testing"
	"time"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/limits"
)

// TestReportsAreFew tells of a segment once in a while, however often it fails, and forgets no other for it.
func TestReportsAreFew(t *testing.T) {
	var r reports
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		endpoint string
		afterMs  int
		want     bool
	}{{"a", 0, true}, {"a", limits.ClientReportAgainMs - 1, false}, {"b", 0, true}, {"a", 1, true}, {"a", 0, false}} {
		now = now.Add(time.Duration(c.afterMs) * time.Millisecond)
		if got := r.due(c.endpoint, now); got != c.want {
			t.Errorf("%s after %d ms: %v", c.endpoint, c.afterMs, got)
		}
	}
	for i := range limits.ClientReportsKept + 10 {
		r.due(strconv.Itoa(i), now)
	}
	if len(r.told) > limits.ClientReportsKept {
		t.Errorf("%d are kept", len(r.told))
	}
}

// TestUnreachableSegmentIsReported fails at a segment where nobody listens: the master hears of it.
func TestUnreachableSegmentIsReported(t *testing.T) {
	p := newPool(t, 0)
	c := p.client(Config{})
	before := c.Stats().MasterCalls
	err := c.readAny(soon(t), []*mooncakev1.Placement{{Place: &mooncakev1.Placement_Memory{Memory: &mooncakev1.MemoryPlace{Endpoint: "127.0.0.1:1", Size: 8}}}}, piece{0, make([]byte, 8)})
	if err == nil || c.Stats().MasterCalls != before+1 {
		t.Fatalf("%v, %d calls", err, c.Stats().MasterCalls-before)
	}
}
