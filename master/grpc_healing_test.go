package master

import (
	"context"
	"fmt"
	"testing"
	"time"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// TestGRPCHealing asks for the healing, and begins and ends a rebalancing.
func TestGRPCHealing(t *testing.T) {
	b := newBed(t, withGRPC)
	p := b.client(wire.V14)
	p.mount("pool", 1<<44, 64*mib)
	p.put("k", mib)
	admin, ctx := mooncakev1.NewAdminClient(b.grpc()), context.Background()
	reply := got[*mooncakev1.HealingReply](t, "healing")(admin.Healing(ctx, &mooncakev1.HealingRequest{}))
	at := reply.GetRebalancing()
	if !reply.GetOn() || at.GetMode() != "off" || at.GetFullest() != "pool" || at.GetEmptiest() != "pool" || at.GetFullestPercent() != 100.0/64 {
		t.Errorf("%v", reply)
	}
	begun := got[*mooncakev1.RebalanceReply](t, "start")(admin.Rebalance(ctx, &mooncakev1.RebalanceRequest{}))
	if mode := begun.GetRebalancing().GetMode(); mode != "once" && mode != "off" { // it may be over already: there is nothing to move
		t.Errorf("%v", begun)
	}
	ended := got[*mooncakev1.RebalanceReply](t, "stop")(admin.Rebalance(ctx, &mooncakev1.RebalanceRequest{Stop: true}))
	expect(t, "mode", ended.GetRebalancing().GetMode(), "off")
	always := newBed(t, withGRPC, func(c *Config) { c.Rebalance = true })
	admin = mooncakev1.NewAdminClient(always.grpc())
	begun = got[*mooncakev1.RebalanceReply](t, "start")(admin.Rebalance(ctx, &mooncakev1.RebalanceRequest{}))
	expect(t, "mode with the flag", begun.GetRebalancing().GetMode(), "always")
	ended = got[*mooncakev1.RebalanceReply](t, "stop")(admin.Rebalance(ctx, &mooncakev1.RebalanceRequest{Stop: true}))
	expect(t, "mode", ended.GetRebalancing().GetMode(), "off")
}

// TestRebalanceOnce has two machines that are too close for the flag, and yet not even: on demand they become so, and then it is over.
func TestRebalanceOnce(t *testing.T) {
	w := newHealWorld(t, 2, 1_000_000)
	for i := range 45 {
		w.mustPut(fmt.Sprint("a", i), 10_000, 1, false, 0)
	}
	for i := range 30 {
		w.mustPut(fmt.Sprint("b", i), 10_000, 1, false, 1)
	}
	w.pass(time.Minute)
	expect(t, "moved without being asked", w.copied, 0)
	w.s.Rebalance(false)
	w.s.Rebalance(true)
	w.pass(time.Minute)
	expect(t, "moved after it was ended", w.copied, 0)
	w.s.Rebalance(false)
	w.pass(time.Minute)
	if apart := w.share(0) - w.share(1); apart > limits.RebalanceStop || w.copied < 5 {
		t.Errorf("%d objects moved; the two are %.2f apart", w.copied, apart)
	}
	expect(t, "mode", w.s.Healing().Rebalance, "off")
	moved := w.copied
	for i := range 6 {
		w.mustPut(fmt.Sprint("c", i), 10_000, 1, false, 0)
	}
	w.pass(time.Minute)
	expect(t, "moved when it is over", w.copied, moved)
}

// TestRebalanceOnceOfPinned has nothing that may be moved: it ends as well.
func TestRebalanceOnceOfPinned(t *testing.T) {
	w := newHealWorld(t, 2, 1_000_000)
	for i := range 20 {
		w.mustPut(fmt.Sprint("a", i), 10_000, 1, true, 0)
	}
	w.s.Rebalance(false)
	w.pass(10 * time.Second)
	expect(t, "mode", w.s.Healing().Rebalance, "off")
	expect(t, "moved", w.copied, 0)
}

// share is the used share of a machine.
func (w *healWorld) share(i int) float64 {
	st, _ := w.s.cat.SegmentByID(w.hosts[i].seg.ID)
	return float64(st.Used) / float64(st.Size)
}
