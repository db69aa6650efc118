package master

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"mooncake/catalog"
	"mooncake/wire"
)

func (p *peer) createCopy(key string, targets ...string) wire.CreateCopyTaskReply {
	p.t.Helper()
	return invoke(p, &wire.CreateCopyTask, &wire.CreateCopyTaskRequest{Key: key, Targets: targets})
}

func (p *peer) createMove(key, source, target string) wire.CreateMoveTaskReply {
	p.t.Helper()
	return invoke(p, &wire.CreateMoveTask, &wire.CreateMoveTaskRequest{Key: key, Source: source, Target: target})
}

func (p *peer) query(id wire.UUID) wire.QueryTaskReply {
	p.t.Helper()
	return invoke(p, &wire.QueryTask, &wire.QueryTaskRequest{TaskID: id})
}

func (p *peer) fetchSome(most uint64) []wire.TaskAssignment {
	p.t.Helper()
	rep := invoke(p, &wire.FetchTasks, &wire.FetchTasksRequest{ClientID: p.id, BatchSize: most})
	expect(p.t, "fetch", rep.Err, 0)
	return rep.Value
}

func (p *peer) mark(id wire.UUID, status wire.TaskStatus) wire.ErrorCode {
	p.t.Helper()
	return invoke(p, &wire.MarkTaskToComplete, &wire.MarkTaskToCompleteRequest{ClientID: p.id, Task: wire.TaskCompleteRequest{ID: id, Status: status, Message: "m"}}).Err
}

// work does the tasks that wait for the peer, as its process would, and returns how many there were.
func (p *peer) work() int {
	p.t.Helper()
	tasks := p.fetchSome(100)
	for _, t := range tasks {
		status := wire.TaskStatusSuccess
		if code := p.run(t); code != 0 {
			status = wire.TaskStatusFailed
		}
		expect(p.t, "mark", p.mark(t.ID, status), 0)
	}
	return len(tasks)
}

// run does one task, but for the bytes.
func (p *peer) run(t wire.TaskAssignment) wire.ErrorCode {
	p.t.Helper()
	var both struct {
		copyPayload
		Target string `json:"target"`
	}
	if err := json.Unmarshal([]byte(t.Payload), &both); err != nil {
		p.t.Fatal(err)
	}
	c := both.copyPayload
	switch lease := (wire.UUID{Hi: c.LeaseHigh, Lo: c.LeaseLow}); {
	case t.Type == wire.TaskTypeReplicaMove:
		start := invoke(p, &wire.MoveStart, &wire.MoveStartRequest{ClientID: p.id, Key: c.Key, TenantID: c.TenantID, Source: c.Source, Target: both.Target})
		if start.Err != 0 {
			return start.Err
		}
		return invoke(p, &wire.MoveEnd, &wire.MoveEndRequest{ClientID: p.id, Key: c.Key, TenantID: c.TenantID}).Err
	case lease != wire.UUID{} && p.d > wire.V12:
		start := invoke(p, &wire.DynamicReplicaCopyStart, &wire.DynamicReplicaCopyStartRequest{
			ClientID: p.id, Key: c.Key, TenantID: c.TenantID, Source: c.Source, Targets: c.Targets, LeaseID: lease, VersionEpoch: c.Epoch,
		})
		if start.Err != 0 {
			return start.Err
		}
		return invoke(p, &wire.DynamicReplicaCopyEnd, &wire.DynamicReplicaCopyEndRequest{ClientID: p.id, Key: c.Key, TenantID: c.TenantID, LeaseID: lease, VersionEpoch: c.Epoch}).Err
	default:
		start := invoke(p, &wire.CopyStart, &wire.CopyStartRequest{ClientID: p.id, Key: c.Key, TenantID: c.TenantID, Source: c.Source, Targets: c.Targets})
		if start.Err != 0 {
			return start.Err
		}
		return invoke(p, &wire.CopyEnd, &wire.CopyEndRequest{ClientID: p.id, Key: c.Key, TenantID: c.TenantID}).Err
	}
}

