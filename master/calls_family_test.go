package master

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"mooncake/wire"
	"mooncake/wire/rpc"
)

const (
	addressA = "127.0.0.2"
	addressB = "127.0.0.3"
)

// sendCall sends a call and does not wait for its reply.
func sendCall[Req, Rep any](p *peer, call *wire.Call[Req, Rep], req *Req) (seq uint32) {
	p.t.Helper()
	return p.caller.(*line).send(call.ID.FunctionID(), call.AppendRequest(nil, p.d, req))
}

// replies reads n replies of a peer and returns their bodies by the number of the request.
func (p *peer) replies(n int) map[uint32][]byte {
	p.t.Helper()
	bodies := map[uint32][]byte{}
	for range n {
		seq, code, body, err := p.caller.(*line).receive()
		if err != nil || code != rpc.CodeOK {
			p.t.Fatalf("release %s: reply with code %d, %v", p.d, code, err)
		}
		bodies[seq] = body
	}
	return bodies
}

func decoded[Req, Rep any](p *peer, call *wire.Call[Req, Rep], body []byte) (rep Rep) {
	p.t.Helper()
	if err := call.DecodeReply(body, p.d, &rep); err != nil {
		p.t.Fatalf("release %s: %v", p.d, err)
	}
	return rep
}

// setUp does what a wheel with a segment does before anything else.
func (p *peer) setUp() {
	p.t.Helper()
	invoke(p, &wire.ServiceReady, &wire.ServiceReadyRequest{})
	invoke(p, &wire.GetStorageConfig, &wire.GetStorageConfigRequest{})
	p.mount("node of "+p.id.String(), 1<<44, mib)
}

func (p *peer) fetch() []wire.TaskAssignment {
	p.t.Helper()
	return invoke(p, &wire.FetchTasks, &wire.FetchTasksRequest{ClientID: p.id, BatchSize: 16}).Value
}

// answerProbe does with the probe what a wheel of the release does, and returns when n replies have come: that to the
// answer and those that waited for it.
func (p *peer) answerProbe(task *wire.TaskAssignment, n int) map[uint32][]byte {
	p.t.Helper()
	var payload copyPayload
	if err := json.Unmarshal([]byte(task.Payload), &payload); err != nil {
		p.t.Fatal(err)
	}
	if payload.LeaseHigh == 0 || payload.LeaseLow == 0 || payload.Epoch == 0 {
		p.t.Fatalf("no copy of a dynamic replica: %s", task.Payload)
	}
	var bodies map[uint32][]byte
	var code wire.ErrorCode
	if p.d == wire.V12 {
		seq := sendCall(p, &wire.CopyStart, &wire.CopyStartRequest{ClientID: p.id, Key: payload.Key})
		bodies = p.replies(n)
		code = decoded(p, &wire.CopyStart, bodies[seq]).Err
	} else {
		seq := sendCall(p, &wire.DynamicReplicaCopyStart, &wire.DynamicReplicaCopyStartRequest{
			ClientID: p.id, Key: payload.Key, LeaseID: wire.UUID{Hi: payload.LeaseHigh, Lo: payload.LeaseLow}, VersionEpoch: payload.Epoch,
		})
		bodies = p.replies(n)
		code = decoded(p, &wire.DynamicReplicaCopyStart, bodies[seq]).Err
	}
	expect(p.t, "answer to the probe's copy", code, wire.ErrObjectNotFound)
	return bodies
}

func (p *peer) reportProbe(task *wire.TaskAssignment) {
	p.t.Helper()
	done := wire.MarkTaskToCompleteRequest{ClientID: p.id, Task: wire.TaskCompleteRequest{ID: task.ID, Status: wire.TaskStatusFailed}}
	expect(p.t, "report of the probe", invoke(p, &wire.MarkTaskToComplete, &done).Err, 0)
}

// onlyTask is the probe, which must be all there is to do.
func onlyTask(t *testing.T, tasks []wire.TaskAssignment) *wire.TaskAssignment {
	t.Helper()
	if len(tasks) != 1 || tasks[0].Type != wire.TaskTypeReplicaCopy || tasks[0].MaxRetryAttempts != 0 {
		t.Fatalf("tasks %+v, want the probe", tasks)
	}
	return &tasks[0]
}

// object stores an object by a client at an address far from all others.
func (b *bed) object(key string) {
	b.t.Helper()
	p := b.peerFrom("127.0.0.9", wire.V13)
	p.mount("store", 1<<45, mib)
	p.put(key, 7)
}

