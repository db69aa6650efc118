package master

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// sumOwner is a daemon whose memory has sums instead of bytes: every object's is the same until the test says otherwise.
type sumOwner struct {
	mu    sync.Mutex
	sums  map[uint64]uint32 // by address
	mute  bool              // it fails
	asked int
}

func (o *sumOwner) set(address uint64, sum uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sums == nil {
		o.sums = map[uint64]uint32{}
	}
	o.sums[address] = sum
}

func (o *sumOwner) reply(q *mooncakev1.SumRequest) *mooncakev1.SumReply {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	r := &mooncakev1.SumReply{Number: q.GetNumber()}
	if o.mute {
		r.Failure = "not today"
		return r
	}
	for _, at := range q.GetRanges() {
		sum, ok := o.sums[at.GetAddress()]
		if !ok {
			sum = 7
		}
		r.Sums = append(r.Sums, sum+at.GetBefore())
	}
	return r
}

// sumOwner attaches a daemon that finds sums, until the test ends.
func (b *bed) sumOwner(id wire.UUID) *sumOwner {
	b.t.Helper()
	o := &sumOwner{}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := mooncakev1.NewSegmentsClient(b.grpc().ClientConn).Attach(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	hello := &mooncakev1.Hello{Client: uuidOut(id.Hi, id.Lo), Sums: true}
	if err := stream.Send(&mooncakev1.AttachRequest{What: &mooncakev1.AttachRequest_Hello{Hello: hello}}); err != nil {
		b.t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			reply, err := stream.Recv()
			if err != nil {
				return
			}
			if q := reply.GetSum(); q != nil {
				_ = stream.Send(&mooncakev1.AttachRequest{What: &mooncakev1.AttachRequest_Sum{Sum: o.reply(q)}}) // an error ends Recv too
			}
		}
	})
	b.t.Cleanup(func() { cancel(); serving.Wait() })
	return o
}

func withSums(c *Config) {
	withGRPC(c)
	c.Checksum = true
}

// addressOf is where the copy of an object on a segment of an endpoint lies.
func addressOf(t *testing.T, list []wire.ReplicaDescriptor, host string) (address, replica uint64) {
	t.Helper()
	for i := range list {
		if m := &list[i].DescriptorVariant.Memory.BufferDescriptor; m.TransportEndpoint == host+":15001" {
			return m.BufferAddress, list[i].ID
		}
	}
	t.Fatalf("no copy on %s in %+v", host, list)
	return 0, 0
}

// TestIntegrity follows an object on two segments whose owners find sums: the first is kept, a copy that has another one twice
// is not named any more, shown and released, and what somebody doubts is looked at, at once: no scrub comes by.
func TestIntegrity(t *testing.T) {
	b := newBed(t, withSums, func(c *Config) { c.ScrubBandwidth = 0 })
	p, q := b.client(wire.V13), b.client(wire.V14)
	p.mount("a", 1<<44, mib)
	q.mount("b", 1<<45, mib)
	first := b.sumOwner(p.id)
	b.sumOwner(q.id)
	waitFor(t, "two daemons", func() bool { return len(b.service.Integrity().Daemons) == 2 })
	p.putTwice("k", 1000)
	waitFor(t, "a sum is kept and compared", func() bool { i := b.service.Integrity(); return i.Kept == 1 && i.Right >= 1 })
	list := p.get("k").Value.Replicas
	address, _ := addressOf(t, list, "a")
	_, sound := addressOf(t, list, "b")
	places := func() *mooncakev1.PlacementsResult {
		t.Helper()
		reply, err := mooncakev1.NewObjectsClient(b.grpc().ClientConn).Placements(soon(t), &mooncakev1.PlacementsRequest{Keys: []string{"k"}})
		if err != nil {
			t.Fatal(err)
		}
		return reply.GetResults()[0]
	}
	if r := places(); r.Crc32C == nil || r.GetCrc32C() != 7 {
		t.Errorf("placements say %v", r)
	}
	first.set(address, 8)
	expect(t, "daemons that scrub", b.service.ScrubNow(), 2)
	waitFor(t, "the copy is condemned", func() bool { return b.service.Integrity().Corrupt == 1 })
	expect(t, "copies", fmt.Sprint(hostsOf(p.get("k").Value.Replicas)), "[b:15001]")
	info := b.service.Integrity()
	if info.Doubted != 1 || info.Lost != 0 || info.RangeCount != 1 || info.Ranges[0].Key != "k" || info.Ranges[0].Segment != "a" || info.RangeBytes != 1000 {
		t.Errorf("%+v", info)
	}
	report := func() uint32 {
		t.Helper()
		wrong := []*mooncakev1.WrongCopy{{Key: "k", ReplicaId: sound}, {Key: "k", ReplicaId: sound + 1000}, {Key: "nobody", ReplicaId: 1}}
		reply, err := mooncakev1.NewSegmentsClient(b.grpc().ClientConn).Report(soon(t), &mooncakev1.ReportRequest{Wrong: wrong})
		if err != nil {
			t.Fatal(err)
		}
		return reply.GetLookedAt()
	}
	waitFor(t, "the walks are over", func() bool {
		of := b.service.Integrity().Daemons
		return of[0].Rounds == 1 && of[1].Rounds == 1
	})
	right := b.service.Integrity().Right
	expect(t, "looked at", report(), uint32(1))
	waitFor(t, "it is right", func() bool { return b.service.Integrity().Right > right })
	status, page := b.ask(http.MethodGet, "/api/v1/integrity", "")
	expect(t, "page", status, http.StatusOK)
	expect(t, "ranges shown", len(page["corrupt_ranges"].([]any)), 1)
	status, page = b.ask(http.MethodPost, "/api/v1/integrity/release?segment=b", "")
	expect(t, "release of another segment", fmt.Sprint(status, page["released_ranges"]), "200 0")
	for query, body := range map[string]string{"?segmnt=b": "", "?segment=": "", "": `{"segment":"b"}`} {
		status, _ = b.ask(http.MethodPost, "/api/v1/integrity/release"+query, body)
		expect(t, "release of "+query+body, status, http.StatusBadRequest)
	}
	status, page = b.ask(http.MethodPost, "/api/v1/integrity/release?segment=a", "")
	expect(t, "release", fmt.Sprint(status, page["released_ranges"]), "200 1")
	expect(t, "ranges left", b.service.Integrity().RangeCount, 0)
}

