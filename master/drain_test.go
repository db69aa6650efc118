package master

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mooncake/catalog"
	"mooncake/wire"
)

func (f *fakeMaster) CreateDrain(segments, targets []string, concurrency int) (wire.UUID, error) {
	if err := checkDrain(segments, targets, concurrency); err != nil {
		return wire.UUID{}, err
	}
	return wire.UUID{}, catalog.ErrSegmentNotFound
}

func (f *fakeMaster) Drain(wire.UUID) (DrainJob, bool) { return DrainJob{}, false }
func (f *fakeMaster) CancelDrain(wire.UUID) error      { return errNoJob }

// ask sends a request to the admin pages of a bed.
func (b *bed) ask(method, target, body string) (status int, answer map[string]any) {
	b.t.Helper()
	w := httptest.NewRecorder()
	b.admin.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		b.t.Fatalf("%s %s: %v in %q", method, target, err, w.Body)
	}
	return w.Code, answer
}

// drain asks for a job and returns its id.
func (b *bed) drain(body string) string {
	b.t.Helper()
	status, answer := b.ask(http.MethodPost, drainPath, body)
	if status != http.StatusOK {
		b.t.Fatalf("drain %s: %d %v", body, status, answer)
	}
	return answer["job_id"].(string)
}

func (b *bed) job(id string) map[string]any {
	b.t.Helper()
	_, answer := b.ask(http.MethodGet, drainPath+"/query?job_id="+id, "")
	return answer
}

func (b *bed) stateOf(segment string) any {
	b.t.Helper()
	_, answer := b.ask(http.MethodGet, "/api/v1/segments/status?segment="+segment, "")
	return answer["status_name"]
}

// TestDrain empties a segment of one client onto another's, with the clients at work.
func TestDrain(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		q := b.client(p.d)
		p.mount("a", 1<<44, mib)
		q.mount("b", 1<<45, mib)
		keys := []string{"k0", "k1", "k2", "k3", "k4", "k5"}
		for _, key := range keys {
			p.putOn("a", key, 1000)
		}
		id := b.drain(`{"segments":["a"],"target_segments":["b"],"max_concurrency":2}`)
		expect(t, "state of the segment", b.stateOf("a"), any("DRAINING"))
		status, _ := b.ask(http.MethodPost, drainPath, `{"segments":["a"]}`)
		expect(t, "drained twice", status, http.StatusConflict)
		waitFor(t, "the end of the job", func() bool {
			p.work()
			return b.job(id)["status_name"] == "SUCCEEDED"
		})
		j := b.job(id)
		expect(t, "moved", j["succeeded_units"], any(6.0))
		expect(t, "bytes", j["migrated_bytes"], any(6000.0))
		expect(t, "failed", j["failed_units"], any(0.0))
		expect(t, "state after", b.stateOf("a"), any("DRAINED"))
		for _, key := range keys {
			expect(t, key, endpointsOf(p.get(key).Value.Replicas), "[b:15001]")
		}
		status, _ = b.ask(http.MethodPost, drainPath+"/cancel?job_id="+id, "")
		expect(t, "cancel of what is over", status, http.StatusConflict)
		p.put("new", 10)
		expect(t, "a new object", endpointsOf(p.get("new").Value.Replicas), "[b:15001]")
	})
}

// TestDrainIsBlocked has an object that must not be moved: the job waits until it is cancelled.
func TestDrainIsBlocked(t *testing.T) {
	b := newBed(t)
	p := b.client(wire.V14)
	p.mount("a", 1<<44, mib)
	cfg := oneCopy()
	cfg.WithHardPin = true
	expect(t, "put", invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: "k", Size: 9, Config: cfg}).Err, 0)
	expect(t, "end", p.putEnd("k"), 0)
	b.client(wire.V14).mount("b", 1<<45, mib)
	id := b.drain(`{"segments":["a"]}`)
	waitFor(t, "the block", func() bool { return b.job(id)["blocked_units"] == 1.0 })
	expect(t, "state", b.job(id)["status_name"], any("RUNNING"))
	status, answer := b.ask(http.MethodPost, drainPath+"/cancel?job_id="+id, "")
	expect(t, "cancel", status, http.StatusOK)
	expect(t, "cancelled", answer["status"], any("CANCELED"))
	expect(t, "state of the segment", b.stateOf("a"), any("OK"))
	expect(t, "state of the job", b.job(id)["status_name"], any("CANCELED"))
}

