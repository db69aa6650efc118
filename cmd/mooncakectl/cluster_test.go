package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	gib       = 1 << 30
	mib       = 1 << 20
	theBundle = "miles-object-store/default/0123456789abcdef0123456789abcdef"
	noon      = 1_700_000_000_000
)

// cluster is a master that answers from a script.
type cluster struct {
	address   string
	status    *mooncakev1.StatusReply
	segments  []*mooncakev1.Segment
	clients   []*mooncakev1.Client
	bundles   []*mooncakev1.Bundle
	destroyed atomic.Int64 // calls that change something
	snapshot  []*mooncakev1.SaveSnapshotReply
}

// scripted starts a cluster with something of everything.
func scripted(t *testing.T) *cluster {
	t.Helper()
	u := func(n uint64) *mooncakev1.Uuid { return &mooncakev1.Uuid{High: 7, Low: n} }
	c := &cluster{
		status: &mooncakev1.StatusReply{
			Role: "leader", State: "serving", Ready: true, Version: "mooncake (go)", HttpAddress: "0.0.0.0:50052", Applied: 42,
			Settings: []string{"rpc_port=50051", "rpc_port_v12=-1", "metrics_port=50052", "grpc_port=50054"},
			Holdings: &mooncakev1.Holdings{
				Keys: 30, OpenKeys: 2, Segments: 2, CapacityBytes: 128 * gib, AllocatedBytes: 32 * gib, QuarantinedBytes: mib, ActiveClients: 2, Bundles: 1,
				EvictedKeys: 5, PutRefusals: map[string]uint64{"leased": 3},
			},
		},
		segments: []*mooncakev1.Segment{
			{Id: u(1), Name: "10.0.0.1:17111", Client: u(11), Endpoint: "10.0.0.1:17111", Protocol: "tcp", Base: 1 << 44, Size: 64 * gib, Used: 16 * gib, LargestFree: 40 * gib, Copies: 15, State: "OK", Stage: "active"},
			{Id: u(2), Name: "10.0.0.2:17111", Client: u(12), Endpoint: "10.0.0.2:17111", Protocol: "rdma", Base: 1 << 44, Size: 64 * gib, Used: 16 * gib, LargestFree: 48 * gib, Copies: 15, State: "DRAINING", Stage: "suspect"},
		},
		clients: []*mooncakev1.Client{
			{Id: u(11), Address: "10.0.0.1", Release: "unknown", Daemon: true, Connections: 2, Segments: 1, SegmentBytes: 64 * gib, Stage: "active"},
			{Id: u(12), Address: "10.0.0.2", Release: "unknown", Daemon: true, Connections: 2, Segments: 1, SegmentBytes: 64 * gib, Stage: "suspect"},
			{Id: u(13), Address: "10.0.0.3", Release: "0.3.14", Connections: 1},
		},
		bundles: []*mooncakev1.Bundle{{
			Id: theBundle, State: mooncakev1.BundleState_BUNDLE_STATE_PUBLISHED, Group: "g", Writer: u(13), Workload: "rollouts", Keys: 3, Bytes: 2 * mib, AllocatedBytes: 4 * mib,
			CreatedMs: noon, LastWriteMs: noon + 1000, PublishedMs: noon + 1000,
		}},
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.address = ln.Addr().String()
	srv := grpc.NewServer()
	mooncakev1.RegisterObjectsServer(srv, objectsScript{c: c})
	mooncakev1.RegisterBundlesServer(srv, bundlesScript{c: c})
	mooncakev1.RegisterWorkloadsServer(srv, workloadsScript{c: c})
	mooncakev1.RegisterSegmentsServer(srv, segmentsScript{c: c})
	mooncakev1.RegisterAdminServer(srv, adminScript{c: c})
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-ended; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return c
}

type objectsScript struct {
	mooncakev1.UnimplementedObjectsServer
	c *cluster
}

type adminScript struct {
	mooncakev1.UnimplementedAdminServer
	c *cluster
}

func memory(id uint64, n uint64) []*mooncakev1.Placement {
	return []*mooncakev1.Placement{{ReplicaId: id, Status: 3, Place: &mooncakev1.Placement_Memory{Memory: &mooncakev1.MemoryPlace{Endpoint: "10.0.0.1:17111", Address: 1<<44 + id, Size: n, Protocol: "tcp"}}}}
}

func (a adminScript) Status(context.Context, *mooncakev1.StatusRequest) (*mooncakev1.StatusReply, error) {
	return a.c.status, nil
}

func (a adminScript) Clients(context.Context, *mooncakev1.ClientsRequest) (*mooncakev1.ClientsReply, error) {
	return &mooncakev1.ClientsReply{Clients: a.c.clients}, nil
}

func (a adminScript) Tasks(_ context.Context, q *mooncakev1.TasksRequest) (*mooncakev1.TasksReply, error) {
	r := &mooncakev1.TasksReply{Tasks: []*mooncakev1.Task{{Id: &mooncakev1.Uuid{High: 9, Low: 2}, Kind: "copy", State: "processing", Client: a.c.clients[0].GetId(), CreatedMs: noon, UpdatedMs: noon}}}
	if q.GetEnded() {
		r.Tasks = append(r.Tasks, &mooncakev1.Task{Id: &mooncakev1.Uuid{High: 9, Low: 1}, Kind: "move", State: "failed", Client: a.c.clients[0].GetId(), Message: "no room", CreatedMs: noon, UpdatedMs: noon})
	}
	return r, nil
}

func (a adminScript) Healing(context.Context, *mooncakev1.HealingRequest) (*mooncakev1.HealingReply, error) {
	return &mooncakev1.HealingReply{
		On: true, WaitingObjects: 120, CopyingObjects: 128, UnhelpedObjects: 3, SurplusObjects: 5, CopiedObjects: 52, CopiedBytes: gib, FailedCopies: 1,
		CancelledCopies: 2, TrimmedCopies: 7, HotObjects: 4,
		Rebalancing: &mooncakev1.Rebalancing{
			Mode: "once", Going: true, MovingObjects: 16, MovedObjects: 200, MovedBytes: 3 * gib, FailedMoves: 1,
			Fullest: "10.0.0.1:17111", FullestPercent: 81.25, Emptiest: "10.0.0.2:17111", EmptiestPercent: 12.5,
		},
	}, nil
}

func (a adminScript) Rebalance(context.Context, *mooncakev1.RebalanceRequest) (*mooncakev1.RebalanceReply, error) {
	a.c.destroyed.Add(1)
	return &mooncakev1.RebalanceReply{}, nil
}

func (a adminScript) Transfer(context.Context, *mooncakev1.TransferRequest) (*mooncakev1.TransferReply, error) {
	a.c.destroyed.Add(1)
	return &mooncakev1.TransferReply{Leader: &mooncakev1.Redirect{RpcAddress: "10.0.0.5:50051"}}, nil
}

func (a adminScript) SaveSnapshot(_ *mooncakev1.SaveSnapshotRequest, out grpc.ServerStreamingServer[mooncakev1.SaveSnapshotReply]) error {
	for _, piece := range a.c.snapshot {
		if err := out.Send(piece); err != nil {
			return err
		}
	}
	return nil
}

func (o objectsScript) List(_ context.Context, q *mooncakev1.ListRequest) (*mooncakev1.ListReply, error) {
	if q.GetPageToken() == "" {
		return &mooncakev1.ListReply{Objects: []*mooncakev1.ListedObject{{Key: "a", Size: 1, Copies: 1}, {Key: "odd\nkey", Size: 1234, Copies: 2}}, NextPageToken: "p"}, nil
	}
	return &mooncakev1.ListReply{Objects: []*mooncakev1.ListedObject{{Key: "z", Size: mib, Copies: 1}}}, nil
}

func (o objectsScript) Placements(_ context.Context, q *mooncakev1.PlacementsRequest) (*mooncakev1.PlacementsReply, error) {
	r := &mooncakev1.PlacementsReply{}
	for _, key := range q.GetKeys() {
		if key == "a" {
			r.Results = append(r.Results, &mooncakev1.PlacementsResult{Outcome: &mooncakev1.Outcome{}, Placements: memory(5, 1), Size: 1, LeaseMs: 10_000})
			continue
		}
		r.Results = append(r.Results, &mooncakev1.PlacementsResult{Outcome: &mooncakev1.Outcome{Code: -704, Text: "OBJECT_NOT_FOUND"}})
	}
	return r, nil
}

func (o objectsScript) Start(_ context.Context, q *mooncakev1.StartRequest) (*mooncakev1.StartReply, error) {
	r := &mooncakev1.StartReply{}
	for range q.GetObjects() {
		r.Results = append(r.Results, &mooncakev1.StartResult{Outcome: &mooncakev1.Outcome{Code: -200, Text: "NO_AVAILABLE_HANDLE"}})
	}
	return r, nil
}

func (o objectsScript) Remove(_ context.Context, q *mooncakev1.RemoveRequest) (*mooncakev1.RemoveReply, error) {
	o.c.destroyed.Add(1)
	r := &mooncakev1.RemoveReply{}
	for range q.GetKeys() {
		r.Outcomes = append(r.Outcomes, &mooncakev1.Outcome{})
	}
	return r, nil
}

type bundlesScript struct {
	mooncakev1.UnimplementedBundlesServer
	c *cluster
}

func (b bundlesScript) List(context.Context, *mooncakev1.ListBundlesRequest) (*mooncakev1.ListBundlesReply, error) {
	return &mooncakev1.ListBundlesReply{Bundles: b.c.bundles}, nil
}

func (b bundlesScript) Get(_ context.Context, q *mooncakev1.GetRequest) (*mooncakev1.GetReply, error) {
	if q.GetId() != theBundle {
		return nil, status.Error(codes.NotFound, "no such bundle")
	}
	return &mooncakev1.GetReply{Bundle: b.c.bundles[0], Members: []*mooncakev1.Member{
		{Name: "buffer/x", Size: mib, Complete: true, Placements: memory(6, mib)}, {Name: "manifest", Size: 100, Complete: true, Placements: memory(7, 100)},
	}}, nil
}

func (b bundlesScript) Totals(context.Context, *mooncakev1.TotalsRequest) (*mooncakev1.TotalsReply, error) {
	return &mooncakev1.TotalsReply{Totals: []*mooncakev1.BundleTotal{{State: mooncakev1.BundleState_BUNDLE_STATE_PUBLISHED, Workload: "rollouts", Bundles: 1, Keys: 3, Bytes: 2 * mib, AllocatedBytes: 4 * mib}}}, nil
}

func (b bundlesScript) Collect(_ context.Context, q *mooncakev1.CollectRequest) (*mooncakev1.CollectReply, error) {
	if !q.GetDryRun() {
		b.c.destroyed.Add(1)
	}
	return &mooncakev1.CollectReply{Bundles: b.c.bundles}, nil
}

func (b bundlesScript) Reclaim(context.Context, *mooncakev1.ReclaimRequest) (*mooncakev1.ReclaimReply, error) {
	b.c.destroyed.Add(1)
	return &mooncakev1.ReclaimReply{Bundle: b.c.bundles[0]}, nil
}

func (b bundlesScript) Watch(_ *mooncakev1.WatchBundlesRequest, out grpc.ServerStreamingServer[mooncakev1.WatchBundlesReply]) error {
	if err := out.Send(&mooncakev1.WatchBundlesReply{}); err != nil {
		return err
	}
	if err := out.Send(&mooncakev1.WatchBundlesReply{Events: []*mooncakev1.BundleEvent{{Id: theBundle}, {Id: theBundle, Withdrawn: true}}}); err != nil {
		return err
	}
	<-out.Context().Done()
	return nil
}

type workloadsScript struct {
	mooncakev1.UnimplementedWorkloadsServer
	c *cluster
}

func (w workloadsScript) List(context.Context, *mooncakev1.ListWorkloadsRequest) (*mooncakev1.ListWorkloadsReply, error) {
	return &mooncakev1.ListWorkloadsReply{
		Workloads: []*mooncakev1.Workload{{Name: "rollouts", Prefixes: []string{"miles-object-store/"}, SoftBytes: 64 * gib, ReservedBytes: 32 * gib, Evict: "bundle", Unread: "keep"}},
		Use:       []*mooncakev1.WorkloadUse{{Name: "rollouts", Keys: 3, Bytes: 4 * mib}, {Keys: 27, Bytes: 8 * gib, EvictedBytes: gib}}, Origin: "admin",
	}, nil
}

func (w workloadsScript) Set(context.Context, *mooncakev1.SetWorkloadRequest) (*mooncakev1.SetWorkloadReply, error) {
	w.c.destroyed.Add(1)
	return &mooncakev1.SetWorkloadReply{}, nil
}

func (w workloadsScript) Delete(context.Context, *mooncakev1.DeleteWorkloadRequest) (*mooncakev1.DeleteWorkloadReply, error) {
	w.c.destroyed.Add(1)
	return &mooncakev1.DeleteWorkloadReply{}, nil
}

type segmentsScript struct {
	mooncakev1.UnimplementedSegmentsServer
	c *cluster
}

func (s segmentsScript) List(context.Context, *mooncakev1.ListSegmentsRequest) (*mooncakev1.ListSegmentsReply, error) {
	return &mooncakev1.ListSegmentsReply{Segments: s.c.segments}, nil
}

func (s segmentsScript) Drain(context.Context, *mooncakev1.DrainRequest) (*mooncakev1.DrainReply, error) {
	s.c.destroyed.Add(1)
	return &mooncakev1.DrainReply{Id: &mooncakev1.Uuid{High: 9, Low: 3}}, nil
}

func (s segmentsScript) ListDrains(context.Context, *mooncakev1.ListDrainsRequest) (*mooncakev1.ListDrainsReply, error) {
	return &mooncakev1.ListDrainsReply{Jobs: []*mooncakev1.DrainJob{{
		Id: &mooncakev1.Uuid{High: 9, Low: 3}, State: "RUNNING", Segments: []string{"10.0.0.2:17111"}, Moved: 10, MovedBytes: gib, Active: 4, Message: "moving", CreatedMs: noon, UpdatedMs: noon,
	}}}, nil
}

func (s segmentsScript) CancelDrain(context.Context, *mooncakev1.CancelDrainRequest) (*mooncakev1.CancelDrainReply, error) {
	s.c.destroyed.Add(1)
	return &mooncakev1.CancelDrainReply{}, nil
}

func (s segmentsScript) ListCorrupt(context.Context, *mooncakev1.ListCorruptRequest) (*mooncakev1.ListCorruptReply, error) {
	return &mooncakev1.ListCorruptReply{
		On: true, SumsKept: 30, CopiesRight: 600, CorruptCopies: 1, Daemons: 2, RangeCount: 1,
		Ranges: []*mooncakev1.CorruptRange{{Key: "a", Segment: "10.0.0.2:17111", Offset: 4096, Size: mib, SinceMs: noon}},
	}, nil
}

func (s segmentsScript) Scrub(context.Context, *mooncakev1.ScrubRequest) (*mooncakev1.ScrubReply, error) {
	s.c.destroyed.Add(1)
	return &mooncakev1.ScrubReply{Daemons: 2}, nil
}

func (s segmentsScript) ReleaseCorrupt(_ context.Context, q *mooncakev1.ReleaseCorruptRequest) (*mooncakev1.ReleaseCorruptReply, error) {
	if q.GetSegment() != "10.0.0.2:17111" {
		return &mooncakev1.ReleaseCorruptReply{}, nil
	}
	s.c.destroyed.Add(1)
	return &mooncakev1.ReleaseCorruptReply{Ranges: 1}, nil
}

// patience bounds what a test waits for.
const patience = 2 * time.Minute

// ctl runs the program against the cluster, on a host that is described by a folder.
func (c *cluster) ctl(t *testing.T, root string, args ...string) (code int, out, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code = runOn(ctx, root, append([]string{"--timeout=60s", "--master=" + c.address}, args...), strings.NewReader("hello"), &stdout, &stderr)
	return code, strings.ReplaceAll(stdout.String(), c.address, "MASTER"), strings.ReplaceAll(stderr.String(), c.address, "MASTER")
}
