package master

import (
	"strconv"
	"strings"

	"go.uber.org/zap"

	"mooncake/wire"
)

// A daemon that was killed and comes back knows nothing of the copies that it was making, and nobody else may end them:
// until the tasks time out their objects could not be moved, copied or removed, and would go with a segment that leaves.

// startedAnew tells whether a mount says that the process of a daemon is a new one. It mounts the region that it starts with
// once, before it asks for tasks; only further regions are mounted later as well.
func (s *Service) startedAnew(client wire.UUID, segment wire.UUID) bool {
	if !wire.IsDaemonClient(client) {
		return false
	}
	st, there := s.cat.SegmentByID(clientID(segment))
	if !there || st.Client != clientID(client) {
		return false // a client without segments has no copies
	}
	for _, other := range s.cat.SegmentsOf(clientID(client)) {
		if number, ok := strings.CutPrefix(st.Name, other.Name+"~"); ok {
			if _, err := strconv.Atoi(number); err == nil {
				return false
			}
		}
	}
	return true
}

// giveUpCopies ends the copies that an earlier process of a daemon has not ended. Drains and the healing ask for them again.
func (s *Service) giveUpCopies(client wire.UUID) {
	now := s.clock.Now()
	aborted := s.cat.AbortCopies(now, clientID(client))
	s.tasks.abandon(now, client)
	if aborted > 0 {
		s.log.Info("a daemon was started again: the copies that it was making are given up", zap.String("client", client.String()), zap.Int("copies", aborted))
	}
}