// TestDrainFails has moves that all fail: the job gives up, and the segment takes new objects again.
func TestDrainFails(t *testing.T) {
	b := newBed(t)
	p := b.client(wire.V14)
	p.mount("a", 1<<44, mib)
	b.client(wire.V14).mount("b", 1<<45, mib)
	p.putOn("a", "k", 9)
	id := b.drain(`{"segments":["a"]}`)
	waitFor(t, "the end of the job", func() bool {
		for _, task := range p.fetchSome(10) {
			expect(t, "mark", p.mark(task.ID, wire.TaskStatusFailed), 0)
		}
		return b.job(id)["status_name"] == "FAILED"
	})
	expect(t, "failed units", b.job(id)["failed_units"], any(1.0))
	expect(t, "state of the segment", b.stateOf("a"), any("OK"))
	expect(t, "the object", endpointsOf(p.get("k").Value.Replicas), "[a:15001]")
}

// TestDrainGoesOn takes a drain job up from the state of its segment, as a new leader does.
func TestDrainGoesOn(t *testing.T) {
	b := newBed(t)
	p := b.client(wire.V14)
	p.mount("a", 1<<44, mib)
	b.client(wire.V14).mount("b", 1<<45, mib)
	b.client(wire.V14).mount("c", 1<<46, mib)
	p.putOn("a", "k", 9)
	id := b.drain(`{"segments":["a"],"target_segments":["c"]}`)
	d := &b.service.drains
	d.mu.Lock()
	d.jobs, d.list = nil, nil
	d.mu.Unlock()
	status, _ := b.ask(http.MethodGet, drainPath+"/query?job_id="+id, "")
	expect(t, "query without the job", status, http.StatusNotFound)
	b.service.takeUpDrains()
	waitFor(t, "the end of the job", func() bool {
		p.work()
		return b.job(id)["status_name"] == "SUCCEEDED"
	})
	expect(t, "the object", endpointsOf(p.get("k").Value.Replicas), "[c:15001]")
}

func TestDrainArguments(t *testing.T) {
	b := newBed(t)
	b.client(wire.V14).mount("a", 1<<44, mib)
	for _, tc := range []struct {
		body   string
		status int
		code   wire.ErrorCode
	}{
		{`{bad`, 400, wire.ErrInvalidParams},
		{`{}`, 400, wire.ErrInvalidParams},
		{`{"segments":["a","a"]}`, 400, wire.ErrInvalidParams},
		{`{"segments":["a"],"max_concurrency":0}`, 400, wire.ErrInvalidParams},
		{`{"segments":["a"],"max_concurrency":-1}`, 400, wire.ErrInvalidParams},
		{`{"segments":["a"],"target_segments":["a"]}`, 400, wire.ErrInvalidParams},
		{`{"segments":["zz"]}`, 404, wire.ErrSegmentNotFound},
		{`{"segments":["a"],"target_segments":["zz"]}`, 404, wire.ErrSegmentNotFound},
	} {
		status, answer := b.ask(http.MethodPost, drainPath, tc.body)
		if status != tc.status || answer["error_code"] != float64(tc.code) || answer["success"] != false {
			t.Errorf("%s: %d %v", tc.body, status, answer)
		}
	}
	expect(t, "state", b.stateOf("a"), any("OK"))
}

// TestRecordedDrainPages compares answers with those of a published master.
func TestRecordedDrainPages(t *testing.T) {
	h := admin(recordedMaster())
	for _, name := range []string{"drain_empty", "drain_noseg", "drain_query_bad", "drain_query_none", "drain_query_unknown", "drain_cancel_unknown"} {
		readExchange(t, name).compare(t, name, h)
	}
}

// daemonClient gives a peer the id of a segment daemon.
func (b *bed) daemonClient(d wire.Dialect) *peer {
	b.t.Helper()
	p := b.client(d)
	id, err := wire.NewDaemonClientID()
	if err != nil {
		b.t.Fatal(err)
	}
	p.id = id
	return p
}

// leaving asks how far the drain of a segment is whose daemon leaves.
func (p *peer) leaving(id wire.UUID) (status wire.TaskStatus, at wire.DrainProgress) {
	p.t.Helper()
	r := invoke(p, &wire.QueryTask, &wire.QueryTaskRequest{TaskID: id})
	expect(p.t, "query", r.Err, 0)
	if err := json.Unmarshal([]byte(r.Value.Message), &at); err != nil {
		p.t.Fatal(err)
	}
	return r.Value.Status, at
}

