package master

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/client"
	"mooncake/wire"
)

// grpcPeer is a caller of gRPC.
type grpcPeer struct {
	*grpc.ClientConn
	objects mooncakev1.ObjectsClient
	bundles mooncakev1.BundlesClient
	id      *mooncakev1.Uuid
	frames  *client.Client // where objects and bundles go in frames
}

// Close ends its connections.
func (g *grpcPeer) Close() error {
	if g.frames != nil {
		_ = g.frames.Close()
	}
	return g.ClientConn.Close()
}

func withGRPC(c *Config) { c.GRPCPort = 0 }

func (b *bed) grpc() *grpcPeer {
	b.t.Helper()
	conn, err := grpc.NewClient("127.0.0.1:"+strconv.Itoa(b.Ports().GRPC), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	id := newID()
	g := &grpcPeer{conn, mooncakev1.NewObjectsClient(conn), mooncakev1.NewBundlesClient(conn), uuidOut(id.Hi, id.Lo), nil}
	if b.framed {
		g.inFrames(b)
	}
	return g
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 6*patience)
	t.Cleanup(cancel)
	return ctx
}

// got is the reply of a call that must be answered.
func got[T any](t testing.TB, call string) func(reply T, err error) T {
	return func(reply T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
		return reply
	}
}

// refusedAs checks the code of a call that must be refused.
func refusedAs(t testing.TB, call string, err error, want codes.Code) {
	t.Helper()
	if status.Code(err) != want {
		t.Errorf("%s: %v, want %v", call, err, want)
	}
}

func itemCodes(list []*mooncakev1.Outcome) (out []int32) {
	for _, o := range list {
		out = append(out, o.GetCode())
	}
	return out
}

// TestGRPCObjects takes objects through their life over gRPC, in sight of a published client.
func TestGRPCObjects(t *testing.T) { overObjects(t, newBed(t, withGRPC)) }

func overObjects(t *testing.T, b *bed) {
	t.Helper()
	p := b.client(wire.V14)
	p.mount("pool", 1<<44, 64*mib)
	g, ctx := b.grpc(), soon(t)

	r := got[*mooncakev1.StartReply](t, "start")(g.objects.Start(ctx, &mooncakev1.StartRequest{Client: g.id, Objects: []*mooncakev1.NewObject{
		{Key: "a", Size: mib}, {Key: "", Size: 1}, {Key: "b/1", Size: 2}, {Key: "b/2", Size: 1 << 40},
	}}))
	var starts []int32
	for _, x := range r.GetResults() {
		starts = append(starts, x.GetOutcome().GetCode())
	}
	if want := []int32{0, int32(wire.ErrInvalidParams), 0, int32(wire.ErrNoAvailableHandle)}; !slices.Equal(starts, want) {
		t.Fatalf("starts %d, want %d", starts, want)
	}
	if m := r.GetResults()[0].GetPlacements()[0].GetMemory(); m.GetEndpoint() != "pool:15001" || m.GetAddress() < 1<<44 || m.GetSize() != mib || m.GetProtocol() != "tcp" {
		t.Errorf("placement %v", m)
	}
	if p.exists("a") {
		t.Error("an object that is being written exists")
	}
	ends := got[*mooncakev1.EndReply](t, "end")(g.objects.End(ctx, &mooncakev1.EndRequest{Client: g.id, Keys: []string{"a", "b/1", "none"}}))
	if want := []int32{0, 0, int32(wire.ErrObjectNotFound)}; !slices.Equal(itemCodes(ends.GetOutcomes()), want) {
		t.Errorf("ends %v, want %d", ends.GetOutcomes(), want)
	}
	expect(t, "get by a published client", p.get("a").Err, 0)

	for _, peek := range []bool{true, false} {
		at := got[*mooncakev1.PlacementsReply](t, "placements")(g.objects.Placements(ctx, &mooncakev1.PlacementsRequest{Keys: []string{"b/1", "none"}, Peek: peek}))
		x := at.GetResults()[0]
		if x.GetSize() != 2 || len(x.GetPlacements()) != 1 || (x.GetLeaseMs() == 0) != peek || at.GetResults()[1].GetOutcome().GetText() != "OBJECT_NOT_FOUND" {
			t.Errorf("peek %v: %v", peek, at)
		}
	}
	out := got[*mooncakev1.RemoveReply](t, "remove")(g.objects.Remove(ctx, &mooncakev1.RemoveRequest{Keys: []string{"b/1", "none"}}))
	if want := []int32{int32(wire.ErrObjectHasLease), int32(wire.ErrObjectNotFound)}; !slices.Equal(itemCodes(out.GetOutcomes()), want) {
		t.Errorf("removes %v, want %d", out.GetOutcomes(), want)
	}
	got[*mooncakev1.RemoveReply](t, "remove by force")(g.objects.Remove(ctx, &mooncakev1.RemoveRequest{Keys: []string{"b/1"}, Force: true}))
	here := got[*mooncakev1.ExistsReply](t, "exists")(g.objects.Exists(ctx, &mooncakev1.ExistsRequest{Keys: []string{"a", "b/1"}}))
	if want := []bool{true, false}; !slices.Equal(here.GetExists(), want) {
		t.Errorf("exists %v", here.GetExists())
	}

	got[*mooncakev1.StartReply](t, "start")(g.objects.Start(ctx, &mooncakev1.StartRequest{Client: g.id, Objects: []*mooncakev1.NewObject{{Key: "c", Size: 7}}}))
	gone := got[*mooncakev1.RevokeReply](t, "revoke")(g.objects.Revoke(ctx, &mooncakev1.RevokeRequest{Client: g.id, Keys: []string{"c"}}))
	expect(t, "revoke", gone.GetOutcomes()[0].GetCode(), 0)
}

