package master

import (
	"time"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// Clock counts milliseconds since 1970, from a wall-clock start on the monotonic clock: a change of the machine's time moves
// no lease and expires nobody. On a machine whose time is before limits.AgeEpochMs it counts from there.
type Clock struct {
	start  time.Time
	baseMs int64
}

// NewClock starts a clock at the present wall time.
func NewClock() *Clock {
	now := time.Now()
	return newClock(now, now)
}

func newClock(wall, start time.Time) *Clock {
	return &Clock{start: start, baseMs: max(wall.UnixMilli(), limits.AgeEpochMs)}
}

// StartAt makes the clock go on from a time, which must not be before what it shows.
func (c *Clock) StartAt(t catalog.Time) {
	c.baseMs += int64(t - c.Now())
}

// Now reads the clock.
func (c *Clock) Now() catalog.Time { return c.at(c.elapsed()) }

// elapsed is the time since the start, at what it shows then: who needs both reads the clock once.
func (c *Clock) elapsed() time.Duration { return time.Since(c.start) }

func (c *Clock) at(elapsed time.Duration) catalog.Time {
	return catalog.Time(c.baseMs + elapsed.Milliseconds())
}
