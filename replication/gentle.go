package replication

import (
	"time"

	"mooncake/internal/limits"
)

// gentle lets those have the processor who wait for an answer, while a snapshot is made beside the catalog in use: two busy goroutines
// on two processors would keep them waiting for a time slice of the runtime again and again. Each goroutine has its own.
type gentle struct {
	on    bool // else everything goes at full speed
	since time.Time
}

// rest is called between small pieces of work.
func (g *gentle) rest() {
	if !g.on {
		return
	}
	now := time.Now()
	switch {
	case g.since.IsZero():
		g.since = now
	case now.Sub(g.since) >= limits.SnapshotWorkUs*time.Microsecond:
		time.Sleep(limits.SnapshotRestUs * time.Microsecond)
		g.since = time.Now()
	}
}