func TestGRPCRefusals(t *testing.T) { overRefusals(t, newBed(t, withGRPC)) }

func overRefusals(t *testing.T, b *bed) {
	t.Helper()
	g, ctx := b.grpc(), soon(t)
	_, err := g.objects.Start(ctx, &mooncakev1.StartRequest{Client: g.id})
	refusedAs(t, "a batch of nothing", err, codes.InvalidArgument)
	_, err = g.objects.Start(ctx, &mooncakev1.StartRequest{Objects: []*mooncakev1.NewObject{{Key: "k", Size: 1}}})
	refusedAs(t, "a writer without a number", err, codes.InvalidArgument)
	_, err = g.objects.List(ctx, &mooncakev1.ListRequest{PageSize: 1 << 30})
	refusedAs(t, "a page too large", err, codes.InvalidArgument)
	_, err = g.bundles.Begin(ctx, &mooncakev1.BeginRequest{Client: g.id, Id: "no/bundle", Members: []*mooncakev1.NewMember{{Name: "meta", Size: 1}}})
	refusedAs(t, "no id of a bundle", err, codes.InvalidArgument)
	_, err = g.bundles.Begin(ctx, &mooncakev1.BeginRequest{Client: g.id, Id: testBundle, Members: []*mooncakev1.NewMember{{Name: "other", Size: 1}}})
	refusedAs(t, "no name of a member", err, codes.InvalidArgument)
	_, err = g.bundles.Open(ctx, &mooncakev1.OpenRequest{Id: testBundle})
	refusedAs(t, "an unknown bundle", err, codes.NotFound)
	_, err = mooncakev1.NewWorkloadsClient(g).Delete(ctx, &mooncakev1.DeleteWorkloadRequest{Name: "none"})
	refusedAs(t, "an unknown workload", err, codes.NotFound)
	_, err = mooncakev1.NewSegmentsClient(g).Drain(ctx, &mooncakev1.DrainRequest{Segments: []string{"none"}})
	refusedAs(t, "an unknown segment", err, codes.NotFound)
}