// TestSumsOfFurtherRegions has a daemon grow: what lies on its further region, a segment of its own, has its sum kept, is looked
// at by the scrub over the one stream of its client, and the page names that segment.
func TestSumsOfFurtherRegions(t *testing.T) {
	b := newBed(t, withSums)
	p := b.client(wire.V13)
	p.mount("a", 1<<44, mib)
	owner := b.sumOwner(p.id)
	waitFor(t, "the daemon", func() bool { return len(b.service.Integrity().Daemons) == 1 })
	further := wire.Segment{ID: newID(), Name: "a~1", Base: 1 << 45, Size: mib, TeEndpoint: "a:15001", Protocol: "tcp"}
	expect(t, "mount", invoke(p, &wire.MountSegment, &wire.MountSegmentRequest{Segment: further, ClientID: p.id}).Err, 0)
	putOn := func(key, segment string) (address uint64) {
		t.Helper()
		cfg := wire.ReplicateConfig{ReplicaNum: 1, PreferredSegments: []string{segment}}
		expect(t, "put start", invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: key, Size: 1000, Config: cfg}).Err, 0)
		expect(t, "put end", p.putEnd(key), 0)
		address, _ = addressOf(t, p.get(key).Value.Replicas, "a")
		return address
	}
	near, far := putOn("near", "a"), putOn("far", "a~1")
	if near >= 1<<45 || far < 1<<45 {
		t.Fatalf("the objects lie at %#x and %#x", near, far)
	}
	waitFor(t, "both sums are kept", func() bool { return b.service.Integrity().Kept == 2 })
	owner.set(far, 8)
	b.service.ScrubNow()
	waitFor(t, "what lies on the further region is lost", func() bool { return b.service.Integrity().Lost == 1 })
	info := b.service.Integrity()
	if len(info.Ranges) != 1 || info.Ranges[0].Key != "far" || info.Ranges[0].Segment != "a~1" || info.Ranges[0].Offset != far-1<<45 || info.Failures != 0 {
		t.Errorf("%+v", info)
	}
	expect(t, "released", b.service.ReleaseCorrupt("a~1"), 1)
	p.leave(further)
	putOn("later", "a")
	waitFor(t, "sums are kept when the region has gone", func() bool { return b.service.Integrity().Kept == 3 })
}

// TestScrubOnRequest never scrubs by itself, and does when it is asked to.
func TestScrubOnRequest(t *testing.T) {
	b := newBed(t, withSums, func(c *Config) { c.ScrubBandwidth = 0 })
	p := b.client(wire.V13)
	p.mount("a", 1<<44, 8*mib)
	b.sumOwner(p.id)
	for i := range 20 {
		p.put(fmt.Sprint("k", i), 300_000)
	}
	waitFor(t, "sums are kept", func() bool { return b.service.Integrity().Kept == 20 })
	expect(t, "walks", b.service.Integrity().Daemons[0].Rounds, uint64(0))
	right := b.service.Integrity().Right
	b.service.ScrubNow()
	waitFor(t, "one walk", func() bool { i := b.service.Integrity(); return i.Right >= right+20 && i.Daemons[0].Rounds == 1 })
}

// TestOnlyCopyIsCorrupt has the one copy of an object change: the object is absent for published clients, and can be put anew.
func TestOnlyCopyIsCorrupt(t *testing.T) {
	b := newBed(t, withSums)
	p := b.client(wire.V13)
	p.mount("a", 1<<44, mib)
	owner := b.sumOwner(p.id)
	p.put("k", 1000)
	waitFor(t, "a sum is kept", func() bool { return b.service.Integrity().Kept == 1 })
	address, _ := addressOf(t, p.get("k").Value.Replicas, "a")
	owner.set(address, 8)
	b.service.ScrubNow()
	waitFor(t, "the object is gone", func() bool { return b.service.Integrity().Lost == 1 })
	expect(t, "get", p.get("k").Err, wire.ErrObjectNotFound)
	p.put("k", 1000)
	fresh, _ := addressOf(t, p.get("k").Value.Replicas, "a")
	if fresh == address {
		t.Error("the corrupt range was given to another write")
	}
}

