package kvevents

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mooncake/internal/limits"
)

// A Socket is the publishing end of ZeroMQ's protocol, version 3.0, without security: it greets whoever connects, heeds
// subscriptions, and sends everybody everything that he subscribed to. The topic of all messages is empty, so only a
// subscription to all counts.
type Socket struct {
	ln net.Listener

	mu      sync.Mutex
	peers   map[*peer]struct{}
	first   []byte        // what a subscription begins with; nil is nothing
	dropped atomic.Uint64 // messages that a subscriber was too slow for
}

// peer is a connection. Its queue is written to under Socket.mu.
type peer struct {
	c          net.Conn
	queue      chan []byte
	bytes      atomic.Int64 // in the queue
	subscribed int          // how often
}

// Listen opens the socket at an endpoint tcp://HOST:PORT; HOST may be *, and PORT 0 takes any free one.
func Listen(endpoint string) (*Socket, error) {
	address, ok := strings.CutPrefix(endpoint, "tcp://")
	host, port, err := net.SplitHostPort(address)
	if !ok || err != nil {
		return nil, fmt.Errorf("endpoint %q is not tcp://HOST:PORT", endpoint)
	}
	if host == "*" {
		host = "0.0.0.0"
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	return &Socket{ln: ln, peers: map[*peer]struct{}{}}, nil
}

// Addr is where the socket listens.
func (s *Socket) Addr() net.Addr { return s.ln.Addr() }

// Close closes a socket that never ran.
func (s *Socket) Close() error { return s.ln.Close() }

// run serves subscribers until ctx ends, and returns when the last is gone.
func (s *Socket) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = s.ln.Close() })()
	for {
		c, err := s.ln.Accept()
		switch {
		case ctx.Err() != nil:
			if c != nil {
				_ = c.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // no more descriptors, perhaps: that passes
			select {
			case <-time.After(limits.EventsAcceptPauseMs * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		p := &peer{c: c, queue: make(chan []byte, limits.EventsSubscriberQueue)}
		if !s.add(p) {
			_ = c.Close()
			continue
		}
		wg.Go(func() { s.serve(ctx, p) })
	}
}

func (s *Socket) add(p *peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.peers) >= limits.EventsSubscribers {
		return false
	}
	s.peers[p] = struct{}{}
	return true
}

// serve greets one peer, then writes what it subscribed to until it leaves.
func (s *Socket) serve(ctx context.Context, p *peer) {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { _ = p.c.Close() })()
	defer func() {
		s.mu.Lock()
		delete(s.peers, p)
		s.mu.Unlock()
	}()
	defer cancel()
	in := bufio.NewReader(p.c)
	if greet(p.c, in) != nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel()
		for s.heed(p, in) == nil {
		}
	}()
	s.write(ctx, p)
	cancel()
	_ = p.c.Close()
	<-ended
}

func (s *Socket) write(ctx context.Context, p *peer) {
	for {
		select {
		case <-ctx.Done():
			return
		case message := <-p.queue:
			p.bytes.Add(-int64(len(message)))
			if p.c.SetWriteDeadline(time.Now().Add(limits.EventsWriteMs*time.Millisecond)) != nil {
				return
			}
			if _, err := p.c.Write(message); err != nil {
				return
			}
		}
	}
}

// send gives everybody a message, or leaves it out for who is too slow. A subscription from now on begins with first.
func (s *Socket) send(message, first []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = first
	for p := range s.peers {
		if p.subscribed > 0 {
			s.offer(p, message)
		}
	}
}

// hush lets subscriptions begin with nothing from now on.
func (s *Socket) hush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = nil
}

func (s *Socket) offer(p *peer, message []byte) {
	if p.bytes.Load() > limits.EventsSubscriberBytes {
		s.dropped.Add(1)
		return
	}
	select {
	case p.queue <- message:
		p.bytes.Add(int64(len(message)))
	default:
		s.dropped.Add(1)
	}
}

