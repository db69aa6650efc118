package master

import (
	"testing"
	"time"

	"mooncake/catalog"
	"mooncake/wire"
)

// TestReplicaClear takes copies away by owner, whole or from one segment; what may not go is passed over.
func TestReplicaClear(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		q := b.client(p.d)
		p.mount("a", 1<<44, mib)
		q.mount("b", 1<<45, mib)
		for _, key := range []string{"mine", "read"} {
			p.putOn("a", key, 100)
		}
		q.putOn("a", "theirs", 100)
		start := invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: "two", Size: 9, Config: wire.ReplicateConfig{ReplicaNum: 2}})
		expect(t, "put of two copies", len(start.Value), 2)
		expect(t, "open is not cleared", p.clear("", "two"), "[]")
		expect(t, "end", p.putEnd("two"), 0)
		p.get("read")
		expect(t, "of one segment", p.clear("b", "two", "mine"), "[two]")
		expect(t, "copies left", endpointsOf(p.get("two").Value.Replicas), "[a:15001]")
		expect(t, "whole", p.clear("", "", "gone", "mine", "read", "theirs", "two"), "[mine]")
		expect(t, "there no more", p.exists("mine"), false)
		expect(t, "another's", p.exists("theirs"), true)
	})
}

func (p *peer) clear(segment string, keys ...string) string {
	p.t.Helper()
	rep := invoke(p, &wire.BatchReplicaClear, &wire.BatchReplicaClearRequest{Keys: keys, ClientID: p.id, SegmentName: segment})
	expect(p.t, "clear", rep.Err, 0)
	return sprint(rep.Value)
}

func sprint(list []string) string {
	text := "["
	for i, s := range list {
		if i > 0 {
			text += " "
		}
		text += s
	}
	return text + "]"
}

// TestGracefulUnmount lets a segment go after a while: meanwhile it can be read and takes nothing.
func TestGracefulUnmount(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		seg := p.mount("a", 1<<44, mib)
		other := b.client(p.d)
		leave := func(p *peer, id wire.UUID, graceMs uint64) wire.ErrorCode {
			return invoke(p, &wire.GracefulUnmountSegment, &wire.GracefulUnmountSegmentRequest{SegmentID: id, ClientID: p.id, GracePeriodMs: graceMs}).Err
		}
		p.put("k", 10)
		expect(t, "by one without segments", leave(other, seg.ID, 9), wire.ErrSegmentNotFound)
		other.mount("b", 1<<45, 16)
		expect(t, "by another", leave(other, seg.ID, 9), wire.ErrInvalidParams)
		expect(t, "of an unknown segment", leave(p, newID(), 9), wire.ErrInvalidParams)
		expect(t, "for ever", leave(p, seg.ID, 1<<64-1), 0)
		status := invoke(p, &wire.QuerySegmentStatus, &wire.QuerySegmentStatusRequest{SegmentName: "a"})
		expect(t, "status", status, wire.QuerySegmentStatusReply{Value: wire.SegmentStatusGracefullyUnmounting})
		expect(t, "read meanwhile", p.get("k").Err, 0)
		expect(t, "put meanwhile", p.putStart("n", 100).Err, wire.ErrNoAvailableHandle)
		expect(t, "sooner", leave(p, seg.ID, 1), 0)
		waitFor(t, "the unmount", func() bool { return p.get("k").Err == wire.ErrObjectNotFound })
		gone := invoke(p, &wire.QuerySegmentStatus, &wire.QuerySegmentStatusRequest{SegmentName: "a"})
		expect(t, "status after", gone.Err, wire.ErrSegmentNotFound)
	})
}

