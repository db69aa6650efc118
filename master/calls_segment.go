package master

import (
	"time"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/hostport"
	"mooncake/internal/limits"
	"mooncake/wire"
)

func (s *Service) registerSegments() {
	register(s, &wire.MountSegment, func(p *peerConn, q *wire.MountSegmentRequest, r *wire.MountSegmentReply) {
		s.mount(p, q, r)
		s.count(wire.MountSegment.ID, r.Err != 0)
	})
	register(s, &wire.ReMountSegment, func(p *peerConn, q *wire.ReMountSegmentRequest, r *wire.ReMountSegmentReply) {
		s.remount(p, q, r)
		s.count(wire.ReMountSegment.ID, r.Err != 0)
	})
	register(s, &wire.UnmountSegment, func(p *peerConn, q *wire.UnmountSegmentRequest, r *wire.UnmountSegmentReply) {
		s.families.bind(p, q.ClientID)
		gone, err := s.cat.UnmountSegment(s.clock.Now(), clientID(q.SegmentID), clientID(q.ClientID))
		r.Err = codeOf(err)
		for _, g := range gone {
			s.log.Info("segment unmounted", zap.String("segment", g.Name), zap.String("client", q.ClientID.String()))
			s.suspicion.forgetIdle(g.Client) // whoever asked
		}
		s.count(wire.UnmountSegment.ID, r.Err != 0)
	})
	register(s, &wire.GracefulUnmountSegment, func(p *peerConn, q *wire.GracefulUnmountSegmentRequest, r *wire.GracefulUnmountSegmentReply) {
		s.families.bind(p, q.ClientID)
		graceMs := int64(min(q.GracePeriodMs, limits.GraceMsMax))
		r.Err = codeOf(s.cat.LeaveSegment(s.clock.Now(), clientID(q.SegmentID), clientID(q.ClientID), graceMs))
		s.log.Info("segment is to be unmounted after a grace time", zap.String("segment", q.SegmentID.String()), zap.Int64("grace_ms", graceMs),
			zap.String("client", q.ClientID.String()), zap.String("code", r.Err.String()))
		if r.Err == 0 && graceMs > 0 && wire.IsDaemonClient(q.ClientID) {
			s.evacuate(q.SegmentID)
		}
		s.count(wire.UnmountSegment.ID, r.Err != 0) // the original counts both as one
	})
	register(s, &wire.Ping, func(p *peerConn, q *wire.PingRequest, r *wire.PingReply) {
		s.families.pinged(p, q.ClientID, time.Now())
		r.Value.ClientStatus = wire.ClientStatusNeedRemount
		r.Value.ViewVersionID = s.history.view()
		if s.cat.Ping(s.clock.Now(), clientID(q.ClientID)) {
			r.Value.ClientStatus = wire.ClientStatusOK
		}
		s.count(wire.Ping.ID, false)
	})
	register(s, &wire.BatchQueryIp, func(_ *peerConn, q *wire.BatchQueryIpRequest, r *wire.BatchQueryIpReply) {
		for _, id := range q.ClientIDs {
			if hosts := s.hostsOf(id); len(hosts) > 0 {
				r.Value = append(r.Value, wire.MapEntry[wire.UUID, []string]{Key: id, Value: hosts})
			}
		}
		s.countBatch(wire.BatchQueryIp.ID, len(q.ClientIDs), 0)
	})
	register(s, &wire.QuerySegmentStatus, func(_ *peerConn, q *wire.QuerySegmentStatusRequest, r *wire.QuerySegmentStatusReply) {
		r.Value, r.Err = s.segmentStatus(func(st *catalog.SegmentStatus) bool { return st.Name == q.SegmentName })
	})
	register(s, &wire.QuerySegmentStatusById, func(_ *peerConn, q *wire.QuerySegmentStatusByIdRequest, r *wire.QuerySegmentStatusByIdReply) {
		r.Value, r.Err = s.segmentStatus(func(st *catalog.SegmentStatus) bool { return st.ID == clientID(q.SegmentID) })
	})
}

