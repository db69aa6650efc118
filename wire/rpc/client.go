package rpc

import (
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
// connection without waiting for one another. See reading.go for who reads their replies.
type Client struct {
	raw   *rawconn.Conn
	in    inbox // belongs to whoever reads
	out   output
	sent  atomic.Uint64
	slots chan struct{} // one per unanswered call
	done  chan struct{} // the connection has ended, and nobody reads

	mu          sync.Mutex
	waiting     map[uint32]*call // nil: the caller has given up, the reply is to be dropped
	nextSeq     uint32
	err         error // why the connection ended
	reading     bool  // somebody reads
	reader      *call // who that is; nil: nobody, or a goroutine of the client's own
	interrupted bool  // the read deadline is past, because the reader's caller gives up
	rest        *time.Timer
	resting     bool   // rest is running
	restSeq     uint32 // nextSeq when it began
}

// call is one that has no answer yet.
type call struct {
	word  chan reply // what others tell it: that it reads from now on, and its answer; nil while it reads from its start on
	reply *reply     // the answer, if it has read that itself
}

type reply struct {
	code  uint8
	body  []byte
	err   error
	reads bool // no answer: who gets this reads from now on
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
		waiting: map[uint32]*call{},
	}
	// What waits to be sent is bounded by the slots.
	c.out = output{raw: raw, requests: true, stall: cfg.StallTimeout, limit: math.MaxInt, sent: &c.sent}
	c.out.idle.L = &c.out.mu
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restLocked()
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
	seq, own, reads, err := c.register()
	if err != nil {
		<-c.slots
		return 0, nil, err
	}
	// If it fails the connection has ended, which whoever reads finds out and tells every call that waits.
	_ = c.out.post(frame{seq: seq, functionID: functionID, body: body})
	if reads {
		return c.readOwn(ctx, seq, own)
	}
	select {
	case r := <-own.word:
		if r.reads {
			return c.readOwn(ctx, seq, own)
		}
		return r.code, r.body, r.err
	case <-ctx.Done():
		c.giveUp(seq, own)
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

// register numbers a call, and lets it read if nobody does. Numbers of calls that wait since four billion calls are passed over.
func (c *Client) register() (seq uint32, own *call, reads bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, nil, false, c.err
	}
	own = &call{}
	if reads = !c.reading; reads {
		c.reading, c.reader = true, own
	} else {
		own.word = make(chan reply, callWords)
	}
	for {
		seq = c.nextSeq
		c.nextSeq++
		if _, taken := c.waiting[seq]; !taken {
			c.waiting[seq] = own
			return seq, own, reads, nil
		}
	}
}

// callWords is how much a call can be told before it listens: that it reads, and its answer.
const callWords = 2

// giveUp lets the reply of seq be dropped when it comes. A call that was just told to read tells another one.
func (c *Client) giveUp(seq uint32, own *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.waiting[seq]; ok {
		c.waiting[seq] = nil
	}
	if c.reader == own {
		c.handOverLocked()
	}
}

func (c *Client) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail ends the connection and tells every call that waits. Only the first reason counts. Whoever reads finds it out.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		c.rest.Stop()
	}
	c.raw.Close()
	for seq, other := range c.waiting {
		if other != nil && other != c.reader {
			other.word <- reply{err: c.err}
		}
		delete(c.waiting, seq)
	}
	if !c.reading {
		c.endLocked()
	}
}

// endLocked says that the connection has ended and that nobody reads.
func (c *Client) endLocked() {
	select {
	case <-c.done:
	default:
		close(c.done)
	}
}
