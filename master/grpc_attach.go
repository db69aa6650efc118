package master

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/catalog"
	"mooncake/internal/hostport"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// attached are the daemons that keep a stream to this master. What they are told is only a hint, and what they answer is
// checked: nothing about their segments depends on it. The lock is a leaf.
type attached struct {
	mu   sync.Mutex
	list map[wire.UUID]*attachment // by client
}

// attachment is one stream. Its lock is a leaf.
type attachment struct {
	tasks chan struct{}                // has one when there are tasks to fetch
	reads chan *mooncakev1.ReadRequest // on their way to the daemon
	sums  chan *mooncakev1.SumRequest  // the same
	ended chan struct{}                // closed when the stream ends, or another takes its place
	end   func()

	mu      sync.Mutex
	number  uint64
	waiting map[uint64]awaitedRead
	awaited awaitedSums
}

// awaitedRead is a read under way.
type awaitedRead struct {
	size   uint64
	answer chan []byte // has room for the answer; nil is a failure
}

// The ways in which a read brings nothing.
var (
	errNotAttached = errors.New("the owner of the segment keeps no stream to this master")
	errReadRefused = errors.New("the owner of the segment has not given the bytes")
	errReadsBusy   = errors.New("the owner of the segment is asked for too much already")
)

func newAttachment() *attachment {
	a := &attachment{
		tasks: make(chan struct{}, 1), reads: make(chan *mooncakev1.ReadRequest, limits.AttachReads),
		sums: make(chan *mooncakev1.SumRequest), ended: make(chan struct{}), waiting: map[uint64]awaitedRead{},
	}
	a.end = sync.OnceFunc(func() { close(a.ended) })
	return a
}

// add makes a stream the one of its client.
func (x *attached) add(client wire.UUID, a *attachment) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old := x.list[client]; old != nil {
		old.end()
	}
	if x.list == nil {
		x.list = map[wire.UUID]*attachment{}
	}
	x.list[client] = a
}

func (x *attached) remove(client wire.UUID, a *attachment) {
	a.end()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.list[client] == a {
		delete(x.list, client)
	}
}

func (x *attached) of(client wire.UUID) *attachment {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.list[client]
}

// nudge tells a daemon that there are tasks for it.
func (x *attached) nudge(client wire.UUID) {
	if a := x.of(client); a != nil {
		select {
		case a.tasks <- struct{}{}:
		default: // it is about to be told
		}
	}
}

// read asks the owner of a segment for bytes in it. Whether these are what was meant is for the caller to find out: the range
// may belong to something else by now.
func (x *attached) read(ctx context.Context, client wire.UUID, address, size uint64) ([]byte, error) {
	a := x.of(client)
	if a == nil {
		return nil, errNotAttached
	}
	answer := make(chan []byte, 1)
	a.mu.Lock()
	if len(a.waiting) >= limits.AttachReads {
		a.mu.Unlock()
		return nil, errReadsBusy
	}
	a.number++
	number := a.number
	a.waiting[number] = awaitedRead{size, answer}
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.waiting, number)
		a.mu.Unlock()
	}()
	select {
	case a.reads <- &mooncakev1.ReadRequest{Number: number, Address: address, Size: size}:
	default:
		return nil, errReadsBusy
	}
	select {
	case data := <-answer:
		if data == nil {
			return nil, errReadRefused
		}
		return data, nil
	case <-a.ended:
		return nil, errNotAttached
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// answered passes on what the daemon gave. An answer that nobody waits for any more is dropped.
func (a *attachment) answered(r *mooncakev1.ReadReply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w, ok := a.waiting[r.GetNumber()]
	if !ok {
		return
	}
	delete(a.waiting, r.GetNumber())
	if r.GetFailure() != "" || uint64(len(r.GetData())) != w.size {
		w.answer <- nil
		return
	}
	w.answer <- r.GetData()
}

// Attach implements the call.
func (x segmentsServer) Attach(stream mooncakev1.Segments_AttachServer) error {
	ctx := stream.Context()
	said := make(chan *mooncakev1.AttachRequest)
	go func() { // it ends with the stream, which ends with this call
		defer close(said)
		for {
			q, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case said <- q:
			case <-ctx.Done():
				return
			}
		}
	}()
	client, sums, err := greeted(ctx, said)
	if err != nil {
		return err
	}
	s, release, err := x.g.source.hold(ctx)
	if err != nil {
		return err
	}
	if len(s.cat.SegmentsOf(clientID(client))) == 0 {
		release()
		return status.Errorf(codes.FailedPrecondition, "no segment of client %s is mounted here", client)
	}
	if from, owner := peerOf(ctx), s.families.addressOf(clientID(client)); !s.isOwner(clientID(client), from) {
		release()
		return status.Errorf(codes.PermissionDenied, "client %s calls from %s, and this stream comes from %s", client, owner, from)
	}
	a := newAttachment()
	s.attached.add(client, a)
	release()
	defer s.attached.remove(client, a)
	s.attached.nudge(client) // what was made for it before
	if err := stream.Send(&mooncakev1.AttachReply{What: &mooncakev1.AttachReply_Welcome{Welcome: &mooncakev1.Welcome{Sums: s.integrity.on}}}); err != nil {
		return err
	}
	if s.integrity.on && sums {
		var summing sync.WaitGroup
		defer summing.Wait()
		defer a.end() // before that
		summing.Go(func() { x.keepSums(ctx, s, clientID(client), a) })
	}
	return x.keepAttached(stream, s, a, said)
}