// TestGRPCList reads a list in pages of every size.
func TestGRPCList(t *testing.T) {
	b := newBed(t, withGRPC)
	p := b.client(wire.V13)
	p.mount("pool", 1<<44, 64*mib)
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprintf("k%d", i))
		p.put(want[i], uint64(i+1))
	}
	p.put("other", 1)
	g, ctx := b.grpc(), soon(t)
	for size := uint32(1); size < 12; size++ {
		var keys []string
		for token := ""; ; {
			page := got[*mooncakev1.ListReply](t, "list")(g.objects.List(ctx, &mooncakev1.ListRequest{Prefix: "k", PageSize: size, PageToken: token}))
			for _, o := range page.GetObjects() {
				if keys = append(keys, o.GetKey()); o.GetSize() != uint64(len(keys)) || o.GetCopies() != 1 {
					t.Errorf("%v", o)
				}
			}
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		if !slices.Equal(keys, want) {
			t.Errorf("pages of %d: %q", size, keys)
		}
	}
}

const testBundle = "miles/default/0123456789abcdef0123456789abcdef"

func members(names ...string) (list []*mooncakev1.NewMember) {
	for _, n := range names {
		list = append(list, &mooncakev1.NewMember{Name: n, Size: mib})
	}
	return list
}

// TestGRPCBundle takes a bundle through its life.
func TestGRPCBundle(t *testing.T) { overBundle(t, newBed(t, withGRPC)) }

