package master

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"mooncake/catalog"
	"mooncake/wire"
)

// shortTimes lets the stages of liveness pass within a test.
func shortTimes(c *Config) {
	c.ClientActiveTTL, c.ClientSuspicionTTL, c.ClientLostTTL = 300*time.Millisecond, 300*time.Millisecond, time.Hour
}

// stageOf is what the catalog thinks of a peer.
func (b *bed) stageOf(p *peer) catalog.Stage {
	return b.service.cat.ClientStage(clientID(p.id))
}

// TestSilentClientComesBack stops pinging until the client is lost: its objects are hidden, then absent, and back with
// its first ping.
func TestSilentClientComesBack(t *testing.T) {
	b := newBed(t, shortTimes)
	p, other := b.client(wire.V13), b.client(wire.V13)
	p.mount("node", 1<<44, mib)
	other.put("k", 10)
	waitFor(t, "the suspicion", func() bool { return other.get("k").Err == wire.ErrReplicaIsNotReady })
	waitFor(t, "the loss", func() bool { return other.get("k").Err == wire.ErrObjectNotFound })
	waitFor(t, "the lost segment's end in the counts", func() bool {
		s := b.service.Stats()
		return s.ClientsLost == 1 && s.LostKeys == 1 && s.LostBytes > 0 && s.AllocatedBytes == 0 && s.CapacityBytes == 0 && s.Keys == 0
	})
	if rep := other.putStart("new", 10); rep.Err != wire.ErrNoAvailableHandle {
		t.Errorf("put without a segment that lives: %v", rep.Err)
	}
	expect(t, "ping of the returning client", p.ping(), wire.PingReply{Value: wire.PingResponse{ClientStatus: wire.ClientStatusOK}})
	expect(t, "look-up after the return", other.get("k").Err, 0)
	s := b.service.Stats()
	if s.SuspectedClients == 0 || s.LostClients == 0 || s.RecoveredClients == 0 || s.ExpiredClients != 0 || s.AllocatedBytes == 0 {
		t.Errorf("figures after the return: %+v", s)
	}
}

// TestSilentClientGoes lets the time of a lost client run out.
func TestSilentClientGoes(t *testing.T) {
	b := newBed(t, shortTimes, func(c *Config) { c.ClientLostTTL = 300 * time.Millisecond })
	p, writer := b.client(wire.V13), b.client(wire.V13)
	p.mount("node", 1<<44, mib)
	writer.put("k", 1)
	waitFor(t, "the end of the client", func() bool { return b.service.Stats().ExpiredClients == 1 })
	expect(t, "object of the writer", writer.get("k").Err, wire.ErrObjectNotFound)
	need := wire.PingReply{Value: wire.PingResponse{ClientStatus: wire.ClientStatusNeedRemount}}
	expect(t, "ping of the returning client", p.ping(), need)
	p.mount("node", 1<<44, mib)
	writer.put("k", 1)
	waitFor(t, "the line in the log", func() bool { return b.said("client_gone") })
}

// said tells whether a line with this action was logged.
func (b *bed) said(action string) bool {
	for _, e := range b.logs.All() {
		if e.ContextMap()["action"] == action {
			return true
		}
	}
	return false
}

// TestDeadWriterFreesItsKey closes the only connection of a client in the middle of a put. Its key is free as soon as the
// watch says so, and the late end of its put is refused.
func TestDeadWriterFreesItsKey(t *testing.T) {
	b := newBed(t)
	owner, other := b.client(wire.V13), b.client(wire.V13)
	owner.mount("node", 1<<44, mib)
	doomed := b.peerFrom("127.0.0.9", wire.V13)
	if rep := doomed.putStart("k", 100); rep.Err != 0 {
		t.Fatal(rep.Err)
	}
	if rep := other.putStart("k", 50); rep.Err != wire.ErrObjectAlreadyExists {
		t.Fatalf("put on a key that is being written: %v", rep.Err)
	}
	if err := doomed.caller.(*line).Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the key", func() bool { return other.putStart("k", 50).Err == 0 })
	late := b.peerFrom("127.0.0.9", wire.V13)
	late.id = doomed.id
	if code := late.putEnd("k"); code != wire.ErrIllegalClient && code != wire.ErrObjectNotFound {
		t.Errorf("late end of the former writer: %v", code)
	}
	expect(t, "end of the new writer", other.putEnd("k"), 0)
	rep := other.get("k")
	if rep.Err != 0 || rep.Value.Replicas[0].DescriptorVariant.Memory.BufferDescriptor.Size != 50 {
		t.Errorf("the new object: %+v", rep)
	}
	if !b.said("writer_gone") || b.service.Stats().AbortedPuts != 1 {
		t.Errorf("nothing tells of the dead writer; %d aborted puts", b.service.Stats().AbortedPuts)
	}
}

