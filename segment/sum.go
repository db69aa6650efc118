package segment

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/descriptor"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// stream is the daemon's side of a stream to the master: several goroutines answer on it.
type stream struct {
	mooncakev1.Segments_AttachClient
	sending sync.Mutex
}

func (s *stream) answer(r *mooncakev1.AttachRequest) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.Send(r)
}

func (s *stream) answerSums(r *mooncakev1.SumReply) error {
	return s.answer(&mooncakev1.AttachRequest{What: &mooncakev1.AttachRequest_Sum{Sum: r}})
}

// findSums answers requests for sums, one after the other, until ctx ends.
func (d *Daemon) findSums(ctx context.Context, s *stream, requests <-chan *mooncakev1.SumRequest) {
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-requests:
			reply := &mooncakev1.SumReply{Number: q.GetNumber()}
			sums, err := d.sumsOf(ctx, q.GetRanges())
			if err != nil {
				reply.Failure = err.Error()
			} else {
				reply.Sums = sums
			}
			if s.answerSums(reply) != nil {
				return // the stream has ended, and whoever receives on it learns why
			}
		}
	}
}

var errSumsBusy = errors.New("sums are asked for one request at a time")

// sumsOf finds the sums of ranges of our memory. Somebody may be writing there: the master knows what it asked for.
func (d *Daemon) sumsOf(ctx context.Context, ranges []*mooncakev1.SumRange) ([]uint32, error) {
	if len(ranges) > limits.SumRanges {
		return nil, fmt.Errorf("%d ranges, at most %d are allowed", len(ranges), limits.SumRanges)
	}
	total := uint64(0)
	for _, r := range ranges {
		if r.GetSize() > limits.SumPieceBytes-total {
			return nil, fmt.Errorf("the range %#x + %d is more than %d bytes with those before it", r.GetAddress(), r.GetSize(), limits.SumPieceBytes)
		}
		total += r.GetSize()
	}
	sums := make([]uint32, len(ranges))
	for i, r := range ranges {
		sum, err := d.sumOf(ctx, r)
		if err != nil {
			return nil, err
		}
		sums[i] = sum
	}
	return sums, nil
}

func (d *Daemon) sumOf(ctx context.Context, r *mooncakev1.SumRange) (uint32, error) {
	bytes, done := d.held(r.GetAddress(), r.GetSize())
	if bytes == nil {
		return 0, fmt.Errorf("the range %#x + %d is not within the segment", r.GetAddress(), r.GetSize())
	}
	defer done()
	return d.sumBytes(ctx, bytes, r.GetBefore())
}

// sumBytes goes through bytes in slices. While peers are served it rests as long as it works: it takes half a processor from
// them at most, and half of what one processor can read.
func (d *Daemon) sumBytes(ctx context.Context, bytes []byte, sum uint32) (uint32, error) {
	served := d.served()
	for len(bytes) > 0 {
		n := min(len(bytes), limits.SumSliceBytes)
		began := time.Now()
		sum = crc32.Update(sum, castagnoli, bytes[:n])
		bytes = bytes[n:]
		d.count.sumBytes.Add(uint64(n))
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if now := d.served(); len(bytes) > 0 && now != served {
			served = now
			sleep(ctx, time.Since(began))
		}
	}
	return sum, nil
}

// served grows whenever peers read or write.
func (d *Daemon) served() uint64 {
	st := d.data.Stats()
	return st.ReadBytes + st.WriteBytes + st.Reads + st.Writes
}

// welcomed notes what the master said at the beginning of a stream.
func (d *Daemon) welcomed(w *mooncakev1.Welcome, conn *grpc.ClientConn, address string) {
	d.attachments.Add(1)
	if w.GetSums() {
		d.keeper.Store(conn)
	}
	d.log.Info("attached to the master", zap.String("address", address), zap.Bool("checksums", w.GetSums()))
}