func overBundle(t *testing.T, b *bed) {
	t.Helper()
	p := b.client(wire.V14)
	p.mount("pool", 1<<44, 8*mib)
	g, ctx := b.grpc(), soon(t)
	watch := got[grpc.ServerStreamingClient[mooncakev1.WatchBundlesReply]](t, "watch")(g.bundles.Watch(ctx, &mooncakev1.WatchBundlesRequest{Prefix: "miles"}))
	if first := got[*mooncakev1.WatchBundlesReply](t, "first message")(watch.Recv()); len(first.GetEvents()) != 0 {
		t.Fatalf("first message %v", first)
	}

	_, err := g.bundles.Begin(ctx, &mooncakev1.BeginRequest{Client: g.id, Id: testBundle, Members: members("meta", "buffer/a", "buffer/b", "buffer/c", "buffer/d", "buffer/e", "buffer/f", "buffer/g", "manifest")})
	refusedAs(t, "more than there is room for", err, codes.ResourceExhausted)
	if !hasDetail[*mooncakev1.FailedMembers](err) {
		t.Errorf("no member is named: %v", err)
	}
	expect(t, "bytes in use after that", b.service.cat.Stats().AllocatedBytes, 0)

	placed := got[*mooncakev1.BeginReply](t, "begin")(g.bundles.Begin(ctx, &mooncakev1.BeginRequest{Client: g.id, Id: testBundle, Members: members("meta", "buffer/a/chunk/0")}))
	expect(t, "members placed", len(placed.GetMembers()), 2)
	_, err = g.bundles.Commit(ctx, &mooncakev1.CommitRequest{Client: g.id, Id: testBundle})
	refusedAs(t, "a bundle without a manifest", err, codes.FailedPrecondition)
	got[*mooncakev1.BeginReply](t, "begin again")(g.bundles.Begin(ctx, &mooncakev1.BeginRequest{Client: g.id, Id: testBundle, Members: members("manifest")}))
	_, err = g.bundles.Open(ctx, &mooncakev1.OpenRequest{Id: testBundle})
	refusedAs(t, "a bundle that is being written", err, codes.FailedPrecondition)
	for range 2 { // the second time nothing is left to do
		done := got[*mooncakev1.CommitReply](t, "commit")(g.bundles.Commit(ctx, &mooncakev1.CommitRequest{Client: g.id, Id: testBundle}))
		expect(t, "state", done.GetBundle().GetState(), mooncakev1.BundleState_BUNDLE_STATE_PUBLISHED)
	}
	event := got[*mooncakev1.WatchBundlesReply](t, "event")(watch.Recv())
	if len(event.GetEvents()) != 1 || event.GetEvents()[0].GetId() != testBundle || event.GetEvents()[0].GetWithdrawn() {
		t.Errorf("event %v", event)
	}
	_, err = g.bundles.Abort(ctx, &mooncakev1.AbortRequest{Id: testBundle})
	refusedAs(t, "to abort what is published", err, codes.FailedPrecondition)

	open := got[*mooncakev1.OpenReply](t, "open")(g.bundles.Open(ctx, &mooncakev1.OpenRequest{Id: testBundle}))
	var names []string
	for _, m := range open.GetMembers() {
		names = append(names, m.GetName())
		if len(m.GetPlacements()) != 1 || m.GetSize() != mib {
			t.Errorf("%v", m)
		}
	}
	if want := []string{"buffer/a/chunk/0", "manifest", "meta"}; !slices.Equal(names, want) || open.GetLeaseMs() == 0 {
		t.Errorf("open %q", names)
	}
	expect(t, "a published client's look", p.get(testBundle+"/manifest").Err, 0)
	shown := got[*mooncakev1.GetReply](t, "get")(g.bundles.Get(ctx, &mooncakev1.GetRequest{Id: testBundle}))
	if shown.GetBundle().GetState() != mooncakev1.BundleState_BUNDLE_STATE_READING || len(shown.GetMembers()) != 3 {
		t.Errorf("get %v", shown)
	}
	list := got[*mooncakev1.ListBundlesReply](t, "list")(g.bundles.List(ctx, &mooncakev1.ListBundlesRequest{Filter: &mooncakev1.BundleFilter{State: mooncakev1.BundleState_BUNDLE_STATE_READING}}))
	expect(t, "bundles listed", len(list.GetBundles()), 1)

	again := got[grpc.ServerStreamingClient[mooncakev1.WatchBundlesReply]](t, "watch")(g.bundles.Watch(ctx, &mooncakev1.WatchBundlesRequest{Existing: true}))
	got[*mooncakev1.WatchBundlesReply](t, "first message")(again.Recv())
	if there := got[*mooncakev1.WatchBundlesReply](t, "what is there")(again.Recv()); len(there.GetEvents()) != 1 || there.GetEvents()[0].GetId() != testBundle {
		t.Errorf("existing %v", there)
	}
	for range 2 {
		gone := got[*mooncakev1.ReclaimReply](t, "reclaim")(g.bundles.Reclaim(ctx, &mooncakev1.ReclaimRequest{Id: testBundle}))
		expect(t, "state", gone.GetBundle().GetState(), mooncakev1.BundleState_BUNDLE_STATE_RECLAIMED)
	}
	event = got[*mooncakev1.WatchBundlesReply](t, "event")(watch.Recv())
	if len(event.GetEvents()) != 1 || !event.GetEvents()[0].GetWithdrawn() {
		t.Errorf("event %v", event)
	}
	totals := got[*mooncakev1.TotalsReply](t, "totals")(g.bundles.Totals(ctx, &mooncakev1.TotalsRequest{}))
	if len(totals.GetTotals()) != 1 || totals.GetTotals()[0].GetState() != mooncakev1.BundleState_BUNDLE_STATE_RECLAIMED {
		t.Errorf("totals %v", totals)
	}
	got[*mooncakev1.CollectReply](t, "collect")(g.bundles.Collect(ctx, &mooncakev1.CollectRequest{DryRun: true}))
}

// hasDetail tells whether a status has a detail of a type.
func hasDetail[T any](err error) bool {
	for _, d := range status.Convert(err).Details() {
		if _, ok := d.(T); ok {
			return true
		}
	}
	return false
}

// TestGRPCAbort gives a bundle up; what its writer does later fails.
func TestGRPCAbort(t *testing.T) { overAbort(t, newBed(t, withGRPC)) }

