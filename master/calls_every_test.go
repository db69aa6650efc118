package master

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"mooncake/wire"
	"mooncake/wire/rpc"
)

// anyCall is a call without its types.
type anyCall struct {
	id wire.CallID
	// make sends the call with arguments that are all zero, reads the reply in the peer's dialect and prints it.
	make func(p *peer) (string, error)
}

func callOf[Req, Rep any](call *wire.Call[Req, Rep]) anyCall {
	return anyCall{call.ID, func(p *peer) (string, error) {
		rep, err := try(p, call, new(Req))
		return fmt.Sprintf("%+v", rep), err
	}}
}

// everyCall lists all calls of all releases.
var everyCall = []anyCall{
	callOf(&wire.ExistKey), callOf(&wire.BatchExistKey), callOf(&wire.BatchQueryIp),
	callOf(&wire.BatchReplicaClear), callOf(&wire.GetReplicaListByRegex), callOf(&wire.GetReplicaList),
	callOf(&wire.BatchGetReplicaList), callOf(&wire.PutStart), callOf(&wire.PutEnd), callOf(&wire.PutRevoke),
	callOf(&wire.BatchPutStart), callOf(&wire.BatchPutEnd), callOf(&wire.BatchPutRevoke),
	callOf(&wire.UpsertStart), callOf(&wire.UpsertEnd), callOf(&wire.UpsertRevoke),
	callOf(&wire.BatchUpsertStart), callOf(&wire.BatchUpsertEnd), callOf(&wire.BatchUpsertRevoke),
	callOf(&wire.Remove), callOf(&wire.RemoveByRegex), callOf(&wire.RemoveAll), callOf(&wire.BatchRemove),
	callOf(&wire.MountSegment), callOf(&wire.MountNoFSegment), callOf(&wire.ReMountSegment),
	callOf(&wire.ReMountNoFSegment), callOf(&wire.UnmountSegment), callOf(&wire.GracefulUnmountSegment),
	callOf(&wire.UnmountNoFSegment), callOf(&wire.GetAllNoFSegments), callOf(&wire.GetNoFSegmentsByName),
	callOf(&wire.Ping), callOf(&wire.GetFsdir), callOf(&wire.QuerySegmentStatus),
	callOf(&wire.QuerySegmentStatusById), callOf(&wire.GetStorageConfig), callOf(&wire.ServiceReady),
	callOf(&wire.MountLocalDiskSegment), callOf(&wire.OffloadObjectHeartbeat), callOf(&wire.ReportSsdCapacity),
	callOf(&wire.NotifyOffloadSuccess), callOf(&wire.PromotionObjectHeartbeat),
	callOf(&wire.PromotionAllocStart), callOf(&wire.NotifyPromotionSuccess),
	callOf(&wire.NotifyPromotionFailure), callOf(&wire.CopyStart), callOf(&wire.CopyEnd),
	callOf(&wire.CopyRevoke), callOf(&wire.MoveStart), callOf(&wire.MoveEnd), callOf(&wire.MoveRevoke),
	callOf(&wire.EvictDiskReplica), callOf(&wire.BatchEvictDiskReplica), callOf(&wire.PollRemoveAll),
	callOf(&wire.CreateCopyTask), callOf(&wire.CreateMoveTask), callOf(&wire.QueryTask),
	callOf(&wire.FetchTasks), callOf(&wire.MarkTaskToComplete), callOf(&wire.UnmountLocalDiskSegment),
	callOf(&wire.DynamicReplicaCopyStart), callOf(&wire.DynamicReplicaCopyEnd),
	callOf(&wire.DynamicReplicaCopyRevoke), callOf(&wire.GetReplicaListForAdmin),
	callOf(&wire.BatchGetReplicaListForAdmin), callOf(&wire.ProbeKey), callOf(&wire.BatchProbeKey),
	callOf(&wire.EvictDiskReplicaIfCurrent), callOf(&wire.RegisterPrefetchTask),
	callOf(&wire.BeginWeightImport), callOf(&wire.CommitWeightImport), callOf(&wire.AbortWeightImport),
	callOf(&wire.GetWeightRevision), callOf(&wire.ListWeightRevisions),
	callOf(&wire.AcquireWeightRevisionLease), callOf(&wire.RenewWeightRevisionLease),
	callOf(&wire.ReleaseWeightRevisionLease), callOf(&wire.StartWeightResidencyOperation),
	callOf(&wire.QueryWeightOperation), callOf(&wire.DeleteWeightRevision),
}

