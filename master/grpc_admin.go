package master

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// workloadsServer implements mooncake.v1.Workloads.
type workloadsServer struct {
	mooncakev1.UnimplementedWorkloadsServer
	g *grpcServer
}

// List implements the call.
func (w workloadsServer) List(ctx context.Context, _ *mooncakev1.ListWorkloadsRequest) (*mooncakev1.ListWorkloadsReply, error) {
	reply := &mooncakev1.ListWorkloadsReply{}
	err := w.g.decide(ctx, wire.CallBatchGetReplicaListForAdmin, func(s *Service, _ *peerConn) error {
		stats, origin := s.Workloads()
		reply.Origin, reply.SurvivesRestart = origin.String(), origin.survives()
		for i := range stats {
			x := &stats[i]
			if x.Name != "" {
				reply.Workloads = append(reply.Workloads, &mooncakev1.Workload{
					Name: x.Name, Prefixes: x.Prefixes, Tenants: x.Tenants, SoftBytes: x.SoftBytes, HardBytes: x.HardBytes, ReservedBytes: x.ReservedBytes,
					Evict: x.Evict.String(), Unread: x.Unread.String(), TtlMs: x.TTLMs, Priority: int32(x.Priority),
				})
			}
			reply.Use = append(reply.Use, &mooncakev1.WorkloadUse{
				Name: x.Name, Keys: x.Keys, Bytes: x.Bytes, EvictedKeys: x.EvictedKeys, EvictedBytes: x.EvictedBytes, ExpiredKeys: x.ExpiredKeys,
				PutRefusals: refusalsOut(&x.Refusals),
			})
		}
		return nil
	})
	return reply, err
}

func refusalsOut(r *catalog.Refusals) map[string]uint64 {
	out := map[string]uint64{}
	for _, x := range refusalsBy(r) {
		if x.Puts > 0 {
			out[x.Reason] = x.Puts
		}
	}
	return out
}

// Set implements the call.
func (w workloadsServer) Set(ctx context.Context, q *mooncakev1.SetWorkloadRequest) (*mooncakev1.SetWorkloadReply, error) {
	v := q.GetWorkload()
	rule := catalog.Workload{
		Name: v.GetName(), Prefixes: v.GetPrefixes(), Tenants: v.GetTenants(), SoftBytes: v.GetSoftBytes(), HardBytes: v.GetHardBytes(),
		ReservedBytes: v.GetReservedBytes(), TTLMs: v.GetTtlMs(), Priority: int(v.GetPriority()),
	}
	if err := errors.Join(rule.Evict.UnmarshalText([]byte(v.GetEvict())), rule.Unread.UnmarshalText([]byte(v.GetUnread()))); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &mooncakev1.SetWorkloadReply{}, w.change(ctx, func(rules []catalog.Workload) ([]catalog.Workload, error) {
		if at := slices.IndexFunc(rules, func(r catalog.Workload) bool { return r.Name == rule.Name }); at >= 0 {
			rules[at] = rule
			return rules, nil
		}
		return append(rules, rule), nil
	})
}

// Delete implements the call.
func (w workloadsServer) Delete(ctx context.Context, q *mooncakev1.DeleteWorkloadRequest) (*mooncakev1.DeleteWorkloadReply, error) {
	return &mooncakev1.DeleteWorkloadReply{}, w.change(ctx, func(rules []catalog.Workload) ([]catalog.Workload, error) {
		at := slices.IndexFunc(rules, func(r catalog.Workload) bool { return r.Name == q.GetName() })
		if at < 0 {
			return nil, status.Errorf(codes.NotFound, "no workload is called %.100q", q.GetName())
		}
		return slices.Delete(rules, at, at+1), nil
	})
}

