package segment

import (
	"context"
	"crypto/rand"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"testing"
	"time"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// sumObjects is what a master knows of sums, and what it is told.
type sumObjects struct {
	mooncakev1.UnimplementedObjectsServer
	mu    sync.Mutex
	sums  map[uint64]uint32 // by the copy
	asked []string
	wrong []uint64
}

func (o *sumObjects) Placements(_ context.Context, q *mooncakev1.PlacementsRequest) (*mooncakev1.PlacementsReply, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, fmt.Sprint(q.GetTenant(), " ", q.GetKeys(), " ", q.GetPeek()))
	r := &mooncakev1.PlacementsResult{Outcome: &mooncakev1.Outcome{}}
	for id, sum := range o.sums {
		r.Placements, r.Crc32C = append(r.Placements, &mooncakev1.Placement{ReplicaId: id}), &sum
	}
	return &mooncakev1.PlacementsReply{Results: []*mooncakev1.PlacementsResult{r}}, nil
}

// Report notes copies that are called wrong.
func (h *hints) Report(_ context.Context, q *mooncakev1.ReportRequest) (*mooncakev1.ReportReply, error) {
	h.objects.mu.Lock()
	defer h.objects.mu.Unlock()
	for _, w := range q.GetWrong() {
		h.objects.wrong = append(h.objects.wrong, w.GetReplicaId())
	}
	return &mooncakev1.ReportReply{}, nil
}

// sum asks for sums and waits for the answer.
func (s *hintStream) sum(t *testing.T, number uint64, ranges ...*mooncakev1.SumRange) *mooncakev1.SumReply {
	t.Helper()
	q := &mooncakev1.SumRequest{Number: number, Ranges: ranges}
	if err := s.Send(&mooncakev1.AttachReply{What: &mooncakev1.AttachReply_Sum{Sum: q}}); err != nil {
		t.Fatal(err)
	}
	reply, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if reply.GetSum().GetNumber() != number {
		t.Fatalf("the answer to %d is %v", number, reply)
	}
	return reply.GetSum()
}

