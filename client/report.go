package client

import (
	"context"
	"sync"
	"time"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/limits"
)

// reports remembers of which segments the master was told that they cannot be reached.
type reports struct {
	mu   sync.Mutex
	told map[string]time.Time
}

// due tells whether the master is to be told of a segment now, and notes that it is.
func (r *reports) due(endpoint string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, told := r.told[endpoint]; told && now.Sub(at) < limits.ClientReportAgainMs*time.Millisecond {
		return false
	}
	if r.told == nil || len(r.told) >= limits.ClientReportsKept {
		r.told = map[string]time.Time{}
	}
	r.told[endpoint] = now
	return true
}

// report tells the master of a segment that cannot be reached, so that it asks there itself instead of waiting for missed
// pings. Whether that succeeds does not matter to the caller: another copy is tried in any case.
func (c *Client) report(ctx context.Context, endpoint string) {
	if !c.reports.due(endpoint, time.Now()) {
		return
	}
	conn, _, err := c.master()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limits.ClientReportMs*time.Millisecond)
	defer cancel()
	c.calls.Add(1)
	_, _ = mooncakev1.NewSegmentsClient(conn).Report(ctx, &mooncakev1.ReportRequest{Endpoints: []string{endpoint}})
}
