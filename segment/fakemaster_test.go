package segment

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"mooncake/wire"
	"mooncake/wire/rpc"
)

// fakeMaster is a master with just enough memory to see that a daemon behaves: who mounted, who pings, which tasks wait.
type fakeMaster struct {
	addr string

	mu       sync.Mutex
	dialect  wire.Dialect // of replies that differ between the releases
	known    map[wire.UUID]bool
	segments map[wire.UUID]wire.Segment // by client, the latest
	regions  map[wire.UUID]wire.Segment // by id
	waiting  map[wire.UUID][]wire.TaskAssignment
	copies   map[string]copyPlan
	refuse   map[wire.CallID]wire.ErrorCode
	drains   []string // what QueryTask says of a drain, one after the other, the last for ever; none: it knows none

	events chan string
	stop   func()
}

// copyPlan is what CopyStart and MoveStart answer for a key.
type copyPlan struct {
	source  wire.ReplicaDescriptor
	targets []wire.ReplicaDescriptor
}

func newFakeMaster(t *testing.T) *fakeMaster {
	t.Helper()
	m := &fakeMaster{
		dialect: wire.V13, known: map[wire.UUID]bool{}, segments: map[wire.UUID]wire.Segment{}, regions: map[wire.UUID]wire.Segment{},
		waiting: map[wire.UUID][]wire.TaskAssignment{}, copies: map[string]copyPlan{}, refuse: map[wire.CallID]wire.ErrorCode{},
		events: make(chan string, 100_000),
	}
	ln, err := readPortRulesAndChoose(t)
	if err != nil {
		t.Fatal(err)
	}
	m.addr = ln.Addr().String()
	m.serve(t, ln)
	t.Cleanup(func() { m.stop() })
	return m
}

func (m *fakeMaster) serve(t *testing.T, ln net.Listener) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	srv := rpc.NewServer(rpc.ServerConfig{ShutdownGrace: time.Millisecond}, m)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx, ln) }()
	m.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// restart is a master that comes back knowing nobody.
func (m *fakeMaster) restart(t *testing.T, meanwhile func()) {
	t.Helper()
	m.stop()
	m.mu.Lock()
	m.known, m.segments = map[wire.UUID]bool{}, map[wire.UUID]wire.Segment{}
	m.mu.Unlock()
	meanwhile()
	ln, err := net.Listen("tcp", m.addr)
	if err != nil {
		t.Fatal(err)
	}
	m.serve(t, ln)
}

func (m *fakeMaster) Opened(*rpc.Conn) {}
func (m *fakeMaster) Closed(*rpc.Conn) {}