func (w workloadsServer) change(ctx context.Context, edit func([]catalog.Workload) ([]catalog.Workload, error)) error {
	return w.g.decide(ctx, wire.CallBatchRemove, func(s *Service, _ *peerConn) error {
		err := s.ChangeWorkloads(edit)
		if errors.Is(err, catalog.ErrInvalidParams) {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		return statusOf(err, "workloads")
	})
}

// segmentsServer implements mooncake.v1.Segments.
type segmentsServer struct {
	mooncakev1.UnimplementedSegmentsServer
	g *grpcServer
}

// segmentStates are the words for states of segments.
var segmentStates = map[uint8]string{
	catalog.SegmentOK: "OK", catalog.SegmentDraining: "DRAINING", catalog.SegmentDrained: "DRAINED", catalog.SegmentLeaving: "LEAVING",
}

// stageNames are the words for stages of clients.
var stageNames = map[catalog.Stage]string{
	catalog.StageActive: "active", catalog.StageSuspect: "suspect", catalog.StageSuspected: "suspected", catalog.StageLost: "lost",
}

// List implements the call.
func (x segmentsServer) List(ctx context.Context, _ *mooncakev1.ListSegmentsRequest) (*mooncakev1.ListSegmentsReply, error) {
	reply := &mooncakev1.ListSegmentsReply{}
	err := x.g.decide(ctx, wire.CallQuerySegmentStatus, func(s *Service, _ *peerConn) error {
		for _, st := range s.cat.AllSegments() {
			reply.Segments = append(reply.Segments, &mooncakev1.Segment{
				Id: uuidOut(st.ID.Hi, st.ID.Lo), Name: st.Name, Client: uuidOut(st.Client.Hi, st.Client.Lo), Endpoint: st.Endpoint, Protocol: st.Protocol,
				Base: st.Base, Size: st.Size, Used: st.Used, Quarantined: st.Quarantined, LargestFree: st.LargestFree, Copies: st.ObjectCount,
				State: segmentStates[st.Status], Stage: stageNames[st.Stage],
			})
		}
		slices.SortStableFunc(reply.Segments, func(a, b *mooncakev1.Segment) int { return strings.Compare(a.GetName(), b.GetName()) })
		return nil
	})
	return reply, err
}

// Drain implements the call.
func (x segmentsServer) Drain(ctx context.Context, q *mooncakev1.DrainRequest) (*mooncakev1.DrainReply, error) {
	reply := &mooncakev1.DrainReply{}
	err := x.g.decide(ctx, wire.CallUnmountSegment, func(s *Service, _ *peerConn) error {
		id, err := s.createDrain(q.GetSegments(), q.GetTargets(), cmp.Or(int(q.GetConcurrency()), limits.DrainConcurrency))
		reply.Id = uuidOut(id.Hi, id.Lo)
		return statusOf(err, strings.Join(q.GetSegments(), " "))
	})
	return reply, err
}

// ListDrains implements the call.
func (x segmentsServer) ListDrains(ctx context.Context, _ *mooncakev1.ListDrainsRequest) (*mooncakev1.ListDrainsReply, error) {
	reply := &mooncakev1.ListDrainsReply{}
	err := x.g.decide(ctx, wire.CallQuerySegmentStatus, func(s *Service, _ *peerConn) error {
		s.drains.mu.Lock()
		defer s.drains.mu.Unlock()
		for _, j := range slices.Backward(s.drains.list) {
			v := &j.view
			reply.Jobs = append(reply.Jobs, &mooncakev1.DrainJob{
				Id: uuidOut(v.ID.Hi, v.ID.Lo), State: jobStateNames[v.State], Segments: v.Segments, Moved: v.Succeeded, Failed: v.Failed, Blocked: v.Blocked,
				Active: uint64(len(j.active)), MovedBytes: v.MigratedBytes, Message: v.Message, CreatedMs: int64(v.Created), UpdatedMs: int64(v.Updated),
			})
		}
		return nil
	})
	return reply, err
}

// CancelDrain implements the call.
func (x segmentsServer) CancelDrain(ctx context.Context, q *mooncakev1.CancelDrainRequest) (*mooncakev1.CancelDrainReply, error) {
	return &mooncakev1.CancelDrainReply{}, x.g.decide(ctx, wire.CallUnmountSegment, func(s *Service, _ *peerConn) error {
		id := uuidIn(q.GetId())
		err := s.cancelDrain(id)
		if errors.Is(err, errNoJob) {
			return status.Errorf(codes.NotFound, "no drain job %s", id)
		}
		return statusOf(err, "drain job "+id.String())
	})
}

// Report implements the call.
func (x segmentsServer) Report(ctx context.Context, q *mooncakev1.ReportRequest) (*mooncakev1.ReportReply, error) {
	reply := &mooncakev1.ReportReply{}
	if n := len(q.GetEndpoints()); n > limits.ReportEndpoints {
		return nil, status.Errorf(codes.InvalidArgument, "%d endpoints: at most %d", n, limits.ReportEndpoints)
	}
	if n := len(q.GetWrong()); n > limits.ReportWrongCopies {
		return nil, status.Errorf(codes.InvalidArgument, "%d copies: at most %d", n, limits.ReportWrongCopies)
	}
	err := x.g.decide(ctx, wire.CallQuerySegmentStatus, func(s *Service, _ *peerConn) error {
		reply.Known, reply.LookedAt = uint32(s.reported(q.GetEndpoints())), uint32(s.doubted(q.GetWrong()))
		return nil
	})
	return reply, err
}

// adminServer implements mooncake.v1.Admin.
type adminServer struct {
	mooncakev1.UnimplementedAdminServer
	g *grpcServer
}

// Status implements the call.
func (a adminServer) Status(ctx context.Context, _ *mooncakev1.StatusRequest) (*mooncakev1.StatusReply, error) {
	now, cfg := a.g.source.standing(), a.g.settings()
	reply := &mooncakev1.StatusReply{
		Role: now.Role, State: now.State, Ready: now.Ready, Promotable: now.Promotable, Leader: a.g.source.leader(ctx), Applied: now.Applied, Newest: now.Newest,
		NoSpace: now.NoSpace, Unacked: now.Unacked, Version: adminBuild.Display,
		HttpAddress: net.JoinHostPort(cfg.MetricsHost, strconv.Itoa(cfg.MetricsPort)), Settings: strings.Split(cfg.String(), ", "),
	}
	s, release, err := a.g.source.hold(ctx)
	if err != nil {
		return reply, nil // a standby holds nothing
	}
	defer release()
	st := s.cat.Stats()
	reply.Holdings = &mooncakev1.Holdings{
		Keys: st.Keys, OpenKeys: st.OpenKeys, Segments: st.Segments, CapacityBytes: st.CapacityBytes, AllocatedBytes: st.AllocatedBytes,
		QuarantinedBytes: st.QuarantinedBytes, ActiveClients: st.ActiveClients, SuspectClients: st.SuspectClients, SuspectedClients: st.SuspectedClients,
		LostClients: st.LostClients, Bundles: st.Bundles.Bundles, EvictedKeys: st.EvictedKeys, PutRefusals: refusalsOut(&st.Refusals),
	}
	return reply, nil
}

// Clients implements the call.
func (a adminServer) Clients(ctx context.Context, _ *mooncakev1.ClientsRequest) (*mooncakev1.ClientsReply, error) {
	reply := &mooncakev1.ClientsReply{}
	err := a.g.decide(ctx, wire.CallQuerySegmentStatus, func(s *Service, _ *peerConn) error {
		known := s.families.known()
		for _, st := range s.cat.AllSegments() {
			id := wireID(st.Client)
			c := known[id]
			if c == nil {
				c = &mooncakev1.Client{Id: uuidOut(id.Hi, id.Lo), Release: familyUnknown.String()}
				known[id] = c
			}
			c.Segments++
			c.SegmentBytes += st.Size
			c.Stage = stageNames[st.Stage]
		}
		for _, c := range known {
			reply.Clients = append(reply.Clients, c)
		}
		slices.SortFunc(reply.Clients, func(x, y *mooncakev1.Client) int {
			return cmp.Or(cmp.Compare(x.GetId().GetHigh(), y.GetId().GetHigh()), cmp.Compare(x.GetId().GetLow(), y.GetId().GetLow()))
		})
		return nil
	})
	return reply, err
}

// known lists the clients that are connected or ping.
func (r *familyRegistry) known() map[wire.UUID]*mooncakev1.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[wire.UUID]*mooncakev1.Client, len(r.clients))
	for id, c := range r.clients {
		out[id] = &mooncakev1.Client{
			Id: uuidOut(id.Hi, id.Lo), Address: c.peer.String(), Release: c.fam.String(), Daemon: c.daemon, Connections: uint32(max(c.conns, 0)),
		}
	}
	for conn := range r.conns {
		for _, id := range conn.clients() {
			if c := out[id]; c != nil && conn.grpc {
				c.Release = "grpc"
			}
		}
	}
	return out
}