func (s *Service) mount(p *peerConn, q *wire.MountSegmentRequest, r *wire.MountSegmentReply) {
	err := checkTexts(&q.Segment)
	if err == nil {
		if s.startedAnew(q.ClientID, q.Segment.ID) {
			s.giveUpCopies(q.ClientID)
		}
		err = s.cat.MountSegment(s.clock.Now(), clientID(q.ClientID), segmentIn(&q.Segment))
	}
	if err == nil {
		s.stays(q.ClientID, q.Segment.ID)
	}
	r.Err = codeOf(err)
	fields := []zap.Field{
		zap.String("segment", shortened(q.Segment.Name)), zap.String("endpoint", shortened(q.Segment.TeEndpoint)), zap.Uint64("size_bytes", q.Segment.Size),
		zap.String("client", q.ClientID.String()),
	}
	if err != nil {
		s.families.bind(p, q.ClientID)
		s.log.Warn("mount refused", append(fields, zap.Uint64("base", q.Segment.Base), zap.String("code", r.Err.String()))...)
		return
	}
	s.families.mounted(p, q.ClientID, time.Now())
	s.suspicion.mounted(clientID(q.ClientID))
	s.log.Info("segment mounted", fields...)
}

func (s *Service) remount(p *peerConn, q *wire.ReMountSegmentRequest, r *wire.ReMountSegmentReply) {
	segments := make([]catalog.Segment, len(q.Segments))
	var err error
	for i := range q.Segments {
		if err == nil {
			err = checkTexts(&q.Segments[i])
		}
		segments[i] = segmentIn(&q.Segments[i])
	}
	if err == nil {
		err = s.cat.ReMountSegments(s.clock.Now(), clientID(q.ClientID), segments)
	}
	r.Err = codeOf(err)
	if err != nil {
		s.families.bind(p, q.ClientID)
		s.log.Warn("remount refused", zap.String("client", q.ClientID.String()), zap.Int("segments", len(segments)), zap.String("code", r.Err.String()))
		return
	}
	s.families.mounted(p, q.ClientID, time.Now())
	mounted := 0
	for i := range segments {
		if st, ok := s.cat.SegmentByID(segments[i].ID); ok && st.Client == clientID(q.ClientID) {
			mounted++
			continue
		}
		s.log.Warn("segment left out of a remount: its range is another's, or the client is known already", zap.String("segment", segments[i].Name),
			zap.String("endpoint", segments[i].Endpoint), zap.Uint64("base", segments[i].Base), zap.Uint64("size_bytes", segments[i].Size),
			zap.String("client", q.ClientID.String()))
	}
	if mounted > 0 {
		s.suspicion.mounted(clientID(q.ClientID))
	}
	s.log.Info("client remounted", zap.String("client", q.ClientID.String()), zap.Int("segments", mounted))
}

// checkTexts refuses a segment that would make every replica descriptor of it large.
func checkTexts(s *wire.Segment) error {
	for _, text := range []string{s.Name, s.TeEndpoint, s.Protocol, s.HostID, localityIn(&s.Locality)} {
		if len(text) > limits.MountTextBytes {
			return catalog.ErrInvalidParams
		}
	}
	return nil
}

// hostsOf lists the distinct hosts of a client's segments.
func (s *Service) hostsOf(id wire.UUID) []string {
	var hosts []string
	for _, seg := range s.cat.SegmentsOf(clientID(id)) {
		host, _, err := hostport.Parse(seg.Endpoint, 0)
		if err != nil {
			host = seg.Endpoint
		}
		seen := false
		for _, h := range hosts {
			seen = seen || h == host
		}
		if !seen {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

func (s *Service) segmentStatus(is func(*catalog.SegmentStatus) bool) (wire.SegmentStatus, wire.ErrorCode) {
	for _, st := range s.cat.Segments() {
		if is(&st) {
			return wire.SegmentStatus(st.Status), 0
		}
	}
	return 0, wire.ErrSegmentNotFound
}