// TestFirstReadOfAMountedStranger is the case for which replies are held: a client of 0.3.12 with a segment reads before it
// has shown what it is, on a cluster of later clients. Its first read already comes in its layout.
func TestFirstReadOfAMountedStranger(t *testing.T) {
	for _, d := range []wire.Dialect{wire.V12, wire.V13} {
		t.Run("release "+d.String(), func(t *testing.T) {
			b := newBed(t)
			b.object("k")
			p := b.peerFrom(addressA, d)
			p.setUp()
			read := sendCall(p, &wire.GetReplicaList, &wire.GetReplicaListRequest{Key: "k"})
			batch := sendCall(p, &wire.BatchGetReplicaList, &wire.BatchGetReplicaListRequest{Keys: []string{"k", "gone"}})
			move := sendCall(p, &wire.MoveStart, &wire.MoveStartRequest{ClientID: p.id, Key: "k"})

			// Replies that differ in nothing overtake the held ones.
			exist := sendCall(p, &wire.ExistKey, &wire.ExistKeyRequest{Key: "k"})
			fetch := sendCall(p, &wire.FetchTasks, &wire.FetchTasksRequest{ClientID: p.id, BatchSize: 16})
			first := p.replies(2)
			expect(t, "exist", decoded(p, &wire.ExistKey, first[exist]).Value, true)
			task := onlyTask(t, decoded(p, &wire.FetchTasks, first[fetch]).Value)

			bodies := p.answerProbe(task, 4)
			got := decoded(p, &wire.GetReplicaList, bodies[read])
			if got.Err != 0 || len(got.Value.Replicas) != 1 {
				t.Errorf("read: %+v", got)
			}
			expectItems(t, "batch", decoded(p, &wire.BatchGetReplicaList, bodies[batch]), 0, wire.ErrObjectNotFound)
			expect(t, "move to where it is", decoded(p, &wire.MoveStart, bodies[move]).Err, wire.ErrInvalidParams)
			p.reportProbe(task)

			expect(t, "next read", p.get("k").Err, 0)
			expect(t, "further tasks", len(p.fetch()), 0)
			expect(t, "parked replies left", b.parked(), 0)
		})
	}
}

// TestSecondConnectionWaitsToo reads on a further connection of the pool, which carries neither release nor client id.
func TestSecondConnectionWaitsToo(t *testing.T) {
	for _, d := range []wire.Dialect{wire.V12, wire.V13} {
		t.Run("release "+d.String(), func(t *testing.T) {
			b := newBed(t)
			b.object("k")
			p, second := b.peerFrom(addressA, d), b.peerFrom(addressA, d)
			reader, stranger := b.peerFrom(addressA, wire.V13), b.peerFrom(addressB, wire.V13)
			p.setUp()
			read := sendCall(second, &wire.GetReplicaList, &wire.GetReplicaListRequest{Key: "k"})
			waitFor(t, "the parked reply", func() bool { return b.parked() == 1 })

			// A client without a segment and one at another address have nothing to wait for.
			invoke(reader, &wire.ServiceReady, &wire.ServiceReadyRequest{})
			expect(t, "reader without a segment", reader.get("k").Err, 0)
			expect(t, "reader elsewhere", stranger.get("k").Err, 0)

			task := onlyTask(t, p.fetch())
			p.answerProbe(task, 1)
			got := decoded(second, &wire.GetReplicaList, second.replies(1)[read])
			if got.Err != 0 || len(got.Value.Replicas) != 1 {
				t.Errorf("read: %+v", got)
			}
			p.reportProbe(task)
		})
	}
}

func (b *bed) parked() int {
	b.service.families.mu.Lock()
	defer b.service.families.mu.Unlock()
	return len(b.service.families.parked)
}

// TestWaitingClientLeaves hangs up while its reply is held: nothing of it stays.
func TestWaitingClientLeaves(t *testing.T) {
	b := newBed(t)
	p := b.peerFrom(addressA, wire.V12)
	p.setUp()
	sendCall(p, &wire.GetReplicaList, &wire.GetReplicaListRequest{Key: "k"})
	waitFor(t, "the parked reply", func() bool { return b.parked() == 1 })
	if err := p.caller.(*line).Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of the connection", func() bool { return b.conns() == 0 })
	expect(t, "parked replies", b.parked(), 0)
}