// Tasks implements the call.
func (a adminServer) Tasks(ctx context.Context, q *mooncakev1.TasksRequest) (*mooncakev1.TasksReply, error) {
	reply := &mooncakev1.TasksReply{}
	err := a.g.decide(ctx, wire.CallQueryTask, func(s *Service, _ *peerConn) error {
		for _, t := range s.tasks.known(q.GetEnded()) {
			reply.Tasks = append(reply.Tasks, &mooncakev1.Task{
				Id: uuidOut(t.id.Hi, t.id.Lo), Kind: taskKinds[t.kind], State: taskStates[t.status], Client: uuidOut(t.client.Hi, t.client.Lo), Message: t.message,
				CreatedMs: int64(t.created), UpdatedMs: int64(t.updated),
			})
		}
		return nil
	})
	return reply, err
}

// taskKinds and taskStates are the words for kinds and states of tasks.
var (
	taskKinds  = map[wire.TaskType]string{wire.TaskTypeReplicaCopy: "copy", wire.TaskTypeReplicaMove: "move"}
	taskStates = map[wire.TaskStatus]string{
		wire.TaskStatusPending: "pending", wire.TaskStatusProcessing: "processing", wire.TaskStatusSuccess: "success", wire.TaskStatusFailed: "failed",
	}
)

// known lists the tasks, the latest first.
func (b *taskBook) known(ended bool) []task {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]task, 0, len(b.byID))
	for _, t := range b.byID {
		if ended || !t.over() {
			list = append(list, *t)
		}
	}
	slices.SortFunc(list, func(x, y task) int {
		return cmp.Or(cmp.Compare(y.created, x.created), cmp.Compare(x.id.Hi, y.id.Hi), cmp.Compare(x.id.Lo, y.id.Lo))
	})
	return list[:min(len(list), limits.GRPCTasks)]
}