func (m *fakeMaster) Serve(_ *rpc.Conn, r rpc.Request, dst []byte) ([]byte, uint8, bool) {
	id, ok := wire.Lookup(r.FunctionID)
	if !ok {
		return rpc.AppendErrorText(dst, "no such call"), rpc.CodeUnknownFunction, false
	}
	if _, err := id.Accepts(r.Body); err != nil {
		return rpc.AppendErrorText(dst, err.Error()), rpc.CodeInvalidArgs, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out, err := m.answer(id, r.Body, dst)
	if err != nil {
		return rpc.AppendErrorText(dst, err.Error()), rpc.CodeInvalidArgs, false
	}
	m.events <- id.Name()
	return out, rpc.CodeOK, false
}

// reply decodes a request, lets act fill the answer unless the call is to be refused, and encodes it.
func reply[Req, T any](m *fakeMaster, c *wire.Call[Req, wire.Exp[T, wire.ErrorCode]], body, dst []byte, act func(*Req, *wire.Exp[T, wire.ErrorCode])) ([]byte, error) {
	var q Req
	if err := c.DecodeRequest(body, wire.V13, &q); err != nil {
		return nil, err
	}
	r := wire.Exp[T, wire.ErrorCode]{Err: m.refuse[c.ID]}
	if r.Err == 0 {
		act(&q, &r)
	}
	return c.AppendReply(dst, m.dialect, &r), nil
}

func (m *fakeMaster) answer(id wire.CallID, body, dst []byte) ([]byte, error) {
	type void = wire.Exp[wire.Void, wire.ErrorCode]
	switch id {
	case wire.CallMountSegment:
		return reply(m, &wire.MountSegment, body, dst, func(q *wire.MountSegmentRequest, _ *void) {
			m.segments[q.ClientID], m.regions[q.Segment.ID] = q.Segment, q.Segment
		})
	case wire.CallReMountSegment:
		return reply(m, &wire.ReMountSegment, body, dst, func(q *wire.ReMountSegmentRequest, _ *void) {
			m.segments[q.ClientID], m.known[q.ClientID] = q.Segments[0], true
		})
	case wire.CallUnmountSegment:
		return reply(m, &wire.UnmountSegment, body, dst, func(q *wire.UnmountSegmentRequest, _ *void) {
			delete(m.regions, q.SegmentID)
			if m.segments[q.ClientID].ID == q.SegmentID {
				delete(m.segments, q.ClientID)
			}
		})
	case wire.CallPing:
		return reply(m, &wire.Ping, body, dst, func(q *wire.PingRequest, r *wire.PingReply) {
			r.Value.ClientStatus = wire.ClientStatusNeedRemount
			if m.known[q.ClientID] {
				r.Value.ClientStatus = wire.ClientStatusOK
			}
		})
	case wire.CallFetchTasks:
		return reply(m, &wire.FetchTasks, body, dst, func(q *wire.FetchTasksRequest, r *wire.FetchTasksReply) {
			n := min(len(m.waiting[q.ClientID]), int(q.BatchSize))
			r.Value, m.waiting[q.ClientID] = m.waiting[q.ClientID][:n], m.waiting[q.ClientID][n:]
		})
	case wire.CallMarkTaskToComplete:
		return reply(m, &wire.MarkTaskToComplete, body, dst, func(q *wire.MarkTaskToCompleteRequest, _ *void) {
			m.events <- "task " + q.Task.Status.String() + " " + q.Task.Message
		})
	}
	if id == wire.CallGracefulUnmountSegment {
		return reply(m, &wire.GracefulUnmountSegment, body, dst, func(*wire.GracefulUnmountSegmentRequest, *void) {})
	}
	if id == wire.CallQueryTask {
		return reply(m, &wire.QueryTask, body, dst, m.answerDrain)
	}
	return m.answerCopy(id, body, dst)
}

func (m *fakeMaster) answerDrain(q *wire.QueryTaskRequest, r *wire.QueryTaskReply) {
	if len(m.drains) == 0 {
		r.Err = wire.ErrTaskNotFound
		return
	}
	r.Value = wire.QueryTaskResponse{ID: q.TaskID, Status: wire.TaskStatusProcessing, Message: m.drains[0]}
	if len(m.drains) > 1 {
		m.drains = m.drains[1:]
	} else if m.drains[0] == `{"left":0}` {
		r.Value.Status = wire.TaskStatusSuccess
	}
}

func (m *fakeMaster) answerCopy(id wire.CallID, body, dst []byte) ([]byte, error) {
	start := func(key string, r *wire.CopyStartReply) {
		plan, ok := m.copies[key]
		if !ok {
			r.Err = wire.ErrObjectNotFound
			return
		}
		r.Value.Source, r.Value.Targets = plan.source, plan.targets
	}
	switch id {
	case wire.CallCopyStart:
		return reply(m, &wire.CopyStart, body, dst, func(q *wire.CopyStartRequest, r *wire.CopyStartReply) { start(q.Key, r) })
	case wire.CallDynamicReplicaCopyStart:
		return reply(m, &wire.DynamicReplicaCopyStart, body, dst, func(q *wire.DynamicReplicaCopyStartRequest, r *wire.DynamicReplicaCopyStartReply) { start(q.Key, r) })
	case wire.CallMoveStart:
		return reply(m, &wire.MoveStart, body, dst, func(q *wire.MoveStartRequest, r *wire.MoveStartReply) {
			plan, ok := m.copies[q.Key]
			if !ok {
				r.Err = wire.ErrObjectNotFound
				return
			}
			r.Value.Source = plan.source
			if len(plan.targets) > 0 {
				r.Value.Target = wire.Some(plan.targets[0])
			}
		})
	case wire.CallCopyEnd:
		return reply(m, &wire.CopyEnd, body, dst, func(*wire.CopyEndRequest, *wire.CopyEndReply) {})
	case wire.CallCopyRevoke:
		return reply(m, &wire.CopyRevoke, body, dst, func(*wire.CopyRevokeRequest, *wire.CopyRevokeReply) {})
	case wire.CallMoveEnd:
		return reply(m, &wire.MoveEnd, body, dst, func(*wire.MoveEndRequest, *wire.MoveEndReply) {})
	case wire.CallMoveRevoke:
		return reply(m, &wire.MoveRevoke, body, dst, func(*wire.MoveRevokeRequest, *wire.MoveRevokeReply) {})
	case wire.CallDynamicReplicaCopyEnd:
		return reply(m, &wire.DynamicReplicaCopyEnd, body, dst, func(*wire.DynamicReplicaCopyEndRequest, *wire.DynamicReplicaCopyEndReply) {})
	case wire.CallDynamicReplicaCopyRevoke:
		return reply(m, &wire.DynamicReplicaCopyRevoke, body, dst, func(*wire.DynamicReplicaCopyRevokeRequest, *wire.DynamicReplicaCopyRevokeReply) {})
	}
	return wire.UnavailableReply(dst, id, m.dialect, body), nil
}

// wait takes events until one begins with want, and returns those before it.
func (m *fakeMaster) wait(t *testing.T, want string) (before []string) {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for {
		select {
		case e := <-m.events:
			if len(e) >= len(want) && e[:len(want)] == want {
				return before
			}
			before = append(before, e)
		case <-limit.C:
			t.Fatalf("%q did not come; before: %q", want, before)
		}
	}
}

// forget drops the events so far.
func (m *fakeMaster) forget() {
	for {
		select {
		case <-m.events:
		default:
			return
		}
	}
}

func (m *fakeMaster) lock(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
}