// TestProbeLeavesNoTrace asks for keys without leasing them, as only 0.3.14 can.
func TestProbeLeavesNoTrace(t *testing.T) {
	b := newBed(t)
	p := b.client(wire.V14)
	p.mount("a", 1<<44, mib)
	for _, key := range []string{"x", "y", "z"} {
		p.put(key, 10)
	}
	probe := func(key string) bool {
		rep := invoke(p, &wire.ProbeKey, &wire.ProbeKeyRequest{Key: key})
		expect(t, "probe", rep.Err, 0)
		return rep.Value
	}
	expect(t, "there", probe("x"), true)
	expect(t, "not there", probe("gone"), false)
	expect(t, "remove after the probe", p.remove("x", false), 0)
	no := wire.ErrInvalidParams
	batch := func(mode wire.ProbeLeaseMode, size uint64, keys ...string) string {
		text := ""
		for _, item := range invoke(p, &wire.BatchProbeKey, &wire.BatchProbeKeyRequest{Policy: wire.GrantLeasePolicy{LeaseMode: mode, CandidateSize: size}, Keys: keys}) {
			switch {
			case item.Err == no:
				text += "!"
			case item.Err == 0 && item.Value:
				text += "1"
			default:
				text += "0"
			}
		}
		return text
	}
	expect(t, "batch", batch(wire.ProbeLeaseModeNone, 0, "y", "gone", "z", "gone"), "1010")
	expect(t, "no candidate whole", batch(wire.ProbeLeaseModeLasthitonly, 2, "y", "gone", "z", "gone"), "1010")
	expect(t, "candidates of nothing", batch(wire.ProbeLeaseModeLasthitonly, 0, "y", "z"), "!!")
	expect(t, "half a candidate", batch(wire.ProbeLeaseModeLasthitonly, 3, "y", "z"), "!!")
	list := invoke(p, &wire.GetReplicaListForAdmin, &wire.GetReplicaListForAdminRequest{Key: "y"})
	expect(t, "list", endpointsOf(list.Value.Replicas), "[a:15001]")
	expect(t, "list of nothing", invoke(p, &wire.GetReplicaListForAdmin, &wire.GetReplicaListForAdminRequest{Key: "gone"}).Err, wire.ErrObjectNotFound)
	lists := invoke(p, &wire.BatchGetReplicaListForAdmin, &wire.BatchGetReplicaListForAdminRequest{Keys: []string{"gone", "z"}})
	expectItems(t, "lists", lists, wire.ErrObjectNotFound, 0)
	expect(t, "remove after all that", p.remove("y", false), 0)
	p.put("y", 10)
	p.put("v", 10)
	expect(t, "a whole candidate", batch(wire.ProbeLeaseModeLasthitonly, 2, "y", "z", "v", "gone"), "1110")
	for key, want := range map[string]wire.ErrorCode{"y": wire.ErrObjectHasLease, "z": wire.ErrObjectHasLease, "v": 0} {
		expect(t, "remove of "+key, p.remove(key, false), want)
	}
}

// TestCopiesOnDemand lets an object be read until it gets another copy, in every mode.
func TestCopiesOnDemand(t *testing.T) {
	for _, mode := range []string{dynamicOff, dynamicObserve, dynamicEnforce} {
		t.Run(mode, func(t *testing.T) {
			for _, d := range dialects {
				b := newBed(t, func(c *Config) { c.DynamicMode, c.HeatWindow, c.AdmissionQPS = mode, time.Hour, 7.9/3600 })
				p := b.client(d)
				q := b.client(p.d)
				p.mount("a", 1<<44, mib)
				q.mount("b", 1<<45, mib)
				p.putOn("a", "k", 1000)
				for range 7 {
					p.get("k")
				}
				expect(t, "hot after seven", len(b.service.heat.hot), 0)
				p.get("k")
				switch mode {
				case dynamicOff:
					b.service.serveHot(b.service.clock.Now())
					expect(t, "tasks", p.work(), 0)
				case dynamicObserve:
					waitFor(t, "a word about it", func() bool { return b.logs.FilterMessage("a copy on demand would be made").Len() == 1 })
					expect(t, "tasks", p.work(), 0)
				case dynamicEnforce:
					waitFor(t, "a task", func() bool { return p.work() == 1 })
					expect(t, "copies", len(p.get("k").Value.Replicas), 2)
					expect(t, "known to be made on demand", b.service.heat.grewOf("k"), true)
				}
			}
		})
	}
}