// TestDaemonLeaves moves what is on the segment of a daemon that leaves, the leased and the pinned as well: each task asked
// for at once after the one before, without a tick in between.
func TestDaemonLeaves(t *testing.T) {
	b := newBed(t)
	p := b.daemonClient(wire.V13)
	seg := p.mount("a", 1<<44, mib).ID
	p.putOn("a", "k0", 1000)
	p.putOn("a", "k1", 1000)
	cfg := oneCopy()
	cfg.WithHardPin, cfg.PreferredSegment = true, "a"
	expect(t, "put", invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: "pinned", Size: 9, Config: cfg}).Err, 0)
	expect(t, "end", p.putEnd("pinned"), 0)
	q := b.client(wire.V14)
	q.mount("b", 1<<45, mib)
	twice := oneCopy()
	twice.ReplicaNum = 2
	expect(t, "put", invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: "twice", Size: 9, Config: twice}).Err, 0)
	expect(t, "end", p.putEnd("twice"), 0)
	expect(t, "a lease", p.get("k1").Err, 0)
	leave := func() wire.ErrorCode {
		return invoke(p, &wire.GracefulUnmountSegment, &wire.GracefulUnmountSegmentRequest{SegmentID: seg, ClientID: p.id, GracePeriodMs: 600_000}).Err
	}
	expect(t, "leave", leave(), 0)
	status, at := p.leaving(seg)
	expect(t, "status", status, wire.TaskStatusProcessing)
	expect(t, "left", at.Left, 4)
	waitFor(t, "everything is moved", func() bool {
		p.work()
		_, at = p.leaving(seg)
		return at.Left == 0
	})
	expect(t, "moved", at.Moved, 4)
	for _, key := range []string{"k0", "k1", "pinned", "twice"} {
		expect(t, key, endpointsOf(p.get(key).Value.Replicas), "[b:15001]")
	}
	expect(t, "leave again", leave(), 0)
	expect(t, "unmount", invoke(p, &wire.UnmountSegment, &wire.UnmountSegmentRequest{SegmentID: seg, ClientID: p.id}).Err, 0)
	waitFor(t, "the job is over", func() bool { s, _ := p.leaving(seg); return s == wire.TaskStatusSuccess })
}

// TestDaemonLeavesWithTooLittleRoom has a daemon leave while no other segment has room for all: what is left is counted, and a
// segment that comes later takes it.
func TestDaemonLeavesWithTooLittleRoom(t *testing.T) {
	b := newBed(t)
	p := b.daemonClient(wire.V13)
	seg := p.mount("a", 1<<44, 8*mib).ID
	for _, key := range []string{"k0", "k1", "k2"} {
		p.putOn("a", key, 2*mib)
	}
	b.client(wire.V14).mount("b", 1<<45, 2*mib)
	expect(t, "leave", invoke(p, &wire.GracefulUnmountSegment, &wire.GracefulUnmountSegmentRequest{SegmentID: seg, ClientID: p.id, GracePeriodMs: 600_000}).Err, 0)
	var at wire.DrainProgress
	waitFor(t, "one is moved", func() bool {
		p.work()
		_, at = p.leaving(seg)
		return at.Moved == 1 && at.Active == 0
	})
	expect(t, "left", at.Left, 2)
	b.client(wire.V14).mount("c", 1<<46, 8*mib)
	waitFor(t, "the others are moved", func() bool {
		p.work()
		_, at = p.leaving(seg)
		return at.Left == 0
	})
	r := invoke(p, &wire.QueryTask, &wire.QueryTaskRequest{TaskID: newID()})
	expect(t, "of another segment", r.Err, wire.ErrTaskNotFound)
}