// verify compares both ends of a copy with the sum of the object, if the master keeps sums: the bytes that lie here, and what
// each target gives back. Where no sum is known yet the targets are compared with the source.
func (d *Daemon) verify(ctx context.Context, t *transfer, source *wire.ReplicaDescriptor, targets []wire.ReplicaDescriptor) error {
	conn := d.keeper.Load()
	if conn == nil || len(targets) == 0 {
		return nil
	}
	from, err := memoryOf(source)
	if err != nil {
		return err
	}
	bytes, done, err := d.ownBytes(from)
	if err != nil {
		return err
	}
	own, err := d.sumBytes(ctx, bytes, 0)
	done()
	if err != nil {
		return err
	}
	if sum, known := d.knownSum(ctx, conn, t, source.ID); known && sum != own {
		d.count.copiesWrong.Add(1)
		d.reportWrong(ctx, conn, t, source.ID)
		return fmt.Errorf("the source has the sum %08x, its object %08x: it is not copied", own, sum)
	}
	for i := range targets {
		if err := d.verifyTarget(ctx, &targets[i], own); err != nil {
			return err
		}
	}
	return nil
}

// verifyTarget reads a copy back.
func (d *Daemon) verifyTarget(ctx context.Context, target *wire.ReplicaDescriptor, want uint32) error {
	to, err := memoryOf(target)
	if err != nil {
		return err
	}
	sum, read, err := d.peers.sum(ctx, to.TransportEndpoint, to.BufferAddress, to.Size)
	switch {
	case err != nil:
		return fmt.Errorf("cannot read the copy at %s back: %w", to.TransportEndpoint, err)
	case !read:
		d.count.copiesUnread.Add(1)
	case sum != want:
		d.count.copiesWrong.Add(1)
		return fmt.Errorf("the copy at %s has the sum %08x, its source %08x", to.TransportEndpoint, sum, want)
	default:
		d.count.copiesVerified.Add(1)
	}
	return nil
}

// knownSum asks the master for the sum of an object, as long as it has the copy.
func (d *Daemon) knownSum(ctx context.Context, conn *grpc.ClientConn, t *transfer, replica uint64) (sum uint32, known bool) {
	ctx, cancel := context.WithTimeout(ctx, limits.AttachReadMs*time.Millisecond)
	defer cancel()
	ctx, err := d.cfg.MasterGRPC.shown(ctx)
	if err != nil {
		return 0, false
	}
	reply, err := mooncakev1.NewObjectsClient(conn).Placements(ctx, &mooncakev1.PlacementsRequest{Tenant: t.tenant, Keys: []string{t.key}, Peek: true})
	if err != nil || len(reply.GetResults()) != 1 || reply.GetResults()[0].Crc32C == nil {
		return 0, false
	}
	for _, p := range reply.GetResults()[0].GetPlacements() {
		if p.GetReplicaId() == replica {
			return reply.GetResults()[0].GetCrc32C(), true
		}
	}
	return 0, false
}

// reportWrong tells the master of a copy that is to be looked at. Whether that succeeds does not matter: the copy fails.
func (d *Daemon) reportWrong(ctx context.Context, conn *grpc.ClientConn, t *transfer, replica uint64) {
	ctx, cancel := context.WithTimeout(ctx, limits.AttachReadMs*time.Millisecond)
	defer cancel()
	ctx, err := d.cfg.MasterGRPC.shown(ctx)
	if err != nil {
		return
	}
	wrong := []*mooncakev1.WrongCopy{{Tenant: t.tenant, Key: t.key, ReplicaId: replica}}
	if _, err := mooncakev1.NewSegmentsClient(conn).Report(ctx, &mooncakev1.ReportRequest{Wrong: wrong}); err != nil {
		d.log.Warn("the master was not told of a copy with the wrong sum", zap.Uint64("copy", replica), zap.Error(err))
	}
}

// sum reads bytes of another segment over tcp and gives their sum. read is false where the peer does not serve tcp.
func (p *peers) sum(ctx context.Context, endpoint string, addr, size uint64) (sum uint32, read bool, err error) {
	target, err := p.asTCP.Lookup(ctx, endpoint)
	if err != nil {
		return 0, false, err
	}
	if target.Segment.Protocol != descriptor.ProtocolTCP {
		return 0, false, nil
	}
	buffer := make([]byte, min(size, limits.SumSliceBytes))
	for size > 0 {
		n := min(size, uint64(len(buffer)))
		if err := p.tcp.Read(ctx, target, addr, buffer[:n]); err != nil {
			return 0, true, err
		}
		sum = crc32.Update(sum, castagnoli, buffer[:n])
		addr, size = addr+n, size-n
	}
	return sum, true, nil
}