// TestLargeObjectsInPieces has an object looked at that is larger than one request.
func TestLargeObjectsInPieces(t *testing.T) {
	b := newBed(t, withSums)
	p := b.client(wire.V13)
	p.mount("a", 1<<44, 8*limits.SumPieceBytes)
	owner := b.sumOwner(p.id)
	p.put("large", 2*limits.SumPieceBytes+5)
	for i := range 5 {
		p.put(fmt.Sprint("small", i), 10)
	}
	waitFor(t, "all sums are kept", func() bool { return b.service.Integrity().Kept == 6 })
	reply, err := mooncakev1.NewObjectsClient(b.grpc().ClientConn).Placements(soon(t), &mooncakev1.PlacementsRequest{Keys: []string{"large", "small3"}, Peek: true})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "sums", fmt.Sprint(reply.GetResults()[0].GetCrc32C(), reply.GetResults()[1].GetCrc32C()), "21 7")
	owner.mu.Lock()
	defer owner.mu.Unlock()
	if owner.asked < 3 {
		t.Errorf("asked %d times", owner.asked)
	}
}

// TestSumsAfterFailures has a daemon that cannot at first, and one that comes later: nothing is left without a sum.
func TestSumsAfterFailures(t *testing.T) {
	b := newBed(t, withSums)
	p, q := b.client(wire.V13), b.client(wire.V13)
	p.mount("a", 1<<44, mib)
	q.mount("b", 1<<45, mib)
	early := b.sumOwner(p.id)
	early.mu.Lock()
	early.mute = true
	early.mu.Unlock()
	for i := range 20 {
		p.put(fmt.Sprint("k", i), 1000)
	}
	waitFor(t, "a failure", func() bool { return b.service.Integrity().Failures > 0 })
	early.mu.Lock()
	early.mute = false
	early.mu.Unlock()
	b.sumOwner(q.id)
	waitFor(t, "all sums are kept", func() bool { return b.service.Integrity().Kept == 20 })
}

// TestNoSums asks nobody for sums that were not asked for.
func TestNoSums(t *testing.T) {
	b := newBed(t, withGRPC)
	p := b.client(wire.V13)
	p.mount("a", 1<<44, mib)
	owner := b.sumOwner(p.id)
	p.put("k", 1000)
	b.service.stepIntegrity()
	if keys, _ := b.service.cat.TakeUnsummed(nil); len(keys) > 0 {
		t.Error(keys)
	}
	expect(t, "daemons", b.service.ScrubNow(), 0)
	expect(t, "page", fmt.Sprint(b.service.Integrity().On), "false")
	owner.mu.Lock()
	defer owner.mu.Unlock()
	expect(t, "requests", owner.asked, 0)
}

// TestScrubSettings refuses what means nothing, and looks at what the bounds say.
func TestScrubSettings(t *testing.T) {
	for _, bandwidth := range []uint64{1, limits.ScrubBandwidthMin - 1, limits.ScrubBandwidthMax + 1} {
		cfg := DefaultConfig()
		cfg.ScrubBandwidth = bandwidth
		if cfg.Validate() == nil {
			t.Errorf("%d bytes a second are taken", bandwidth)
		}
	}
	for _, c := range []struct{ bandwidth, want uint64 }{{limits.ScrubBandwidthMin, limits.ScrubPieceMin}, {8 << 20, 1 << 20}, {1 << 40, limits.SumPieceBytes}} {
		expect(t, "piece", pieceOf(c.bandwidth), c.want)
	}
	expect(t, "rest", restAfter(1<<20, 4<<20).Milliseconds(), int64(250))
}

// TestRangesOfRequests cuts requests out of a queue.
func TestRangesOfRequests(t *testing.T) {
	seg := &catalog.SegmentInfo{Segment: catalog.Segment{Base: 1000}}
	job := func(offset, size, at uint64) sumJob {
		return sumJob{SumTask: catalog.SumTask{Segment: seg, Offset: offset, Size: size}, at: at, crc: uint32(at)}
	}
	jobs := []sumJob{job(0, 100, 40), job(100, 30, 0), job(130, 50, 0)}
	ranges, bytes := rangesOf(jobs, 100)
	text := ""
	for _, r := range ranges {
		text += fmt.Sprintf("%d+%d after %d, ", r.GetAddress(), r.GetSize(), r.GetBefore())
	}
	expect(t, "ranges", fmt.Sprint(text, bytes), "1040+60 after 40, 1100+30 after 0, 1130+10 after 0, 100")
	many := make([]sumJob, limits.SumRanges+1)
	for i := range many {
		many[i] = job(0, 1, 0)
	}
	ranges, _ = rangesOf(many, 1<<20)
	expect(t, "ranges at once", len(ranges), limits.SumRanges)
}
