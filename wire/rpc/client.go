package rpc

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"mooncake/internal/limits"
	"mooncake/internal/rawconn"
)

// ClientConfig bounds a client. The zero value is what a daemon wants.
type ClientConfig struct {
	// Std moves bytes through net.Conn only instead of raw system calls (--io=std).
	Std bool
	// DialTimeout bounds Dial besides its context. 0 means limits.RPCDialMs.
	DialTimeout time.Duration
	// FrameBytesMax is the largest body plus attachment of a reply. 0 means limits.RPCReplyFrameBytes.
	FrameBytesMax int64
	// StallTimeout is how long the server may take no byte of a request. 0 means limits.RPCStallMs.
	StallTimeout time.Duration
}

// Client is one connection to a server. Its methods may be called from any number of goroutines; their calls share the
// connection without waiting for one another.
type Client struct {
	raw   *rawconn.Conn
	in    inbox
	out   output
	sent  atomic.Uint64
	slots chan struct{} // one per unanswered call
	done  chan struct{} // the reader has ended

	mu      sync.Mutex
	waiting map[uint32]chan reply // nil: the caller has given up, the reply is to be dropped
	nextSeq uint32
	err     error // why the connection ended
}

type reply struct {
	code uint8
	body []byte
	err  error
}

// Dial connects to addr (host:port).
func Dial(ctx context.Context, addr string, cfg ClientConfig) (*Client, error) {
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = limits.RPCDialMs * time.Millisecond
	}
	if cfg.FrameBytesMax <= 0 {
		cfg.FrameBytesMax = limits.RPCReplyFrameBytes
	}
	if cfg.StallTimeout <= 0 {
		cfg.StallTimeout = limits.RPCStallMs * time.Millisecond
	}
	dialer := net.Dialer{Timeout: cfg.DialTimeout}
	nc, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	raw, err := rawconn.New(nc.(*net.TCPConn), cfg.Std)
	if err != nil {
		nc.Close()
		return nil, err
	}
	c := &Client{
		raw:     raw,
		in:      inbox{limit: cfg.FrameBytesMax},
		slots:   make(chan struct{}, limits.RPCClientCalls),
		done:    make(chan struct{}),
		waiting: map[uint32]chan reply{},
	}
	// What waits to be sent is bounded by the slots.
	c.out = output{raw: raw, requests: true, stall: cfg.StallTimeout, limit: math.MaxInt, sent: &c.sent}
	c.out.idle.L = &c.out.mu
	go c.read() // Close ends it and waits
	return c, nil
}

// Call sends one request and waits for its reply, for the end of ctx or for the end of the connection. A code other than
// CodeOK is no error of Call; ErrorText reads such a reply. The reply belongs to the caller. A call that was given up
// keeps its place among the unanswered until its reply comes.
func (c *Client) Call(ctx context.Context, functionID uint32, body []byte) (code uint8, replyBody []byte, err error) {
	if int64(len(body)) > math.MaxUint32 {
		return 0, nil, fmt.Errorf("request of %d bytes: %w", len(body), ErrFrameTooLarge)
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	case <-c.done:
		return 0, nil, c.reason()
	}
	answer := make(chan reply, 1)
	seq, err := c.register(answer)
	if err != nil {
		<-c.slots
		return 0, nil, err
	}
	if c.out.post(frame{seq: seq, functionID: functionID, body: body}) != nil {
		<-c.done // the reader wakes up and tells every waiting call
	}
	select {
	case r := <-answer:
		return r.code, r.body, r.err
	case <-ctx.Done():
		c.giveUp(seq)
		return 0, nil, ctx.Err()
	}
}

// Closed is closed when the connection has ended, for whatever reason.
func (c *Client) Closed() <-chan struct{} { return c.done }

// RemoteAddr is the server's address.
func (c *Client) RemoteAddr() netip.AddrPort { return c.raw.RemoteAddr() }

// Close ends the connection. Calls in progress fail with ErrClosed. It returns when nothing of the client runs any more.
func (c *Client) Close() error {
	c.fail(ErrClosed)
	_ = c.out.close() // its reason was told to the callers
	<-c.done
	return nil
}

// register numbers a call. Numbers of calls that wait since four billion calls are passed over.
func (c *Client) register(answer chan reply) (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	for {
		seq := c.nextSeq
		c.nextSeq++
		if _, taken := c.waiting[seq]; !taken {
			c.waiting[seq] = answer
			return seq, nil
		}
	}
}

// giveUp lets the reply of seq be dropped when it comes.
func (c *Client) giveUp(seq uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.waiting[seq]; ok {
		c.waiting[seq] = nil
	}
}

func (c *Client) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail ends the connection and tells every call that waits. Only the first reason counts.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.raw.Close()
	for seq, answer := range c.waiting {
		if answer != nil {
			answer <- reply{err: c.err}
		}
		delete(c.waiting, seq)
	}
}

// read delivers replies until the connection ends.
func (c *Client) read() {
	defer close(c.done)
	err := c.readReplies()
	if own := c.out.close(); own != nil {
		err = own
	}
	c.fail(err)
}

func (c *Client) readReplies() error {
	for {
		n, err := c.raw.Read(c.in.space())
		if err != nil {
			return fmt.Errorf("server %v: %w", c.raw.RemoteAddr(), err)
		}
		c.in.filled(n)
		for {
			f, ok, err := c.in.next()
			if err != nil {
				return fmt.Errorf("server %v: %w", c.raw.RemoteAddr(), err)
			}
			if !ok {
				break
			}
			if err := c.deliver(f); err != nil {
				return fmt.Errorf("server %v: %w", c.raw.RemoteAddr(), err)
			}
		}
		if err := c.in.settle(); err != nil {
			return err
		}
	}
}

// deliver hands one reply to its call.
func (c *Client) deliver(f frame) error {
	c.mu.Lock()
	answer, known := c.waiting[f.seq]
	delete(c.waiting, f.seq)
	c.mu.Unlock()
	if !known {
		return errSequence
	}
	if answer != nil {
		answer <- reply{code: f.code, body: bytes.Clone(f.body)}
	}
	<-c.slots
	return nil
}
