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
	fields := []zap.Field{zap.String("action", "put_refused"), zap.Uint64("puts", s.PutStartAllocFailures-l.puts)}
	was := refusalsBy(&l.told)
	for i, r := range refusalsBy(&s.Refusals) {
		fields = append(fields, zap.Uint64(r.Reason, r.Puts-was[i].Puts))
	}
	l.logger.Warn("puts refused for want of room, by what holds most of it",
		append(fields, zap.Uint64("allocated_bytes", s.AllocatedBytes), zap.Uint64("capacity_bytes", s.CapacityBytes))...)
	l.next, l.told, l.puts = now+limits.RefusalLogMs, s.Refusals, s.PutStartAllocFailures
}
