package master

import (
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/wire"
)

// endWriters gives up the unfinished writes of clients that are known to be gone.
func (s *Service) endWriters() {
	now := s.clock.Now()
	gone := s.families.writers.gone(now)
	for i, aborted := range s.cat.WritersGone(now, gone) {
		if aborted > 0 {
			s.log.Warn("writer is gone: its unfinished objects are dropped", zap.String("action", "writer_gone"),
				zap.String("client", gone[i].Client.String()), zap.Int("objects", aborted))
		}
	}
}

// givenUp notes that a writer is about to take writes back: most often because their bytes did not arrive.
func (s *Service) givenUp(writer wire.UUID, keys ...string) {
	var buf [4]catalog.UUID
	now := s.clock.Now()
	for _, key := range keys {
		if owners := s.cat.WrittenTo(clientID(writer), key, buf[:0]); len(owners) > 0 {
			s.suspicion.revoked(owners, now)
		}
	}
}

// reported takes the word of others that segments cannot be reached: a sign, no more. It tells how many of the endpoints
// are those of segments.
func (s *Service) reported(endpoints []string) (known int) {
	now := s.clock.Now()
	for _, e := range endpoints {
		owners := s.cat.OwnersAt(e)
		for _, owner := range owners {
			s.suspicion.doubt(owner, now)
		}
		known += min(len(owners), 1)
	}
	return known
}

// failedAt takes a failed copy or move as a sign: most often the bytes did not reach the targets.
func (s *Service) failedAt(payload string) {
	var p struct {
		Targets []string `json:"targets"`
		Target  string   `json:"target"`
	}
	if json.Unmarshal([]byte(payload), &p) != nil {
		return
	}
	now := s.clock.Now()
	for _, name := range append(p.Targets, p.Target) {
		for _, seg := range s.cat.SegmentsNamed(name) {
			s.suspicion.doubt(seg.Client, now)
		}
	}
}

// tell reports what a sweep found out.
func (s *Service) tell(swept *catalog.Swept) {
	for _, stage := range []struct {
		clients      []catalog.UUID
		action, text string
	}{
		{swept.SuspectClients, "client_suspect", "client misses pings: nothing new goes to its segments"},
		{swept.SuspectedClients, "client_suspected", "client is silent: its objects are hidden until it is heard again"},
		{swept.LostClients, "client_lost", "client is lost: its segments count no more, its objects are kept for its return"},
		{swept.GoneClients, "client_gone", "client is gone: what its segments held is forgotten"},
	} {
		for _, id := range stage.clients {
			s.log.Warn(stage.text, zap.String("action", stage.action), zap.String("client", id.String()))
		}
	}
	s.suspected.Add(uint64(len(swept.SuspectedClients)))
	s.lost.Add(uint64(len(swept.LostClients)))
	for _, id := range swept.GoneClients {
		s.suspicion.forgetIdle(id)
	}
	for _, seg := range swept.LeftSegments {
		s.suspicion.forgetIdle(seg.Client)
		s.log.Info("segment unmounted after its grace time", zap.String("segment", seg.Name), zap.String("client", seg.Client.String()))
	}
	for _, seg := range swept.LostSegments {
		s.log.Warn("segment gone with its client", zap.String("segment", seg.Name), zap.String("endpoint", seg.Endpoint))
	}
}

// nameInUse tells whether a client that is not silent has mounted a segment of this name.
func (s *Service) nameInUse(name string) bool {
	for _, seg := range s.cat.SegmentsNamed(name) {
		if seg.Stage < catalog.StageSuspected {
			return true
		}
	}
	return false
}

// lastPing is when the client was last heard as an owner of segments.
func (r *familyRegistry) lastPing(client catalog.UUID) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cl := r.clients[wireID(client)]; cl != nil {
		return cl.pinged
	}
	return time.Time{}
}
