package master

import (
	"context"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/wire"
)

// Healing implements the call.
func (a adminServer) Healing(ctx context.Context, _ *mooncakev1.HealingRequest) (*mooncakev1.HealingReply, error) {
	reply := &mooncakev1.HealingReply{}
	err := a.g.decide(ctx, wire.CallQueryTask, func(s *Service, _ *peerConn) error {
		h := s.Healing()
		reply.On, reply.WaitingObjects, reply.CopyingObjects, reply.UnhelpedObjects = h.On, uint64(h.Waiting), uint64(h.Copying), uint64(h.Unhelped)
		reply.SurplusObjects, reply.CopiedObjects, reply.CopiedBytes, reply.FailedCopies = uint64(h.Surplus), h.Objects, h.Bytes, h.Failures
		reply.CancelledCopies, reply.TrimmedCopies, reply.HotObjects = h.Cancelled, h.Trimmed, uint64(h.Hot)
		reply.Rebalancing = s.rebalancing(s.clock.Now())
		return nil
	})
	return reply, err
}

// Rebalance implements the call.
func (a adminServer) Rebalance(ctx context.Context, q *mooncakev1.RebalanceRequest) (*mooncakev1.RebalanceReply, error) {
	reply := &mooncakev1.RebalanceReply{}
	err := a.g.decide(ctx, wire.CallQueryTask, func(s *Service, _ *peerConn) error {
		s.Rebalance(q.GetStop())
		reply.Rebalancing = s.rebalancing(s.clock.Now())
		return nil
	})
	return reply, err
}