// TestEarlySuspicion closes all connections of an owner of memory. If its handshake port does not answer either, nothing
// new goes to its segments, its copies are left out where there are others, and it is all over with its next ping.
func TestEarlySuspicion(t *testing.T) {
	b := newBed(t)
	owner := b.peerFrom("127.0.0.9", wire.V13)
	owner.mount("doomed", 1<<44, mib)
	other := b.client(wire.V13)
	other.mount("kept", 1<<45, mib)
	cfg := oneCopy()
	cfg.ReplicaNum = 2
	if rep := invoke(other, &wire.PutStart, &wire.PutStartRequest{ClientID: other.id, Key: "twice", Size: 10, Config: cfg}); rep.Err != 0 || len(rep.Value) != 2 {
		t.Fatalf("put of two copies: %+v", rep)
	}
	expect(t, "end", other.putEnd("twice"), 0)
	single := putOn(t, other, "single", "doomed")
	s := b.service.suspicion
	waitFor(t, "the greeting", func() bool { return s.knows(clientID(owner.id), "doomed:15001") })
	b.silent.Store(true)
	if err := owner.caller.(*line).Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the suspicion", func() bool { return b.stageOf(owner) == catalog.StageSuspect })
	rep := other.get("twice")
	if rep.Err != 0 || len(rep.Value.Replicas) != 1 || rep.Value.Replicas[0].DescriptorVariant.Memory.BufferDescriptor.TransportEndpoint != "kept:15001" {
		t.Errorf("copies named to a reader: %+v", rep)
	}
	if rep := other.get(single); rep.Err != 0 || len(rep.Value.Replicas) != 1 {
		t.Errorf("the only copy: %+v", rep)
	}
	for n := range 20 {
		k := "after" + string(rune('a'+n))
		other.put(k, 10)
		if at := other.get(k).Value.Replicas[0].DescriptorVariant.Memory.BufferDescriptor.TransportEndpoint; at != "kept:15001" {
			t.Errorf("%s went to %s", k, at)
		}
	}
	back := b.peerFrom("127.0.0.9", wire.V13)
	back.id = owner.id
	back.ping()
	if stage := b.stageOf(owner); stage != catalog.StageActive {
		t.Errorf("after a ping it is %v", stage)
	}
	if rep := other.get("twice"); len(rep.Value.Replicas) != 2 {
		t.Errorf("after a ping %d copies are named", len(rep.Value.Replicas))
	}
}

// TestGivenUpWrites has a writer take back one put after the other to an owner that answers nobody, though its connections
// are open: it is asked, and suspect.
func TestGivenUpWrites(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		owner := b.client(p.d)
		owner.mount("node", 1<<44, mib)
		waitFor(t, "the greeting", func() bool { return b.service.suspicion.knows(clientID(owner.id), "node:15001") })
		revokes := func() {
			for _, key := range []string{"a", "b", "c"} {
				expect(t, "start of "+key, p.putStart(key, 10).Err, 0)
				expect(t, "revoke of "+key, p.revoke(key), 0)
			}
		}
		revokes()
		waitFor(t, "the answer", func() bool { return !b.asking(owner) })
		expect(t, "stage of an owner that answers", b.stageOf(owner), catalog.StageActive)
		b.silent.Store(true)
		waitFor(t, "the suspicion", func() bool {
			revokes()
			return b.stageOf(owner) == catalog.StageSuspect
		})
		owner.ping()
		expect(t, "stage after a ping", b.stageOf(owner), catalog.StageActive)
	})
}

// TestOwnersAreForgotten mounts and unmounts: nothing is remembered of a client that has no segment any more.
func TestOwnersAreForgotten(t *testing.T) {
	b := newBed(t)
	p := b.client(wire.V13)
	seg := p.mount("node", 1<<44, mib)
	s := b.service.suspicion
	waitFor(t, "the greeting", func() bool { return s.knows(clientID(p.id), "node:15001") })
	invoke(p, &wire.UnmountSegment, &wire.UnmountSegmentRequest{SegmentID: seg.ID, ClientID: p.id})
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.owners) != 0 {
		t.Errorf("%d owners are remembered", len(s.owners))
	}
}

// asking tells whether a question about the peer is under way.
func (b *bed) asking(p *peer) bool {
	s := b.service.suspicion
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owners[clientID(p.id)].waiting
}