func overAbort(t *testing.T, b *bed) {
	t.Helper()
	b.client(wire.V14).mount("pool", 1<<44, 8*mib)
	g, ctx := b.grpc(), soon(t)
	got[*mooncakev1.BeginReply](t, "begin")(g.bundles.Begin(ctx, &mooncakev1.BeginRequest{Client: g.id, Id: testBundle, Members: members("buffer/a", "manifest")}))
	for range 2 {
		got[*mooncakev1.AbortReply](t, "abort")(g.bundles.Abort(ctx, &mooncakev1.AbortRequest{Id: testBundle}))
	}
	_, err := g.bundles.Commit(ctx, &mooncakev1.CommitRequest{Client: g.id, Id: testBundle})
	refusedAs(t, "to commit what was given up", err, codes.NotFound)
}

// TestGRPCWriterGone ends a writer's connection: the watch over writers is told, as of any client.
func TestGRPCWriterGone(t *testing.T) { overWriterGone(t, newBed(t, withGRPC)) }

func overWriterGone(t *testing.T, b *bed) {
	t.Helper()
	p := b.client(wire.V14)
	p.mount("pool", 1<<44, 8*mib)
	g := b.grpc()
	got[*mooncakev1.StartReply](t, "start")(g.objects.Start(soon(t), &mooncakev1.StartRequest{Client: g.id, Objects: []*mooncakev1.NewObject{{Key: "k", Size: 1}}}))
	_ = g.Close()
	waitFor(t, "the end of the connection to be noticed", func() bool {
		if b.service.cat.Stats().AbortedPuts == 1 {
			return true // the watch has drawn its conclusion
		}
		w := b.service.families.writers
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.waiting) == 1 && w.waiting[0].id == uuidIn(g.id)
	})
}