func TestEveryCallIsListed(t *testing.T) {
	seen := map[wire.CallID]bool{}
	for _, c := range everyCall {
		seen[c.id] = true
	}
	if len(seen) != wire.NumCalls || len(everyCall) != wire.NumCalls {
		t.Fatalf("%d entries with %d calls, want %d", len(everyCall), len(seen), wire.NumCalls)
	}
}

// TestEveryCallIsAnswered sends each call of each release with arguments that are all zero: the reply is of the call's own
// type and in the caller's layout, and the connection serves on.
func TestEveryCallIsAnswered(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		for _, c := range everyCall {
			if !c.id.Releases().Has(p.d) {
				continue
			}
			if _, err := c.make(p); err != nil {
				t.Errorf("%s: %v", c.id, err)
			}
		}
		expect(t, "exist afterwards", p.exists("k"), false)
		// As the first call of a connection, too: nothing is known then, and nothing waits.
		for _, c := range everyCall {
			if !c.id.Releases().Has(p.d) {
				continue
			}
			if _, err := c.make(b.stranger(p.d)); err != nil {
				t.Errorf("%s on a new connection: %v", c.id, err)
			}
		}
	})
}

// TestCallsOfOtherReleases sends what only newer releases know to a connection that has proved to be older, as one process
// with clients of two releases behind one address might. The request says what it is; the reply is never in doubt.
func TestCallsOfOtherReleases(t *testing.T) {
	b := newBed(t)
	for _, c := range everyCall {
		if c.id.Releases().Has(wire.V12) {
			continue
		}
		p := b.client(wire.V12)
		p.d = c.id.Releases().Newest()
		if _, err := c.make(p); err != nil {
			t.Errorf("%s: %v", c.id, err)
		}
	}
}

const callsDoc = "../docs/calls.md"

// TestCallsAreDocumented compares the releases of every call, and whether it has a behaviour, with the table in docs.
func TestCallsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(callsDoc)
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ releases, state string }
	listed := map[string]row{}
	for _, line := range strings.Split(string(text), "\n") {
		if cells := strings.Split(line, "|"); len(cells) == 6 && strings.HasPrefix(line, "| `") {
			listed[strings.Trim(cells[1], " `")] = row{strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])}
		}
	}
	s, err := newService(DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for id := range wire.CallID(wire.NumCalls) {
		r, ok := listed[id.Name()]
		if !ok {
			t.Errorf("%s does not list %s", callsDoc, id)
			continue
		}
		if want := strings.ReplaceAll(id.Releases().String(), " ", ", "); r.releases != want {
			t.Errorf("%s: %s is said to be of %s, and is of %s", callsDoc, id, r.releases, want)
		}
		if unbuilt := s.table[id] == nil; unbuilt != (r.state == "missing") {
			t.Errorf("%s: %s is said to be %q, and has no handler: %v", callsDoc, id, r.state, unbuilt)
		}
	}
	if len(listed) != wire.NumCalls {
		t.Errorf("%s lists %d calls, and there are %d", callsDoc, len(listed), wire.NumCalls)
	}
}

// TestUnavailableAnswers pins what a client reads where nothing is built yet.
func TestUnavailableAnswers(t *testing.T) {
	b := newBed(t)
	p := b.client(wire.V14)
	no := wire.ErrUnavailableInCurrentMode
	request := wire.BatchEvictDiskReplica.AppendRequest(nil, wire.V14, &wire.BatchEvictDiskReplicaRequest{Keys: []string{"a", "b", "c"}})
	var batch wire.BatchEvictDiskReplicaReply
	if err := wire.BatchEvictDiskReplica.DecodeReply(wire.UnavailableReply(nil, wire.CallBatchEvictDiskReplica, wire.V14, request), wire.V14, &batch); err != nil {
		t.Fatal(err)
	}
	expectItems(t, "batch", batch, no, no, no)
	if _, known := wire.Lookup(0); known {
		t.Fatal("0 is a function")
	}
	code, body, err := p.Call(t.Context(), 0, nil)
	if err != nil || code != rpc.CodeUnknownFunction || rpc.ErrorText(body) != rpc.TextUnknownFunction {
		t.Errorf("unknown function: code %d, %q, %v", code, body, err)
	}
}