// putOn stores an object on the segment of that name.
func putOn(t *testing.T, p *peer, key, segment string) string {
	t.Helper()
	cfg := oneCopy()
	cfg.PreferredSegment = segment
	if rep := invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: key, Size: 10, Config: cfg}); rep.Err != 0 {
		t.Fatalf("put on %s: %v", segment, rep.Err)
	}
	expect(t, "end of "+key, p.putEnd(key), 0)
	return key
}

// TestNameOfASilentClient lets another process take the name of a client over that fell silent, and not before.
func TestNameOfASilentClient(t *testing.T) {
	b := newBed(t, shortTimes, func(c *Config) { c.MetadataServer = true })
	ask := func(method, key, value string) int {
		t.Helper()
		req, err := http.NewRequest(method, "http://127.0.0.1:"+strconv.Itoa(b.Ports().Metadata)+"/metadata?key="+key, strings.NewReader(value))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	put := func(value string) int { return ask(http.MethodPut, "mooncake/rpc_meta/node", value) }
	first, second := `{"ip_or_host_name":"127.0.0.1","rpc_port":1001}`, `{"ip_or_host_name":"127.0.0.1","rpc_port":1002}`
	p := b.client(wire.V13)
	p.mount("node", 1<<44, mib)
	expect(t, "the first", put(first), http.StatusOK)
	expect(t, "its descriptor", ask(http.MethodPut, "mooncake/ram/node", "{}"), http.StatusOK)
	expect(t, "the second beside a living client", put(second), http.StatusBadRequest)
	waitFor(t, "the suspicion", func() bool { return b.stageOf(p) >= catalog.StageSuspected })
	p.ping()
	expect(t, "the second after the first came back", put(second), http.StatusBadRequest)
	waitFor(t, "the loss", func() bool { return b.stageOf(p) >= catalog.StageLost })
	expect(t, "the descriptor of the lost", ask(http.MethodGet, "mooncake/ram/node", ""), http.StatusOK)
	waitFor(t, "the name", func() bool { return put(second) == http.StatusOK })
	expect(t, "the descriptor of the first", ask(http.MethodGet, "mooncake/ram/node", ""), http.StatusNotFound)
	expect(t, "the first again", put(first), http.StatusBadRequest)
	http.DefaultClient.CloseIdleConnections()
}

// watchedOwners is how many clients the suspicion looks after.
func (b *bed) watchedOwners() int {
	b.service.suspicion.mu.Lock()
	defer b.service.suspicion.mu.Unlock()
	return len(b.service.suspicion.owners)
}

// TestOwnersOfNothing has clients that remount nothing, and one whose segment somebody else unmounts: nobody is looked
// after for memory that he does not have.
func TestOwnersOfNothing(t *testing.T) {
	b := newBed(t)
	owner, other := b.client(wire.V13), b.client(wire.V13)
	seg := owner.mount("node", 1<<44, mib)
	for range 100 {
		rep := invoke(other, &wire.ReMountSegment, &wire.ReMountSegmentRequest{ClientID: newID()})
		expect(t, "remount of nothing", rep.Err, 0)
	}
	expect(t, "owners", b.watchedOwners(), 1)
	expect(t, "unmount", invoke(other, &wire.UnmountSegment, &wire.UnmountSegmentRequest{ClientID: other.id, SegmentID: seg.ID}).Err, 0)
	expect(t, "owners after the unmount", b.watchedOwners(), 0)
}

// TestRemountTellsWhatItLeavesOut remounts two segments of which one lies under another client's: the log names it.
func TestRemountTellsWhatItLeavesOut(t *testing.T) {
	b := newBed(t)
	owner, other := b.client(wire.V13), b.client(wire.V13)
	owner.mount("node", 1<<44, mib)
	free := wire.Segment{ID: newID(), Name: "free", Base: 1 << 45, Size: mib, TeEndpoint: "node:15001"}
	taken := wire.Segment{ID: newID(), Name: "taken", Base: 1<<44 + 4096, Size: mib, TeEndpoint: "node:15001"}
	rep := invoke(other, &wire.ReMountSegment, &wire.ReMountSegmentRequest{ClientID: other.id, Segments: []wire.Segment{taken, free}})
	expect(t, "remount", rep.Err, 0)
	expect(t, "segments", len(b.service.cat.Segments()), 2)
	lines := b.complaints()
	if len(lines) != 1 || !strings.Contains(lines[0], "taken") {
		t.Errorf("logged: %q", lines)
	}
}