// TestCopyOnDemandIsRefused has copies whose reason is not true any more.
func TestCopyOnDemandIsRefused(t *testing.T) {
	off := newBed(t).client(wire.V14)
	off.mount("a", 1<<44, mib)
	off.putOn("a", "k", 1000)
	refused := invoke(off, &wire.DynamicReplicaCopyStart, &wire.DynamicReplicaCopyStartRequest{ClientID: off.id, Key: "k", Source: "a"})
	expect(t, "where nothing is copied on demand", refused.Err, wire.ErrUnavailableInCurrentStatus)
	b := newBed(t, func(c *Config) { c.DynamicMode = dynamicEnforce })
	p := b.client(wire.V14)
	p.mount("a", 1<<44, mib)
	b.client(wire.V14).mount("b", 1<<45, mib)
	p.putOn("a", "k", 1000)
	epoch := b.service.epochOf("", "k")
	lease := b.service.heat.issue(b.service.clock.Now(), epoch)
	start := func(l dynamicLease) wire.ErrorCode {
		return invoke(p, &wire.DynamicReplicaCopyStart, &wire.DynamicReplicaCopyStartRequest{
			ClientID: p.id, Key: "k", Source: "a", Targets: []string{"b"}, LeaseID: l.id, VersionEpoch: l.epoch,
		}).Err
	}
	end := func(l dynamicLease) wire.ErrorCode {
		return invoke(p, &wire.DynamicReplicaCopyEnd, &wire.DynamicReplicaCopyEndRequest{ClientID: p.id, Key: "k", LeaseID: l.id, VersionEpoch: l.epoch}).Err
	}
	revoke := func(l dynamicLease) wire.ErrorCode {
		return invoke(p, &wire.DynamicReplicaCopyRevoke, &wire.DynamicReplicaCopyRevokeRequest{ClientID: p.id, Key: "k", LeaseID: l.id, VersionEpoch: l.epoch}).Err
	}
	expect(t, "unknown lease", start(dynamicLease{newID(), epoch}), wire.ErrInvalidVersion)
	expect(t, "other value", start(dynamicLease{lease.id, epoch + 1}), wire.ErrInvalidVersion)
	expect(t, "end without a start", end(lease), wire.ErrObjectNoReplicationTask)
	expect(t, "end of another without a start", end(dynamicLease{newID(), epoch}), wire.ErrObjectNoReplicationTask)
	expect(t, "start", start(lease), 0)
	expect(t, "end with an unknown lease", end(dynamicLease{newID(), epoch}), wire.ErrInvalidVersion)
	expect(t, "revoke with an unknown lease", revoke(dynamicLease{newID(), epoch}), wire.ErrInvalidVersion)
	expect(t, "revoke", revoke(lease), 0)
	expect(t, "start again", start(lease), 0)
	expect(t, "end", end(lease), 0)
	expect(t, "copies", len(p.get("k").Value.Replicas), 2)
	h := b.service.heat
	late := catalog.Time(31_000)
	if h.holds(b.service.clock.Now()+late, lease, epoch) || !h.issued(lease) {
		t.Error("a lease that is over is in force, or forgotten at once")
	}
}

// TestHeatPauses asks when a hot key gets another copy.
func TestHeatPauses(t *testing.T) {
	cfg := DefaultConfig()
	cfg.DynamicMode = dynamicEnforce
	h := newHeat(&cfg)
	for _, step := range []struct {
		at     catalog.Time
		copies int
		want   bool
	}{
		{1000, 1, true},
		{2000, 1, false},  // a moment ago
		{31_000, 2, true}, // the copy came; another
		{61_500, 2, false},
		{90_999, 2, false}, // that one did not stay
		{91_000, 2, true},
	} {
		if got := h.may(step.at, "k", step.copies); got != step.want {
			t.Errorf("at %d with %d copies: %v", step.at, step.copies, got)
		}
	}
	expect(t, "another key", h.may(2000, "other", 1), true)
	h.forget(10_000_000)
	if len(h.acts)+len(h.leases) != 0 {
		t.Error("what is over long ago is remembered")
	}
	expect(t, "threshold", h.threshold, 8)
}