// putOn stores an object on a segment.
func (p *peer) putOn(segment, key string, size uint64) {
	p.t.Helper()
	cfg := oneCopy()
	cfg.PreferredSegment = segment
	rep := invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: key, Size: size, Config: cfg})
	if rep.Err != 0 {
		p.t.Fatalf("put start: %v", rep.Err)
	}
	expect(p.t, "put end", p.putEnd(key), 0)
}

// segmentsOf names the endpoints of an object's copies.
func endpointsOf(list []wire.ReplicaDescriptor) string {
	var out []string
	for i := range list {
		out = append(out, list[i].DescriptorVariant.Memory.BufferDescriptor.TransportEndpoint)
	}
	return fmt.Sprint(out)
}

// TestCopyTask lets one client copy an object of its to another's segment, from the wish to the end.
func TestCopyTask(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		q := b.client(p.d)
		p.mount("a", 1<<44, mib)
		q.mount("b", 1<<45, mib)
		p.putOn("a", "k", 1000)
		expect(t, "put of another", p.putStart("open", 9).Err, 0)
		expect(t, "of what is being written", p.createCopy("open", "b").Err, wire.ErrUnavailableInCurrentStatus)
		expect(t, "move of what is being written", p.createMove("open", "a", "b").Err, wire.ErrUnavailableInCurrentStatus)
		expect(t, "without target", p.createCopy("k").Err, wire.ErrInvalidParams)
		expect(t, "of nothing", p.createCopy("gone", "b").Err, wire.ErrObjectNotFound)
		expect(t, "to nowhere", p.createCopy("k", "nowhere").Err, wire.ErrInvalidParams)
		expect(t, "query of an unknown task", p.query(newID()).Err, wire.ErrTaskNotFound)
		made := q.createCopy("k", "b")
		expect(t, "create", made.Err, 0)
		before := q.query(made.Value)
		expect(t, "status before", before.Value.Status, wire.TaskStatusPending)
		expect(t, "assigned to the source's owner", before.Value.AssignedClient, p.id)
		expect(t, "others get nothing", len(q.fetchSome(10)), 0)
		tasks := p.fetchSome(10)
		expect(t, "tasks", len(tasks), 1)
		expect(t, "retries", tasks[0].MaxRetryAttempts, 10)
		expect(t, "not twice", len(p.fetchSome(10)), 0)
		expect(t, "status meanwhile", q.query(made.Value).Value.Status, wire.TaskStatusProcessing)

		stranger := invoke(p, &wire.CopyStart, &wire.CopyStartRequest{ClientID: newID(), Key: "k", Source: "a", Targets: []string{"b"}})
		expect(t, "start by a client without segments", stranger.Err, wire.ErrUnavailableInCurrentStatus)
		start := invoke(p, &wire.CopyStart, &wire.CopyStartRequest{ClientID: p.id, Key: "k", Source: "a", Targets: []string{"b"}})
		expect(t, "start", start.Err, 0)
		expect(t, "source", endpointsOf([]wire.ReplicaDescriptor{start.Value.Source}), "[a:15001]")
		expect(t, "targets", endpointsOf(start.Value.Targets), "[b:15001]")
		expect(t, "read meanwhile", endpointsOf(p.get("k").Value.Replicas), "[a:15001]")
		expect(t, "remove meanwhile", p.remove("k", true), wire.ErrReplicaIsNotReady)
		expect(t, "start twice", invoke(p, &wire.CopyStart, &wire.CopyStartRequest{ClientID: p.id, Key: "k", Source: "a", Targets: []string{"b"}}).Err, wire.ErrObjectHasReplicationTask)
		expect(t, "end by another", invoke(q, &wire.CopyEnd, &wire.CopyEndRequest{ClientID: q.id, Key: "k"}).Err, wire.ErrIllegalClient)
		expect(t, "end as a move", invoke(p, &wire.MoveEnd, &wire.MoveEndRequest{ClientID: p.id, Key: "k"}).Err, wire.ErrInvalidParams)
		expect(t, "end", invoke(p, &wire.CopyEnd, &wire.CopyEndRequest{ClientID: p.id, Key: "k"}).Err, 0)
		expect(t, "end twice", invoke(p, &wire.CopyEnd, &wire.CopyEndRequest{ClientID: p.id, Key: "k"}).Err, wire.ErrObjectNoReplicationTask)
		expect(t, "copies", len(p.get("k").Value.Replicas), 2)

		expect(t, "end without a status", p.mark(made.Value, wire.TaskStatusProcessing), wire.ErrInvalidParams)
		expect(t, "end by another", q.mark(made.Value, wire.TaskStatusSuccess), wire.ErrIllegalClient)
		expect(t, "end of the task", p.mark(made.Value, wire.TaskStatusSuccess), 0)
		expect(t, "end of the task twice", p.mark(made.Value, wire.TaskStatusFailed), 0)
		after := q.query(made.Value)
		expect(t, "status after", after.Value.Status, wire.TaskStatusSuccess)
		expect(t, "message", after.Value.Message, "m")
	})
}

