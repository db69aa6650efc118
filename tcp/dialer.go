package tcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mooncake/descriptor"
	"mooncake/internal/hostport"
	"mooncake/internal/limits"
)

// DialerConfig says how an initiator reaches holders.
type DialerConfig struct {
	// Options are the knobs of the sockets.
	Options Options
	// Lanes bounds the connections to one holder, each serving one request at a time. 0 means limits.DialerLanes.
	Lanes int
	// Connect bounds a connection attempt. 0 means limits.DialerConnectMs.
	Connect time.Duration
	// Progress bounds how long a request may stand still. 0 means limits.DialerProgressMs.
	Progress time.Duration
	// Idle is how long an unused connection is kept. 0 means limits.DialerIdleMs.
	Idle time.Duration
}

// Dialer reads and writes the memory of holders, over a bounded pool of connections to each. It is safe for concurrent
// use and starts no goroutine of its own.
type Dialer struct {
	cfg   DialerConfig
	stats dialerCounters
	whole atomic.Bool // the connection made last has room for whole bodies

	mu     sync.Mutex
	peers  map[dataAddress]*peer
	swept  time.Time // when idle connections were last looked over
	closed bool
}

// NewDialer makes an initiator without connections.
func NewDialer(cfg DialerConfig) *Dialer {
	cfg.Lanes = cmp.Or(cfg.Lanes, limits.DialerLanes)
	cfg.Connect = cmp.Or(cfg.Connect, limits.DialerConnectMs*time.Millisecond)
	cfg.Progress = cmp.Or(cfg.Progress, limits.DialerProgressMs*time.Millisecond)
	cfg.Idle = cmp.Or(cfg.Idle, limits.DialerIdleMs*time.Millisecond)
	return &Dialer{cfg: cfg, peers: map[dataAddress]*peer{}, swept: time.Now()}
}

// Read fills buf with the holder's bytes from addr on. After an error the content of buf is undefined.
func (d *Dialer) Read(ctx context.Context, target *descriptor.Target, addr uint64, buf []byte) error {
	return d.run(ctx, target, transfer{request: request{op: opRead, addr: addr, size: uint64(len(buf))}, body: buf})
}

// Write puts data into the holder's memory from addr on. When it returns nil the bytes are there, in either framing.
// After an error any part of them may be.
func (d *Dialer) Write(ctx context.Context, target *descriptor.Target, addr uint64, data []byte) error {
	return d.run(ctx, target, transfer{request: request{op: opWrite, addr: addr, size: uint64(len(data))}, body: data})
}

// TakesWhole tells whether a body of so many bytes is likely to go into a send buffer whole, see Options.SndbufWholeBytes.
func (d *Dialer) TakesWhole(body int) bool {
	return body <= d.cfg.Options.SndbufWholeBytes && d.whole.Load() && apart.Load() == 0
}

// Close closes all idle connections. Requests in progress go on, and close theirs when they end.
func (d *Dialer) Close() error {
	d.mu.Lock()
	d.closed = true
	peers := d.peers
	d.peers = map[dataAddress]*peer{}
	d.mu.Unlock()
	for _, p := range peers {
		p.close()
	}
	return nil
}

// dataAddress is where a holder listens for data.
type dataAddress struct {
	host string
	port uint16
}

func (a dataAddress) String() string { return hostport.Join(a.host, int(a.port)) }

// transfer is one request with its body.
type transfer struct {
	request
	body []byte
}

func (t transfer) describe(address dataAddress, err error) error {
	verb := "read"
	if t.op == opWrite {
		verb = "write"
	}
	return fmt.Errorf("%s of %d bytes at %#x, %s: %w", verb, t.size, t.addr, address, err)
}

// run carries out one transfer. Sizes of 0 are complete at once, as for the original's initiator.
func (d *Dialer) run(ctx context.Context, target *descriptor.Target, t transfer) error {
	segment := target.Segment
	if segment.Protocol != descriptor.ProtocolTCP || segment.TCPDataPort == 0 || target.DataHost == "" {
		return fmt.Errorf("segment %q is not reachable over tcp (protocol %q, port %d)",
			segment.Name, segment.Protocol, segment.TCPDataPort)
	}
	if t.size == 0 {
		return nil
	}
	t.acknowledged = segment.TCPProtoVersion >= descriptor.TCPAcknowledged
	address := dataAddress{host: target.DataHost, port: segment.TCPDataPort}
	p, err := d.peer(address)
	if err != nil {
		return err
	}
	if err := d.runOn(ctx, p, t); err != nil {
		d.stats.failed.Add(1)
		return t.describe(address, err)
	}
	return nil
}

// runOn uses a kept connection if there is one and a fresh one otherwise. A kept one that fails takes all its siblings
// along, since they are as old as it, and the request gets one more try on a fresh connection: reading again and writing
// the same bytes again does no harm.
func (d *Dialer) runOn(ctx context.Context, p *peer, t transfer) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer p.leave()
	if l := p.take(time.Now()); l != nil {
		err := l.run(ctx, t)
		if err == nil {
			p.give(l, time.Now())
			return nil
		}
		l.close()
		if ctx.Err() != nil || !isStale(err) {
			return err
		}
		p.purge()
		d.stats.retried.Add(1)
	}
	l, err := d.dial(ctx, p.address)
	if err != nil {
		return err
	}
	if err := l.run(ctx, t); err != nil {
		l.close()
		return err
	}
	p.give(l, time.Now())
	return nil
}

// isStale tells a connection that died while it was kept from an answer, and from a holder that is too slow.
func isStale(err error) bool {
	var timeout net.Error
	switch {
	case errors.Is(err, ErrRefused), errors.Is(err, ErrProtocol):
		return false
	case errors.As(err, &timeout) && timeout.Timeout():
		return false
	}
	return true
}

func (d *Dialer) dial(ctx context.Context, address dataAddress) (*lane, error) {
	dialer := net.Dialer{
		Timeout: d.cfg.Connect,
		Control: func(_, _ string, raw syscall.RawConn) error {
			var tuning error
			if err := raw.Control(func(fd uintptr) { tuning = d.cfg.Options.tuneSocket(fd) }); err != nil {
				return err
			}
			return tuning
		},
	}
	conn, err := dialer.DialContext(ctx, "tcp", address.String())
	if err != nil {
		return nil, err
	}
	d.stats.dialed.Add(1)
	stream, err := newStream(conn.(*net.TCPConn), d.cfg.Options, d.cfg.Progress)
	if err != nil {
		conn.Close()
		return nil, err
	}
	l := &lane{stream: stream, wholes: d.cfg.Options.newWholes(stream.conn.TCP())}
	d.whole.Store(l.wholes.most > 0)
	return l, nil
}
