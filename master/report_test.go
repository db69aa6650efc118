package master

import (
	"testing"

	"google.golang.org/grpc/codes"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// TestP14Reports has a caller say again and again that a segment cannot be reached: nothing comes of it as long as the
// master itself has an answer there. Without one nothing new goes to it and the other copies are named.
func TestP14Reports(t *testing.T) {
	b := newBed(t, withGRPC)
	p, q := b.client(wire.V13), b.client(wire.V13)
	p.mount("doomed", 1<<44, mib)
	q.mount("kept", 1<<45, mib)
	q.putTwice("k", 10)
	waitFor(t, "the greeting", func() bool { return b.service.suspicion.knows(clientID(p.id), "doomed:15001") })
	ctx, segments := soon(t), mooncakev1.NewSegmentsClient(b.grpc())
	report := func(endpoints ...string) uint32 {
		return got[*mooncakev1.ReportReply](t, "report")(segments.Report(ctx, &mooncakev1.ReportRequest{Endpoints: endpoints})).GetKnown()
	}
	expect(t, "known", report("nowhere:1", "doomed:15001", ""), uint32(1))
	asked := func() bool {
		s := b.service.suspicion
		s.mu.Lock()
		defer s.mu.Unlock()
		o := s.owners[clientID(p.id)]
		return o.asked != 0 && !o.waiting
	}
	waitFor(t, "the question", asked)
	for range 200 {
		report("doomed:15001")
	}
	expect(t, "a healthy one", b.stageOf(p), catalog.StageActive)
	mute := "doomed:15001"
	b.mute.Store(&mute)
	waitFor(t, "the suspicion", func() bool { report("doomed:15001"); return b.stageOf(p) == catalog.StageSuspect })
	expect(t, "the other", b.stageOf(q), catalog.StageActive)
	expect(t, "copies", endpointsOf(q.get("k").Value.Replicas), "[kept:15001]")
	_, err := segments.Report(ctx, &mooncakev1.ReportRequest{Endpoints: make([]string, limits.ReportEndpoints+1)})
	refusedAs(t, "too many at once", err, codes.InvalidArgument)
}

// TestFailedCopyIsASign has a copy fail whose target does not answer.
func TestFailedCopyIsASign(t *testing.T) {
	b := newBed(t)
	p, q := b.client(wire.V13), b.client(wire.V13)
	p.mount("a", 1<<44, mib)
	q.mount("b", 1<<45, mib)
	p.putOn("a", "k", 10)
	waitFor(t, "the greeting", func() bool { return b.service.suspicion.knows(clientID(q.id), "b:15001") })
	mute := "b:15001"
	b.mute.Store(&mute)
	for _, id := range []wire.UUID{p.createCopy("k", "b").Value, p.createMove("k", "a", "b").Value} {
		expect(t, "fetched", len(p.fetchSome(1)), 1)
		expect(t, "end", p.mark(id, wire.TaskStatusFailed), 0)
	}
	waitFor(t, "the suspicion", func() bool { return b.stageOf(q) == catalog.StageSuspect })
	expect(t, "who reported", b.stageOf(p), catalog.StageActive)
}