// TestUnansweredProbeEndsTheWait has a client report the task as failed without having shown anything.
func TestUnansweredProbeEndsTheWait(t *testing.T) {
	b := newBed(t)
	b.object("k")
	p := b.peerFrom(addressA, wire.V13)
	p.setUp()
	read := sendCall(p, &wire.GetReplicaList, &wire.GetReplicaListRequest{Key: "k"})
	fetch := sendCall(p, &wire.FetchTasks, &wire.FetchTasksRequest{ClientID: p.id})
	task := onlyTask(t, decoded(p, &wire.FetchTasks, p.replies(1)[fetch]).Value)
	sendCall(p, &wire.MarkTaskToComplete, &wire.MarkTaskToCompleteRequest{ClientID: p.id, Task: wire.TaskCompleteRequest{ID: task.ID, Status: wire.TaskStatusFailed}})
	expect(t, "read in the default layout", decoded(p, &wire.GetReplicaList, p.replies(2)[read]).Err, 0)
	expect(t, "the next one does not wait", p.get("k").Err, 0)
}

// TestNobodyIsAskedTwiceOrInVain has clients whose release is known before they fetch tasks.
func TestNobodyIsAskedTwiceOrInVain(t *testing.T) {
	b := newBed(t)
	p14 := b.peerFrom(addressA, wire.V14)
	p14.setUp() // its mount carries fields that only it has
	expect(t, "tasks of a 14", len(p14.fetch()), 0)
	expect(t, "read of a 14", p14.get("k").Err, wire.ErrObjectNotFound)
	writer := b.peerFrom(addressA, wire.V12)
	writer.setUp()
	writer.prove()
	expect(t, "tasks of a writer", len(writer.fetch()), 0)
	expect(t, "read of a writer", writer.get("k").Err, wire.ErrObjectNotFound)
}

// TestPortOf12 serves readers of 0.3.12 that never write, on the address that all others have too.
func TestPortOf12(t *testing.T) {
	b := newBed(t, func(c *Config) { c.RPCPortV12 = 0 })
	later := b.client(wire.V14)
	later.mount("node", 1<<44, mib)
	later.put("k", 5)
	for range 3 {
		reader := b.dial(b.Ports().RPCV12, wire.V12)
		got := reader.get("k")
		if got.Err != 0 || len(got.Value.Replicas) != 1 {
			t.Fatalf("read of a 12: %+v", got)
		}
		other := b.stranger(wire.V13)
		invoke(other, &wire.ServiceReady, &wire.ServiceReadyRequest{})
		expect(t, "read of a 13 on the common port", other.get("k").Err, 0)
	}
	writer := b.dial(b.Ports().RPCV12, wire.V12)
	writer.mount("node12", 1<<45, mib)
	writer.put("from 12", 5)
	expect(t, "tasks on that port", len(writer.fetch()), 0)
	expect(t, "read of what a 12 wrote", later.get("from 12").Err, 0)
}

// TestDefaultFamily decides for those of whom nothing at all is known.
func TestDefaultFamily(t *testing.T) {
	for _, tc := range []struct {
		family string
		d      wire.Dialect
	}{{"12", wire.V12}, {"13", wire.V13}, {"14", wire.V14}} {
		b := newBed(t, func(c *Config) { c.DefaultFamily = tc.family })
		p := b.stranger(tc.d)
		expect(t, "read with default "+tc.family, p.get("gone").Err, wire.ErrObjectNotFound)
		found := invoke(p, &wire.GetReplicaListByRegex, &wire.GetReplicaListByRegexRequest{Regex: "."})
		expect(t, "search with default "+tc.family, found.Err, 0)
	}
}

// TestClusterOf12 has pure readers of 0.3.12 on a master that takes strangers for 0.3.13: the first writer or segment of
// the cluster settles it for all.
func TestClusterOf12(t *testing.T) {
	b := newBed(t)
	writer := b.peerFrom(addressA, wire.V12)
	writer.setUp()
	writer.put("k", 5)
	for range 5 {
		reader := b.peerFrom(addressB, wire.V12)
		invoke(reader, &wire.ServiceReady, &wire.ServiceReadyRequest{})
		expect(t, "read of a pure reader", reader.get("k").Err, 0)
	}
}