// Flags of a frame, and the two commands that a subscriber may send instead of a message.
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

// greeting is what both sides send first: the signature, version 3.0, and no security.
var greeting = func() (g [64]byte) {
	g[0], g[9], g[10] = 0xff, 0x7f, 3
	copy(g[12:], "NULL")
	return g
}()

// greet exchanges greetings and properties with a peer.
func greet(c net.Conn, in *bufio.Reader) error {
	if err := c.SetDeadline(time.Now().Add(limits.EventsGreetingMs * time.Millisecond)); err != nil {
		return err
	}
	ready := "\x05READY" + property("Socket-Type", "PUB") + property("Identity", "")
	if _, err := c.Write(append(append(greeting[:len(greeting):len(greeting)], flagCommand, byte(len(ready))), ready...)); err != nil {
		return err
	}
	var theirs [64]byte
	if _, err := io.ReadFull(in, theirs[:]); err != nil {
		return err
	}
	if theirs[0] != 0xff || theirs[9]&1 == 0 || theirs[10] < 3 || string(theirs[12:17]) != "NULL\x00" {
		return errors.New("a greeting of another protocol, or with security")
	}
	flags, body, err := readFrame(in)
	switch {
	case err != nil:
		return err
	case flags&flagCommand == 0 || !strings.HasPrefix(string(body), "\x05READY"):
		return errors.New("no READY after the greeting")
	case !strings.Contains(string(body), property("Socket-Type", "SUB")) && !strings.Contains(string(body), property("Socket-Type", "XSUB")):
		return errors.New("not a subscriber")
	}
	return c.SetDeadline(time.Time{})
}

func property(name, value string) string {
	return string(append(append([]byte{byte(len(name))}, name...), append(binary.BigEndian.AppendUint32(nil, uint32(len(value))), value...)...))
}

// readFrame reads a frame of bounded length.
func readFrame(in *bufio.Reader) (flags byte, body []byte, err error) {
	if flags, err = in.ReadByte(); err != nil {
		return 0, nil, err
	}
	size := uint64(0)
	if flags&flagLong == 0 {
		b, err := in.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		size = uint64(b)
	} else {
		var long [8]byte
		if _, err := io.ReadFull(in, long[:]); err != nil {
			return 0, nil, err
		}
		size = binary.BigEndian.Uint64(long[:])
	}
	if size > limits.EventsFrameBytes {
		return 0, nil, fmt.Errorf("a frame of %d bytes", size)
	}
	body = make([]byte, size)
	_, err = io.ReadFull(in, body)
	return flags, body, err
}

// heed reads one frame of a peer and does what it asks for.
func (s *Socket) heed(p *peer, in *bufio.Reader) error {
	flags, body, err := readFrame(in)
	if err != nil {
		return err
	}
	text := string(body)
	switch {
	case flags&flagCommand == 0 && text == "\x01", flags&flagCommand != 0 && text == "\x09SUBSCRIBE":
		s.subscribe(p)
	case flags&flagCommand == 0 && text == "\x00", flags&flagCommand != 0 && text == "\x06CANCEL":
		s.mu.Lock()
		p.subscribed = max(p.subscribed-1, 0)
		s.mu.Unlock()
	}
	return nil // other topics, and commands of later versions, mean nothing here
}

func (s *Socket) subscribe(p *peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.subscribed++; p.subscribed == 1 && s.first != nil {
		s.offer(p, s.first)
	}
}

// frames writes the three frames of a message.
func frames(number uint64, payload []byte) []byte {
	out := make([]byte, 0, len(payload)+32)
	out = append(out, flagMore, 0, flagMore, 8)
	out = binary.BigEndian.AppendUint64(out, number)
	if len(payload) < 256 {
		out = append(out, 0, byte(len(payload)))
	} else {
		out = binary.BigEndian.AppendUint64(append(out, flagLong), uint64(len(payload)))
	}
	return append(out, payload...)
}