// TestMoveTask moves an object, takes a move back, and asks for what makes no sense.
func TestMoveTask(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		q := b.client(p.d)
		p.mount("a", 1<<44, mib)
		q.mount("b", 1<<45, mib)
		p.putOn("a", "k", 1000)
		expect(t, "of nothing", p.createMove("gone", "a", "b").Err, wire.ErrObjectNotFound)
		expect(t, "to itself", p.createMove("k", "a", "a").Err, wire.ErrInvalidParams)
		expect(t, "to nowhere", p.createMove("k", "a", "nowhere").Err, wire.ErrInvalidParams)
		expect(t, "from where it is not", p.createMove("k", "b", "a").Err, wire.ErrInvalidParams)
		start := wire.MoveStartRequest{ClientID: p.id, Key: "k", Source: "a", Target: "b"}
		expect(t, "start", invoke(p, &wire.MoveStart, &start).Err, 0)
		expect(t, "revoke as a copy", invoke(p, &wire.CopyRevoke, &wire.CopyRevokeRequest{ClientID: p.id, Key: "k"}).Err, wire.ErrInvalidParams)
		expect(t, "revoke", invoke(p, &wire.MoveRevoke, &wire.MoveRevokeRequest{ClientID: p.id, Key: "k"}).Err, 0)
		expect(t, "where it is", endpointsOf(p.get("k").Value.Replicas), "[a:15001]")
		made := q.createMove("k", "a", "b")
		expect(t, "create", made.Err, 0)
		expect(t, "tasks done", p.work(), 1)
		expect(t, "status", q.query(made.Value).Value.Status, wire.TaskStatusSuccess)
		expect(t, "where it is now", endpointsOf(p.get("k").Value.Replicas), "[b:15001]")
		expect(t, "copy and revoke", invoke(q, &wire.CopyStart, &wire.CopyStartRequest{ClientID: q.id, Key: "k", Source: "b", Targets: []string{"a"}}).Err, 0)
		expect(t, "revoke of the copy", invoke(q, &wire.CopyRevoke, &wire.CopyRevokeRequest{ClientID: q.id, Key: "k"}).Err, 0)
		expect(t, "copies", len(p.get("k").Value.Replicas), 1)
	})
}

func testBook(edit func(*Config)) *taskBook {
	cfg := DefaultConfig()
	if edit != nil {
		edit(&cfg)
	}
	return newTaskBook(&cfg)
}