// TestReaderThatCannotReadTurnsTheGuess hangs up right after a reply in the wrong layout, as a wheel does.
func TestReaderThatCannotReadTurnsTheGuess(t *testing.T) {
	b := newBed(t)
	b.object("k")
	b.service.families.mu.Lock() // as if the writers had left: none of the living speaks for one family
	b.service.families.all = living{}
	b.service.families.mu.Unlock()
	p := b.peerFrom(addressA, wire.V12)
	invoke(p, &wire.ServiceReady, &wire.ServiceReadyRequest{})
	if _, err := try(p, &wire.GetReplicaList, &wire.GetReplicaListRequest{Key: "k"}); err == nil {
		t.Fatal("the default already is right")
	}
	if err := p.caller.(*line).Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of its connection", func() bool { return b.conns() == 1 })
	next := b.peerFrom(addressA, wire.V12) // the same process, which introduces itself no more
	expect(t, "its next read", next.get("k").Err, 0)
	expect(t, "and the one after", next.get("k").Err, 0)
	later := b.peerFrom(addressA, wire.V12)
	invoke(later, &wire.ServiceReady, &wire.ServiceReadyRequest{})
	expect(t, "read of the next process", later.get("k").Err, 0)
}

// TestShortReaders come, read once and leave. The writer has gone, so nobody speaks for their release; none of them loses
// its read because the one before left right after its own.
func TestShortReaders(t *testing.T) {
	b := newBed(t)
	owner := b.peerFrom("127.0.0.9", wire.V14)
	owner.id.Hi = 0x6d67_7365 << 32 // a daemon, which has no vote
	owner.mount("store", 1<<45, mib)
	writer := b.peerFrom(addressA, wire.V13)
	writer.put("k", 5)
	_ = writer.caller.(*line).Close()
	for range 6 {
		waitFor(t, "the others to have left", func() bool { return b.conns() == 1 })
		reader := b.peerFrom(addressA, wire.V13)
		invoke(reader, &wire.ServiceReady, &wire.ServiceReadyRequest{})
		expect(t, "read", reader.get("k").Err, 0)
		_ = reader.caller.(*line).Close()
	}
}

// TestProcessOf14SharesConnections has three stores of one process whose calls hop over three connections. Closing one
// connection ends none of them.
func TestProcessOf14SharesConnections(t *testing.T) {
	b := newBed(t)
	var pool [3]*peer
	for i := range pool {
		pool[i] = b.peerFrom(addressA, wire.V14)
	}
	var stores [3]peer
	var segments [3]wire.Segment
	for i := range stores {
		stores[i] = *pool[0]
		stores[i].id = newID()
		segments[i] = stores[i].mount(fmt.Sprint("store", i), uint64(i+1)<<40, mib)
	}
	for round := range 9 {
		s := &stores[round%3]
		s.caller = pool[(round+round/3)%3].caller
		s.put(fmt.Sprint("k", round), 10)
		expect(t, "read back", s.get(fmt.Sprint("k", round)).Err, 0)
		expect(t, "ping", s.ping().Value.ClientStatus, wire.ClientStatusOK)
		expect(t, "tasks", len(s.fetch()), 0)
	}
	if err := pool[0].caller.(*line).Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of one connection", func() bool { return b.conns() == 2 })
	for i := range stores {
		stores[i].caller = pool[1+i%2].caller
		expect(t, "ping after one connection has gone", stores[i].ping().Value.ClientStatus, wire.ClientStatusOK)
		expect(t, "unmount", stores[i].unmount(segments[i].ID), 0)
	}
}

// TestReleasesTogether has clients of all three releases, each at an address of its own, write and read each other's
// objects at the same time. None ever gets a reply it cannot read.
func TestReleasesTogether(t *testing.T) {
	b := newBed(t)
	const rounds = 60
	keys := map[wire.Dialect]func(int) string{}
	for _, d := range dialects {
		keys[d] = func(i int) string { return fmt.Sprint("of ", d, "/", i) }
	}
	var peers []*peer
	for i, d := range dialects {
		p := b.peerFrom(fmt.Sprintf("127.0.0.%d", 20+i), d)
		p.setUp()
		peers = append(peers, p)
	}
	var all sync.WaitGroup
	for _, p := range peers {
		all.Go(func() {
			for i := range rounds {
				p.put(keys[p.d](i), 10)
				for _, d := range dialects {
					if got := p.get(keys[d](i)); got.Err != 0 && got.Err != wire.ErrObjectNotFound && got.Err != wire.ErrReplicaIsNotReady {
						t.Errorf("release %s reads of %s: %v", p.d, d, got.Err)
					}
				}
			}
		})
	}
	all.Wait()
	for _, p := range peers {
		for _, d := range dialects {
			for i := range rounds {
				expect(t, fmt.Sprintf("release %s reads %s", p.d, keys[d](i)), p.get(keys[d](i)).Err, 0)
			}
		}
	}
}
