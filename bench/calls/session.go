package calls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"mooncake/internal/limits"
	"mooncake/wire"
)

// Config says what a session stands for. Zero values are those of the yardsticks.
type Config struct {
	Address      string // of the master
	Pid          int    // of the master; what it uses is read from /proc
	Segments     int    // 0 is 1
	SegmentBytes uint64 // of each; 0 shares 1 TiB between them
	Owners       int    // clients that the segments belong to; 0 is 1. All puts are those of the first
	KeyBytes     int    // 0 is 40
	ValueBytes   uint64 // 0 is 4096
	Batch        int    // keys of a batch; 0 is 100
	Seed         uint64 // sessions with one master need different ones
}

// Session is what stays the same while one master is measured: clients, segments, keys.
type Session struct {
	cfg      Config
	segments []wire.Segment
	next     atomic.Int64 // number of the next key
	readable atomic.Int64 // keys below can be read

	silent atomic.Bool // no pings
	stop   context.CancelFunc
	ping   *errgroup.Group
}

const defaultPoolBytes = 1 << 40

// Open mounts the segments and begins to ping.
func Open(ctx context.Context, cfg Config) (*Session, error) {
	cfg.Segments, cfg.Owners = cmp.Or(cfg.Segments, 1), cmp.Or(cfg.Owners, 1)
	cfg.SegmentBytes = cmp.Or(cfg.SegmentBytes, defaultPoolBytes/uint64(cfg.Segments))
	cfg.KeyBytes, cfg.ValueBytes, cfg.Batch = cmp.Or(cfg.KeyBytes, 40), cmp.Or(cfg.ValueBytes, 4096), cmp.Or(cfg.Batch, 100)
	s := &Session{cfg: cfg}
	c, err := dial(ctx, cfg.Address)
	if err != nil {
		return nil, err
	}
	defer c.close()
	for i := range cfg.Segments {
		// No endpoint is the same twice, and nobody listens there: nothing is ever sent to a segment.
		name := fmt.Sprintf("127.0.%d.%d:%d", 1+i/250, 1+i%250, 20_000+i)
		segment := wire.Segment{
			ID: wire.UUID{Hi: cfg.Seed<<32 | uint64(i+1), Lo: 0x7961_7264}, Name: name, TeEndpoint: name, Protocol: "tcp",
			Base: 1<<44 + uint64(i)*cfg.SegmentBytes, Size: cfg.SegmentBytes,
		}
		var rep wire.MountSegmentReply
		req := wire.MountSegmentRequest{Segment: segment, ClientID: s.owner(i % cfg.Owners)}
		if err := ask(c, &wire.MountSegment, &req, &rep); err != nil {
			return nil, err
		}
		if rep.Err != 0 {
			return nil, fmt.Errorf("the master does not mount segment %d of %d bytes: %v", i, cfg.SegmentBytes, rep.Err)
		}
		s.segments = append(s.segments, segment)
	}
	// The first ping makes masters ask for the segments once more: that is over before anything is measured.
	for i := range cfg.Owners {
		if err := s.pingOne(c, i); err != nil {
			return nil, err
		}
	}
	pings, stop := context.WithCancel(ctx)
	s.stop = stop
	s.ping, pings = errgroup.WithContext(pings)
	s.ping.Go(func() error { return s.keepAlive(pings) })
	return s, nil
}

// Close ends the pings and tells why they ended before, if they did. The segments stay mounted.
func (s *Session) Close() error {
	s.stop()
	if err := s.ping.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("pinging: %w", err)
	}
	return nil
}

// FallSilent ends the pings: to the master all owners are gone.
func (s *Session) FallSilent() { s.silent.Store(true) }

// Keys is how many objects were written so far.
func (s *Session) Keys() int64 { return s.readable.Load() }

// owner is the id of a client.
func (s *Session) owner(i int) wire.UUID {
	return wire.UUID{Hi: 0x7961_7264_0000_0000 | s.cfg.Seed<<16 | uint64(i), Lo: 0x1234_5678}
}

// keyHead begins the name of every object.
const keyHead = "yard/"

// key is the name of an object.
func (s *Session) key(number int64) string { return string(s.appendKey(nil, number)) }

// appendKey appends the name of an object: the number behind as many zeros as make it long enough.
func (s *Session) appendKey(dst []byte, number int64) []byte {
	var digits [20]byte
	at := len(digits)
	for n := number; n > 0 || at == len(digits); n /= 10 {
		at--
		digits[at] = byte('0' + n%10)
	}
	dst = append(dst, keyHead...)
	const zeros = "00000000000000000000000000000000"
	for more := s.cfg.KeyBytes - len(keyHead) - (len(digits) - at); more > 0; more -= len(zeros) {
		dst = append(dst, zeros[:min(more, len(zeros))]...)
	}
	return append(dst, digits[at:]...)
}

// keepAlive pings for every owner once a second, and gives the segments once more to a master that has forgotten them.
func (s *Session) keepAlive(ctx context.Context) error {
	c, err := dial(ctx, s.cfg.Address)
	if err != nil {
		return err
	}
	defer c.close()
	tick := time.NewTicker(limits.BenchPingMs * time.Millisecond)
	defer tick.Stop()
	for {
		for i := range s.cfg.Owners {
			if s.silent.Load() {
				break
			}
			if err := s.pingOne(c, i); err != nil {
				return cmp.Or(ctx.Err(), err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (s *Session) pingOne(c *conn, owner int) error {
	var rep wire.PingReply
	id := s.owner(owner)
	if err := ask(c, &wire.Ping, &wire.PingRequest{ClientID: id}, &rep); err != nil {
		return err
	}
	if rep.Err != 0 || rep.Value.ClientStatus != wire.ClientStatusNeedRemount {
		return nil // a master that is busy may refuse a ping
	}
	req := wire.ReMountSegmentRequest{ClientID: id}
	for i := owner; i < len(s.segments); i += s.cfg.Owners {
		req.Segments = append(req.Segments, s.segments[i])
	}
	var back wire.ReMountSegmentReply
	if err := ask(c, &wire.ReMountSegment, &req, &back); err != nil {
		return err
	}
	if back.Err != 0 {
		return fmt.Errorf("the master does not take the segments of owner %d back: %v", owner, back.Err)
	}
	return nil
}