func TestGRPCAdmin(t *testing.T) {
	b := newBed(t, withGRPC)
	p := b.client(wire.V14)
	p.mount("pool", 1<<44, 64*mib)
	g, ctx := b.grpc(), soon(t)
	st := got[*mooncakev1.StatusReply](t, "status")(mooncakev1.NewAdminClient(g).Status(ctx, &mooncakev1.StatusRequest{}))
	if st.GetRole() != "leader" || !st.GetReady() || st.GetHoldings().GetCapacityBytes() != 64*mib || !slices.Contains(st.GetSettings(), "rpc_port="+strconv.Itoa(b.Ports().RPC)) ||
		st.GetHttpAddress() != "127.0.0.1:"+strconv.Itoa(b.Ports().Metrics) || st.GetLeader() != nil {
		t.Errorf("status %v", st)
	}
	got[*mooncakev1.StartReply](t, "start")(g.objects.Start(ctx, &mooncakev1.StartRequest{Client: g.id, Objects: []*mooncakev1.NewObject{{Key: "k", Size: 1}}}))
	releases := map[string]uint32{}
	for _, c := range got[*mooncakev1.ClientsReply](t, "clients")(mooncakev1.NewAdminClient(g).Clients(ctx, &mooncakev1.ClientsRequest{})).GetClients() {
		releases[c.GetRelease()] += c.GetSegments()
	}
	if len(releases) != 2 || releases["0.3.14"] != 1 || releases["grpc"] != 0 {
		t.Errorf("clients %v", releases)
	}
	segments := mooncakev1.NewSegmentsClient(g)
	if list := got[*mooncakev1.ListSegmentsReply](t, "segments")(segments.List(ctx, &mooncakev1.ListSegmentsRequest{})).GetSegments(); len(list) != 1 || list[0].GetState() != "OK" || list[0].GetStage() != "active" {
		t.Errorf("segments %v", list)
	}
	job := got[*mooncakev1.DrainReply](t, "drain")(segments.Drain(ctx, &mooncakev1.DrainRequest{Segments: []string{"pool"}}))
	jobs := got[*mooncakev1.ListDrainsReply](t, "drains")(segments.ListDrains(ctx, &mooncakev1.ListDrainsRequest{})).GetJobs()
	if len(jobs) != 1 || jobs[0].GetId().String() != job.GetId().String() {
		t.Errorf("drains %v", jobs)
	}
	_, err := segments.CancelDrain(ctx, &mooncakev1.CancelDrainRequest{Id: uuidOut(1, 2)})
	refusedAs(t, "to cancel an unknown job", err, codes.NotFound)
	id, ok := b.service.tasks.add(b.service.clock.Now(), wire.TaskTypeReplicaCopy, p.id, "{}")
	tasks := got[*mooncakev1.TasksReply](t, "tasks")(mooncakev1.NewAdminClient(g).Tasks(ctx, &mooncakev1.TasksRequest{})).GetTasks()
	if !ok || len(tasks) != 1 || uuidIn(tasks[0].GetId()) != id || tasks[0].GetState() != "pending" || tasks[0].GetKind() != "copy" {
		t.Errorf("tasks %v", tasks)
	}

	workloads := mooncakev1.NewWorkloadsClient(g)
	rule := &mooncakev1.Workload{Name: "rollouts", Prefixes: []string{"miles/"}, SoftBytes: mib, Evict: "bundle"}
	got[*mooncakev1.SetWorkloadReply](t, "set")(workloads.Set(ctx, &mooncakev1.SetWorkloadRequest{Workload: rule}))
	rule.SoftBytes = 2 * mib
	got[*mooncakev1.SetWorkloadReply](t, "set again")(workloads.Set(ctx, &mooncakev1.SetWorkloadRequest{Workload: rule}))
	rules := got[*mooncakev1.ListWorkloadsReply](t, "list")(workloads.List(ctx, &mooncakev1.ListWorkloadsRequest{}))
	if list := rules.GetWorkloads(); len(list) != 1 || list[0].GetSoftBytes() != 2*mib || list[0].GetEvict() != "bundle" || len(rules.GetUse()) != 2 {
		t.Errorf("workloads %v", rules)
	}
	_, err = workloads.Set(ctx, &mooncakev1.SetWorkloadRequest{Workload: &mooncakev1.Workload{Name: "x", Evict: "sometimes"}})
	refusedAs(t, "a rule that means nothing", err, codes.InvalidArgument)
	got[*mooncakev1.DeleteWorkloadReply](t, "delete")(workloads.Delete(ctx, &mooncakev1.DeleteWorkloadRequest{Name: "rollouts"}))
}

// TestGRPCWatchObjects sees what a published client does.
func TestGRPCWatchObjects(t *testing.T) {
	b := newBed(t, withGRPC)
	p := b.client(wire.V14)
	p.mount("pool", 1<<44, 64*mib)
	g := b.grpc()
	watch := got[grpc.ServerStreamingClient[mooncakev1.WatchReply]](t, "watch")(g.objects.Watch(soon(t), &mooncakev1.WatchRequest{Prefix: "k"}))
	got[*mooncakev1.WatchReply](t, "first message")(watch.Recv())
	p.put("other", 1)
	p.put("k1", 1)
	p.remove("k1", false)
	var seen []string
	for len(seen) < 2 {
		for _, e := range got[*mooncakev1.WatchReply](t, "event")(watch.Recv()).GetEvents() {
			seen = append(seen, fmt.Sprint(e.GetKey(), " ", e.GetGone()))
		}
	}
	if want := []string{"k1 false", "k1 true"}; !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
	b.stop()
	if _, err := watch.Recv(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the end of the master ends the stream with %v", err)
	}
}

