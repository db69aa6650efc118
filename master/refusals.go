package master

import (
	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// refusalLog turns puts refused for want of room into one line from time to time: a full pool refuses thousands a second.
// It belongs to the goroutine that sweeps.
type refusalLog struct {
	next   catalog.Time
	told   catalog.Refusals
	puts   uint64
	logger *zap.Logger
}

// tell writes a line if puts were refused since the last one, and if that is long enough ago.
func (l *refusalLog) tell(now catalog.Time, s *catalog.Stats) {
	if now < l.next || s.PutStartAllocFailures == l.puts {
		return
	}
	r, was := s.Refusals, l.told
	l.logger.Warn("puts refused for want of room, by what holds most of it",
		zap.String("action", "put_refused"), zap.Uint64("puts", s.PutStartAllocFailures-l.puts),
		zap.Uint64("leased", r.Leased-was.Leased), zap.Uint64("pinned", r.Pinned-was.Pinned),
		zap.Uint64("in_flight", r.InFlight-was.InFlight), zap.Uint64("quota", r.Quota-was.Quota),
		zap.Uint64("own_bundle", r.OwnBundle-was.OwnBundle), zap.Uint64("no_segment", r.NoSegment-was.NoSegment),
		zap.Uint64("allocated_bytes", s.AllocatedBytes), zap.Uint64("capacity_bytes", s.CapacityBytes))
	l.next, l.told, l.puts = now+limits.RefusalLogMs, r, s.PutStartAllocFailures
}