// TestSumsOfRanges finds sums of ranges, whole and piece by piece, and refuses what is not of the segment.
func TestSumsOfRanges(t *testing.T) {
	m, h := newFakeMaster(t), newHints(t)
	d := run(t, attachConfig(t, m, h))
	s := h.next(t, d.clientID)
	if !s.hello.GetSums() {
		t.Error("the daemon does not say that it finds sums")
	}
	base, size := d.state.Base, d.state.Size
	memory := d.arena.Bytes()
	if _, err := rand.Read(memory); err != nil {
		t.Fatal(err)
	}
	at := func(offset, size uint64, before uint32) *mooncakev1.SumRange {
		return &mooncakev1.SumRange{Address: base + offset, Size: size, Before: before}
	}
	of := func(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
	half := of(memory[:size/2])
	got := s.sum(t, 1, at(0, size, 0), at(17, 1000, 0), at(size, 0, 5))
	if want := []uint32{of(memory), of(memory[17:1017]), 5}; got.GetFailure() != "" || !slices.Equal(got.GetSums(), want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got = s.sum(t, 2, at(size/2, size-size/2, half)); !slices.Equal(got.GetSums(), []uint32{of(memory)}) {
		t.Errorf("in two pieces: %v, want %v", got, of(memory))
	}
	many := make([]*mooncakev1.SumRange, limits.SumRanges+1)
	for i := range many {
		many[i] = at(0, 1, 0)
	}
	for i, ranges := range [][]*mooncakev1.SumRange{
		{at(size, 1, 0)},
		{at(0, size+1, 0)},
		{at(size+1, 0, 0)},
		{{Address: base - 1, Size: 1}},
		{{Address: 0, Size: 1}},
		{{Address: ^uint64(0), Size: ^uint64(0)}},
		{{Address: base + 1, Size: ^uint64(0)}},
		{at(0, size, 0), at(0, size, 0), at(0, size, 0), at(0, size, 0), at(0, 1, 0)},
		many,
	} {
		if got := s.sum(t, uint64(10+i), ranges...); got.GetFailure() == "" || len(got.GetSums()) > 0 {
			t.Errorf("%d ranges from %v on: %v", len(ranges), ranges[0], got)
		}
	}
	if n := d.count.sumBytes.Load(); n < size {
		t.Errorf("%d bytes are counted", n)
	}
}

// TestSumsOfFurtherRegions finds sums of ranges of all regions of a daemon that has grown, in one request; none reaches over an
// end, and what is gone with its region is refused.
func TestSumsOfFurtherRegions(t *testing.T) {
	m, h := newFakeMaster(t), newHints(t)
	c := attachConfig(t, m, h)
	d := grown(t, m, c)
	s := h.next(t, d.clientID)
	x := d.all()[1]
	for _, memory := range [][]byte{d.arena.Bytes(), x.arena.Bytes()} {
		if _, err := rand.Read(memory); err != nil {
			t.Fatal(err)
		}
	}
	base := x.state.Base
	of := func(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }
	want := []uint32{of(x.arena.Bytes()[5:1005]), of(d.arena.Bytes()[7:2007]), of(x.arena.Bytes()[2<<20-100:])}
	got := s.sum(t, 1, &mooncakev1.SumRange{Address: base + 5, Size: 1000}, &mooncakev1.SumRange{Address: d.state.Base + 7, Size: 2000},
		&mooncakev1.SumRange{Address: base + 2<<20 - 100, Size: 100})
	if got.GetFailure() != "" || !slices.Equal(got.GetSums(), want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := s.sum(t, 2, &mooncakev1.SumRange{Address: base + 2<<20 - 100, Size: 101}); got.GetFailure() == "" {
		t.Errorf("over the end: %v", got)
	}
	m.lock(func() { m.drains = []string{`{"left":0}`} })
	if p := d.resizeTo(t, resizeOrder{c.SegmentBytes, time.Minute}); p.State != resizeDone {
		t.Fatalf("%+v", p)
	}
	if got := s.sum(t, 3, &mooncakev1.SumRange{Address: base + 5, Size: 1000}); got.GetFailure() == "" {
		t.Errorf("of a region that is gone: %v", got)
	}
}

// TestCopiesAreVerified copies under a master that keeps sums: the source is compared with what the master knows, the target is
// read back.
func TestCopiesAreVerified(t *testing.T) {
	const size, id = 1_500_000, 77
	for name, c := range map[string]struct {
		sum     func(right uint32) map[uint64]uint32
		targets func(to *running) []wire.ReplicaDescriptor
		calls   []string
		message string
		wrong   []uint64
	}{
		"right": {func(right uint32) map[uint64]uint32 { return map[uint64]uint32{id: right} }, nil, []string{"CopyStart", "CopyEnd", "task SUCCESS"}, "", nil},
		"wrong source": {
			func(right uint32) map[uint64]uint32 { return map[uint64]uint32{id: right + 1} }, nil,
			[]string{"CopyStart", "CopyRevoke", "task FAILED"},
			"the source has the sum",
			[]uint64{id},
		},
		"no sum is known":  {func(uint32) map[uint64]uint32 { return nil }, nil, []string{"CopyStart", "CopyEnd", "task SUCCESS"}, "", nil},
		"a sum of another": {func(right uint32) map[uint64]uint32 { return map[uint64]uint32{id + 1: right + 1} }, nil, []string{"CopyStart", "CopyEnd", "task SUCCESS"}, "", nil},
		"wrong target": {
			func(right uint32) map[uint64]uint32 { return map[uint64]uint32{id: right} },
			func(to *running) []wire.ReplicaDescriptor {
				return []wire.ReplicaDescriptor{replica(to, 5000, size), replica(to, 6000, size)}
			},
			[]string{"CopyStart", "CopyRevoke", "task FAILED"},
			"has the sum", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, h := newFakeMaster(t), newHints(t)
			config := attachConfig(t, m, h)
			from := run(t, config)
			other := daemonConfig(t, m)
			other.SegmentBytes = config.SegmentBytes
			to := run(t, other)
			for range 2 {
				m.wait(t, "ReMountSegment")
			}
			bytes := from.arena.Bytes()[100 : 100+size]
			if _, err := rand.Read(bytes); err != nil {
				t.Fatal(err)
			}
			h.objects.mu.Lock()
			h.objects.sums = c.sum(crc32.Checksum(bytes, castagnoli))
			h.objects.mu.Unlock()
			s := h.next(t, from.clientID)
			if err := s.Send(&mooncakev1.AttachReply{What: &mooncakev1.AttachReply_Welcome{Welcome: &mooncakev1.Welcome{Sums: true}}}); err != nil {
				t.Fatal(err)
			}
			waitLog(t, from, "attached to the master")
			source, targets := replica(from, 100, size), []wire.ReplicaDescriptor{replica(to, 5000, size)}
			source.ID = id
			if c.targets != nil {
				targets = c.targets(to)
			}
			m.lock(func() { m.copies["k"] = copyPlan{source, targets} })
			m.order(from, wire.TaskTypeReplicaCopy, `{"key":"k","tenant_id":"team","source":"a","targets":["b"]}`)
			if err := s.Send(&mooncakev1.AttachReply{What: &mooncakev1.AttachReply_TasksWait{TasksWait: &mooncakev1.TasksWait{}}}); err != nil {
				t.Fatal(err)
			}
			for _, call := range c.calls[:len(c.calls)-1] {
				m.wait(t, call)
			}
			m.waitTask(t, c.calls[len(c.calls)-1], c.message)
			h.objects.mu.Lock()
			defer h.objects.mu.Unlock()
			if !slices.Equal(h.objects.wrong, c.wrong) || !slices.Equal(h.objects.asked, []string{"team [k] true"}) {
				t.Errorf("told of %v, asked %v", h.objects.wrong, h.objects.asked)
			}
			if n := from.count.copiesVerified.Load(); (n == 1) != (c.message == "") {
				t.Errorf("%d copies count as verified", n)
			}
		})
	}
}

// TestSumsGiveWay rests while others are served, and ends when it is told to.
func TestSumsGiveWay(t *testing.T) {
	m := newFakeMaster(t)
	d := run(t, daemonConfig(t, m))
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	cancel()
	if _, err := d.sumBytes(ctx, make([]byte, 3*limits.SumSliceBytes), 0); err == nil {
		t.Error("sums are found after the end")
	}
}
