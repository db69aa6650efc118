package master

import (
	"context"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/wire"
)

// ListCorrupt implements the call.
func (x segmentsServer) ListCorrupt(ctx context.Context, _ *mooncakev1.ListCorruptRequest) (*mooncakev1.ListCorruptReply, error) {
	reply := &mooncakev1.ListCorruptReply{}
	err := x.g.decide(ctx, wire.CallQuerySegmentStatus, func(s *Service, _ *peerConn) error {
		i := s.Integrity()
		reply.On, reply.SumsKept, reply.CopiesRight, reply.CorruptCopies, reply.CorruptObjects = i.On, i.Kept, i.Right, i.Corrupt, i.Lost
		reply.Daemons, reply.RangeCount = uint32(len(i.Daemons)), uint64(i.RangeCount)
		for _, r := range i.Ranges {
			reply.Ranges = append(reply.Ranges, &mooncakev1.CorruptRange{Key: r.Key, Segment: r.Segment, Offset: r.Offset, Size: r.Size, SinceMs: int64(r.Since)})
		}
		return nil
	})
	return reply, err
}

// Scrub implements the call.
func (x segmentsServer) Scrub(ctx context.Context, _ *mooncakev1.ScrubRequest) (*mooncakev1.ScrubReply, error) {
	reply := &mooncakev1.ScrubReply{}
	err := x.g.decide(ctx, wire.CallQuerySegmentStatus, func(s *Service, _ *peerConn) error {
		reply.Daemons = uint32(s.ScrubNow())
		return nil
	})
	return reply, err
}

// ReleaseCorrupt implements the call.
func (x segmentsServer) ReleaseCorrupt(ctx context.Context, q *mooncakev1.ReleaseCorruptRequest) (*mooncakev1.ReleaseCorruptReply, error) {
	reply := &mooncakev1.ReleaseCorruptReply{}
	err := x.g.decide(ctx, wire.CallUnmountSegment, func(s *Service, _ *peerConn) error {
		reply.Ranges = uint32(s.ReleaseCorrupt(q.GetSegment()))
		return nil
	})
	return reply, err
}