// peerOf is the address that a call of gRPC comes from.
func peerOf(ctx context.Context) netip.Addr {
	if c, ok := ctx.Value(grpcConnKey{}).(*grpcConn); ok {
		return c.peer
	}
	return netip.Addr{}
}

// isOwner tells whether an address is that of the process which owns a client's segments: it calls from there, or its segments
// are there. An id is no secret, and who has a stream in another's name would be asked for the other's bytes.
func (s *Service) isOwner(client catalog.UUID, from netip.Addr) bool {
	if s.families.addressOf(client) == from.String() {
		return true
	}
	return slices.ContainsFunc(s.cat.SegmentsOf(client), func(seg catalog.SegmentInfo) bool {
		host, _, err := hostport.Parse(seg.Endpoint, 0)
		at, bad := netip.ParseAddr(host)
		return err == nil && bad == nil && at.Unmap() == from
	})
}

// greeted waits for the first message of a stream: who it is, and whether it finds sums.
func greeted(ctx context.Context, said <-chan *mooncakev1.AttachRequest) (who wire.UUID, sums bool, err error) {
	late := time.NewTimer(limits.AttachHelloMs * time.Millisecond)
	defer late.Stop()
	select {
	case q, open := <-said:
		id := q.GetHello().GetClient()
		if open && id != nil {
			return wire.UUID{Hi: id.GetHigh(), Lo: id.GetLow()}, q.GetHello().GetSums(), nil
		}
		return wire.UUID{}, false, status.Error(codes.InvalidArgument, "the first message of a stream is a hello with a client")
	case <-late.C:
		return wire.UUID{}, false, status.Errorf(codes.DeadlineExceeded, "no hello within %d ms", limits.AttachHelloMs)
	case <-ctx.Done():
		return wire.UUID{}, false, status.FromContextError(ctx.Err()).Err()
	}
}

// keepAttached passes on until the stream ends, another of its client takes its place, or this master ceases to lead.
func (x segmentsServer) keepAttached(stream mooncakev1.Segments_AttachServer, s *Service, a *attachment, said <-chan *mooncakev1.AttachRequest) error {
	ctx := stream.Context()
	for {
		var reply mooncakev1.AttachReply
		select {
		case q, open := <-said:
			switch {
			case !open:
				return nil
			case q.GetSum() != nil:
				a.summed(q.GetSum())
				continue
			case q.GetRead() == nil:
				return status.Error(codes.InvalidArgument, "after the hello a daemon only answers what it was asked for")
			case len(q.GetRead().GetData()) > limits.AttachReadBytes:
				return status.Errorf(codes.InvalidArgument, "%d bytes at once, at most %d are asked for", len(q.GetRead().GetData()), limits.AttachReadBytes)
			}
			a.answered(q.GetRead())
			continue
		case <-a.tasks:
			reply.What = &mooncakev1.AttachReply_TasksWait{TasksWait: &mooncakev1.TasksWait{}}
		case q := <-a.reads:
			reply.What = &mooncakev1.AttachReply_Read{Read: q}
		case q := <-a.sums:
			reply.What = &mooncakev1.AttachReply_Sum{Sum: q}
		case <-a.ended:
			return status.Error(codes.Aborted, "another stream of this client is here")
		case <-s.quit:
			if to := x.g.source.leader(context.WithoutCancel(ctx)); to != nil {
				return redirect(to)
			}
			return status.Error(codes.Unavailable, "this master stops")
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
		if err := stream.Send(&reply); err != nil {
			return err
		}
	}
}

// readObject reads a complete copy of an object whose owner keeps a stream.
func (s *Service) readObject(ctx context.Context, r *catalog.Replica, size uint64) ([]byte, error) {
	for _, seg := range s.cat.AllSegments() {
		if seg.ID == r.Segment.ID {
			return s.attached.read(ctx, wireID(seg.Client), r.Segment.Base+r.Offset, size)
		}
	}
	return nil, errNotAttached
}