// TestCopiesOfAKilledDaemon kills a daemon in the middle of a move and starts it again: the object is moved anew. Neither a further
// region that is mounted nor a remount says that the process is another.
func TestCopiesOfAKilledDaemon(t *testing.T) {
	b := newBed(t)
	p, q := b.daemonClient(wire.V13), b.daemonClient(wire.V13)
	seg := p.mount("a", 1<<44, 8*mib)
	more := p.mount("a~1", 1<<43, 8*mib)
	q.mount("b", 1<<45, 8*mib)
	p.putOn("a", "k0", 2*mib)
	start := func() wire.ErrorCode {
		return invoke(p, &wire.MoveStart, &wire.MoveStartRequest{ClientID: p.id, Key: "k0", Source: "a", Target: "b"}).Err
	}
	task, ok := b.service.tasks.add(b.service.clock.Now(), wire.TaskTypeReplicaMove, p.id, "{}")
	if !ok || len(b.service.tasks.fetch(b.service.clock.Now(), p.id, 1)) != 1 {
		t.Fatal("no task")
	}
	expect(t, "a move", start(), 0)
	expect(t, "remount", invoke(p, &wire.ReMountSegment, &wire.ReMountSegmentRequest{Segments: []wire.Segment{seg, more}, ClientID: p.id}).Err, 0)
	expect(t, "mount of a further region", invoke(p, &wire.MountSegment, &wire.MountSegmentRequest{Segment: more, ClientID: p.id}).Err, 0)
	expect(t, "a second move", start(), wire.ErrObjectHasReplicationTask)
	expect(t, "mount", invoke(p, &wire.MountSegment, &wire.MountSegmentRequest{Segment: seg, ClientID: p.id}).Err, 0)
	if r, known := b.service.tasks.query(task); !known || r.Status != wire.TaskStatusFailed {
		t.Errorf("the task is %v", r.Status)
	}
	expect(t, "what was there", p.get("k0").Err, 0)
	end := &wire.MoveEndRequest{ClientID: p.id, Key: "k0"}
	expect(t, "a late end", invoke(p, &wire.MoveEnd, end).Err, wire.ErrObjectNoReplicationTask)
	expect(t, "a move after the restart", start(), 0)
	expect(t, "its end", invoke(p, &wire.MoveEnd, end).Err, 0)
	expect(t, "what was moved", p.get("k0").Err, 0)
}

// TestDaemonComesBack ends a daemon in its drain, as SIGKILL does, and starts it again: its segment stays, takes new objects and
// keeps what is left on it. That a daemon only remounts, which one that drains may be asked to, changes nothing.
func TestDaemonComesBack(t *testing.T) {
	b := newBed(t)
	p := b.daemonClient(wire.V13)
	seg := p.mount("a", 1<<44, 8*mib)
	p.putOn("a", "k0", 2*mib)
	leave := func() {
		t.Helper()
		expect(t, "leave", invoke(p, &wire.GracefulUnmountSegment, &wire.GracefulUnmountSegmentRequest{SegmentID: seg.ID, ClientID: p.id, GracePeriodMs: 600_000}).Err, 0)
	}
	state := func() uint8 {
		st, _ := b.service.cat.SegmentByID(clientID(seg.ID))
		return st.Status
	}
	leave()
	expect(t, "remount", invoke(p, &wire.ReMountSegment, &wire.ReMountSegmentRequest{Segments: []wire.Segment{seg}, ClientID: p.id}).Err, 0)
	expect(t, "state after a remount", state(), catalog.SegmentLeaving)
	mount := &wire.MountSegmentRequest{Segment: seg, ClientID: p.id}
	expect(t, "mount", invoke(p, &wire.MountSegment, mount).Err, 0)
	expect(t, "state after the mount", state(), catalog.SegmentOK)
	if status, _ := p.leaving(seg.ID); status != wire.TaskStatusFailed {
		t.Errorf("the drain is %v", status)
	}
	p.putOn("a", "k1", 2*mib)
	expect(t, "what was there", p.get("k0").Err, 0)
	leave() // and it may leave again
	if status, at := p.leaving(seg.ID); status != wire.TaskStatusProcessing || at.Left != 2 {
		t.Errorf("the drain is %v, %d are left", status, at.Left)
	}
	q := b.client(wire.V14) // a published client has no such drain, and what it asked for counts
	other := q.mount("b", 1<<45, mib)
	expect(t, "leave", invoke(q, &wire.GracefulUnmountSegment, &wire.GracefulUnmountSegmentRequest{SegmentID: other.ID, ClientID: q.id, GracePeriodMs: 600_000}).Err, 0)
	expect(t, "mount", invoke(q, &wire.MountSegment, &wire.MountSegmentRequest{Segment: other, ClientID: q.id}).Err, 0)
	if st, _ := b.service.cat.SegmentByID(clientID(other.ID)); st.Status != catalog.SegmentLeaving {
		t.Errorf("the segment of a published client is in state %d", st.Status)
	}
}