func TestGRPCHealthAndReflection(t *testing.T) {
	b := newBed(t, withGRPC)
	g, ctx := b.grpc(), soon(t)
	for _, name := range []string{"", "mooncake.v1.Objects"} {
		r := got[*grpc_health_v1.HealthCheckResponse](t, "check")(grpc_health_v1.NewHealthClient(g).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: name}))
		expect(t, "health of "+name, r.GetStatus(), grpc_health_v1.HealthCheckResponse_SERVING)
	}
	_, err := grpc_health_v1.NewHealthClient(g).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "none"})
	refusedAs(t, "health of an unknown service", err, codes.NotFound)
	stream := got[grpc.BidiStreamingClient[grpc_reflection_v1.ServerReflectionRequest, grpc_reflection_v1.ServerReflectionResponse]](t, "reflection")(grpc_reflection_v1.NewServerReflectionClient(g).ServerReflectionInfo(ctx))
	if err := stream.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	if text := got[*grpc_reflection_v1.ServerReflectionResponse](t, "services")(stream.Recv()).String(); !strings.Contains(text, "mooncake.v1.Bundles") {
		t.Errorf("services %s", text)
	}
}

// TestGRPCAuthorize asks before every call, streams too.
func TestGRPCAuthorize(t *testing.T) {
	b := newBed(t, withGRPC, func(c *Config) {
		c.GRPCAuthorize = func(_ context.Context, method string) error {
			if strings.HasPrefix(method, "/mooncake.v1.Admin/") {
				return nil
			}
			return status.Error(codes.PermissionDenied, "not this one")
		}
	})
	g, ctx := b.grpc(), soon(t)
	got[*mooncakev1.StatusReply](t, "status")(mooncakev1.NewAdminClient(g).Status(ctx, &mooncakev1.StatusRequest{}))
	_, err := g.objects.Exists(ctx, &mooncakev1.ExistsRequest{Keys: []string{"k"}})
	refusedAs(t, "a call", err, codes.PermissionDenied)
	watch := got[grpc.ServerStreamingClient[mooncakev1.WatchReply]](t, "watch")(g.objects.Watch(ctx, &mooncakev1.WatchRequest{}))
	_, err = watch.Recv()
	refusedAs(t, "a stream", err, codes.PermissionDenied)
}

// TestGRPCStandby asks a master that does not lead: the answer names the one that does.
func TestGRPCStandby(t *testing.T) {
	etcd := startEtcd(t)
	first := newMember(t, etcd)
	first.awaitState("serving")
	second := newMember(t, etcd)
	second.awaitState("standby")
	p := second.client(wire.V13)
	p.mount("pool", 1<<44, 64*mib)
	leader, standby, ctx := first.grpc(), second.grpc(), soon(t)
	waitFor(t, "the standby to name the leader's gRPC port", func() bool {
		_, err := standby.objects.Exists(ctx, &mooncakev1.ExistsRequest{Keys: []string{"k"}})
		refusedAs(t, "a standby", err, codes.Unavailable)
		for _, d := range status.Convert(err).Details() {
			to, ok := d.(*mooncakev1.Redirect)
			if ok && to.GetGrpcAddress() == leader.Target() && to.GetRpcAddress() == "127.0.0.1:"+strconv.Itoa(first.Ports().RPC) {
				return true
			}
		}
		return false
	})
	st := got[*mooncakev1.StatusReply](t, "status")(mooncakev1.NewAdminClient(standby).Status(ctx, &mooncakev1.StatusRequest{}))
	if st.GetRole() != "standby" || st.GetReady() || st.GetHoldings() != nil || st.GetLeader().GetGrpcAddress() != leader.Target() {
		t.Errorf("status of a standby: %v", st)
	}
	got[*mooncakev1.StartReply](t, "start")(leader.objects.Start(ctx, &mooncakev1.StartRequest{Client: leader.id, Objects: []*mooncakev1.NewObject{{Key: "k", Size: 7}}}))
	got[*mooncakev1.EndReply](t, "end")(leader.objects.End(ctx, &mooncakev1.EndRequest{Client: leader.id, Keys: []string{"k"}}))
	first.stop()
	second.awaitState("serving")
	waitFor(t, "the new leader to answer", func() bool {
		r, err := standby.objects.Placements(ctx, &mooncakev1.PlacementsRequest{Keys: []string{"k"}})
		return err == nil && r.GetResults()[0].GetSize() == 7
	})
}