// TestTasksRunOut looks at what becomes of tasks that nobody fetches or ends.
func TestTasksRunOut(t *testing.T) {
	b := testBook(func(c *Config) { c.PendingTaskTimeout, c.ProcessingTaskTimeout = 10*time.Second, 20*time.Second })
	one, other := wire.UUID{Lo: 1}, wire.UUID{Lo: 2}
	waits, _ := b.add(1000, wire.TaskTypeReplicaCopy, one, "p")
	works, _ := b.add(1000, wire.TaskTypeReplicaMove, other, "p")
	expect(t, "fetched", len(b.fetch(5000, other, 9)), 1)
	for _, step := range []struct {
		at             catalog.Time
		waiting, other wire.TaskStatus
	}{
		{10_999, wire.TaskStatusPending, wire.TaskStatusProcessing},
		{11_000, wire.TaskStatusFailed, wire.TaskStatusProcessing},
		{24_999, wire.TaskStatusFailed, wire.TaskStatusProcessing},
		{25_000, wire.TaskStatusFailed, wire.TaskStatusFailed},
	} {
		b.expire(step.at)
		w, _ := b.query(waits)
		o, _ := b.query(works)
		if w.Status != step.waiting || o.Status != step.other {
			t.Errorf("at %d: %v and %v", step.at, w.Status, o.Status)
		}
	}
	w, _ := b.query(waits)
	o, _ := b.query(works)
	expect(t, "why the one failed", w.Message, "pending timeout")
	expect(t, "why the other failed", o.Message, "processing timeout")
	expect(t, "left to fetch", len(b.fetch(30_000, one, 9)), 0)
	expect(t, "late end", b.finish(30_000, other, &wire.TaskCompleteRequest{ID: works, Status: wire.TaskStatusSuccess}), 0)
	o, _ = b.query(works)
	expect(t, "status after a late end", o.Status, wire.TaskStatusFailed)
	if b.waiting+b.processing != 0 {
		t.Errorf("%d waiting, %d worked on", b.waiting, b.processing)
	}
}

// TestTaskLimits fills the book: more is refused, waits, or is forgotten.
func TestTaskLimits(t *testing.T) {
	b := testBook(func(c *Config) { c.MaxPendingTasks, c.MaxProcessingTasks, c.MaxFinishedTasks = 3, 2, 1 })
	c := wire.UUID{Lo: 1}
	var ids []wire.UUID
	for range 3 {
		id, ok := b.add(1, wire.TaskTypeReplicaCopy, c, "p")
		expect(t, "room", ok, true)
		ids = append(ids, id)
	}
	if _, ok := b.add(1, wire.TaskTypeReplicaCopy, c, "p"); ok {
		t.Error("a fourth task waits")
	}
	expect(t, "fetched", len(b.fetch(2, c, 9)), 2)
	expect(t, "fetched beyond the bound", len(b.fetch(2, c, 9)), 0)
	end := wire.TaskCompleteRequest{ID: ids[0], Status: wire.TaskStatusSuccess}
	expect(t, "end", b.finish(3, c, &end), 0)
	late, _ := b.add(3, wire.TaskTypeReplicaCopy, c, "p")
	got := b.fetch(4, c, 9)
	if len(got) != 1 || got[0].ID != ids[2] {
		t.Errorf("the third: %+v", got)
	}
	expect(t, "end before it was fetched", b.finish(4, c, &wire.TaskCompleteRequest{ID: late, Status: wire.TaskStatusFailed}), 0)
	expect(t, "waiting", b.waiting+len(b.pending), 0)
	end.ID = ids[1]
	expect(t, "end of the second", b.finish(5, c, &end), 0)
	if _, ok := b.query(ids[0]); ok {
		t.Error("more is remembered than may be")
	}
}

// TestCopiesByAnyClient lets a client without segments copy, as masters before 0.3.14 do.
func TestCopiesByAnyClient(t *testing.T) {
	b := newBed(t, func(c *Config) { c.CopiesByAnyClient = true })
	p := b.client(wire.V13)
	p.mount("a", 1<<44, mib)
	b.client(wire.V13).mount("b", 1<<45, mib)
	p.putOn("a", "k", 1000)
	q := b.client(wire.V13)
	expect(t, "start", invoke(q, &wire.CopyStart, &wire.CopyStartRequest{ClientID: q.id, Key: "k", Source: "a", Targets: []string{"b"}}).Err, 0)
	expect(t, "end", invoke(q, &wire.CopyEnd, &wire.CopyEndRequest{ClientID: q.id, Key: "k"}).Err, 0)
}
