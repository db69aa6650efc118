package rpc

import (
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"mooncake/internal/access"
	"mooncake/internal/limits"
	"mooncake/internal/rawconn"
)

// Conn is one connection of a Server.
type Conn struct {
	// Tag is the Handler's own. The server neither reads nor writes it.
	Tag any

	srv    *Server
	peer   *access.Peer
	id     uint64
	raw    *rawconn.Conn
	remote netip.AddrPort
	local  netip.AddrPort
	cause  error

	in  inbox
	out []byte // replies of the present wake
	rep output

	parked     atomic.Int64 // requests whose reply is still to come; far below 0 once nobody waits for them
	stopping   atomic.Bool
	halfFrame  bool      // the read deadline is that of a half frame
	idleArmed  bool      // the read deadline is that of idleness
	lastActive time.Time // kept only with an idle timeout
	handedOver bool      // somebody else answers from here on
}

// ID numbers the connections of a server from 1.
func (c *Conn) ID() uint64 { return c.id }

// RemoteAddr is the peer's address.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// LocalAddr is the address the peer connected to, which tells the listener.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// Close ends the connection. It waits for nothing; Handler.Closed follows on the connection's goroutine.
func (c *Conn) Close() { c.rep.abort() }

// Cause is why the connection ended: io.EOF or an error of the socket when the peer left, else one of this package's
// errors. Meant for Handler.Closed; before that it is nil.
func (c *Conn) Cause() error { return c.cause }

// Reply answers a parked request. It may be called from any goroutine, also before Serve has returned, and never waits
// for the peer. An error means that the connection is gone or, with ErrSlowReader, that this call ended it.
func (c *Conn) Reply(seq uint32, code uint8, body []byte) error {
	c.endCall()
	if int64(len(body)) > math.MaxUint32 {
		code, body = CodeMessageTooLarge, AppendErrorText(nil, textTooLarge)
	}
	return c.rep.post(frame{seq: seq, code: code, body: body})
}

// Texts of replies that the handler does not make.
const (
	textTooLarge     = "message too large"
	textTooManyCalls = "too many calls of this address are unanswered"
)

// run serves the connection until it ends. The caller accounts for it.
func (c *Conn) run() {
	c.srv.handler.Opened(c)
	err := c.loop()
	if c.handedOver = c.mayHandOver(err); c.handedOver {
		c.cause = ErrClosed
		c.srv.counters.ended(ErrClosed)
		c.srv.handler.Closed(c)
		return
	}
	if own := c.rep.close(); own != nil {
		err = own
	}
	c.cause = err
	c.srv.counters.ended(err)
	c.srv.handler.Closed(c)
}

// mayHandOver tells whether the connection ends between two requests, with nothing owed to the peer, and gives its socket
// up if so.
func (c *Conn) mayHandOver(err error) bool {
	return errors.Is(err, ErrClosed) && c.srv.cfg.HandOver != nil && c.stopping.Load() && c.in.skip == 0 && c.parked.Load() == 0 &&
		c.rep.release() && c.raw.SetReadDeadline(time.Time{}) == nil
}

func (c *Conn) loop() error {
	if err := c.watch(false); err != nil {
		return err
	}
	for !c.stopping.Load() {
		n, err := c.raw.Read(c.in.space())
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = c.expired()
			}
			if err != nil {
				return err
			}
			continue
		}
		c.srv.counters.bytesIn.Add(uint64(n))
		c.in.filled(n)
		frames, err := c.handle()
		c.srv.counters.frames.Add(uint64(frames))
		if flushErr := c.flush(); err == nil {
			err = flushErr
		}
		if err != nil {
			return err
		}
		if err := c.in.settle(); err != nil {
			return err
		}
		if err := c.watch(frames > 0); err != nil {
			return err
		}
	}
	return ErrClosed
}

// handle serves all whole frames of the buffer and collects their replies.
func (c *Conn) handle() (frames int, err error) {
	for {
		f, ok, err := c.in.next()
		if err != nil || !ok {
			return frames, err
		}
		frames++
		c.serve(f)
		if len(c.out) >= limits.RPCFlushBytes {
			if err := c.flush(); err != nil {
				return frames, err
			}
		}
	}
}

// serve answers one request into the output buffer. The header goes in first and is completed when the length is known.
func (c *Conn) serve(f frame) {
	at := len(c.out)
	c.out = appendReplyHeader(c.out, f.seq, CodeOK, 0)
	bodyAt := len(c.out)
	c.parked.Add(1) // before Serve: the reply may come while it runs
	if !c.peer.Begin(c.srv.cfg.PeerCallsMax) {
		c.endCall()
		c.srv.counters.callsRefused.Add(1)
		c.out = AppendErrorText(c.out, textTooManyCalls)
		c.finish(at, CodeException)
		return
	}
	out, code, parked := c.srv.handler.Serve(c, Request{Seq: f.seq, FunctionID: f.functionID, Body: f.body}, c.out)
	if parked {
		c.out = c.out[:at]
		return
	}
	c.endCall()
	if len(out) < bodyAt {
		out = c.out // a handler that returned nothing has nothing to say
	}
	if int64(len(out)-bodyAt) > math.MaxUint32 {
		code, out = CodeMessageTooLarge, AppendErrorText(out[:bodyAt], textTooLarge)
	}
	c.out = out
	c.finish(at, code)
}

// finish completes the header of the reply that begins at a place of the output buffer and ends with it.
func (c *Conn) finish(at int, code uint8) {
	c.out[at+2] = code
	binary.LittleEndian.PutUint32(c.out[at+8:], uint32(len(c.out)-at-replyHeaderBytes))
}

// endCall counts a call as answered, unless the connection has given all of them up.
func (c *Conn) endCall() {
	if c.parked.Add(-1) >= 0 {
		c.peer.End(1)
	}
}

// giveUpCalls counts the calls that nobody will wait for as answered.
func (c *Conn) giveUpCalls() {
	if n := c.parked.Swap(math.MinInt64 / 2); n > 0 {
		c.peer.End(n)
	}
}

func (c *Conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	if s := c.srv.settler; s != nil {
		if err := s.Settle(c); err != nil {
			c.out = c.out[:0]
			return err
		}
	}
	err := c.rep.flush(c.out)
	if cap(c.out) > limits.RPCKeepBytes {
		c.out = nil
	}
	c.out = c.out[:0]
	return err
}

// watch sets the read deadline for the next wait: of a half frame, of idleness, or none. A half frame that follows a
// whole one is a new one.
func (c *Conn) watch(progress bool) error {
	cfg := &c.srv.cfg
	if cfg.IdleTimeout > 0 {
		c.lastActive = time.Now()
	}
	if c.in.partial() {
		if c.halfFrame && !progress {
			return nil
		}
		c.halfFrame, c.idleArmed = true, false
		return c.raw.SetReadDeadline(time.Now().Add(cfg.HalfFrameTimeout))
	}
	if cfg.IdleTimeout > 0 && !c.idleArmed {
		c.halfFrame, c.idleArmed = false, true
		return c.raw.SetReadDeadline(c.lastActive.Add(cfg.IdleTimeout))
	}
	if c.halfFrame {
		c.halfFrame = false
		return c.raw.SetReadDeadline(time.Time{})
	}
	return nil
}

// expired decides what a passed read deadline means; nil is go on. The deadline of idleness is not moved by each
// request, but looked at again when it passes.
func (c *Conn) expired() error {
	idle := c.srv.cfg.IdleTimeout
	switch {
	case c.stopping.Load():
		return ErrClosed
	case c.halfFrame:
		return ErrHalfFrame
	case idle <= 0:
		return c.raw.SetReadDeadline(time.Time{})
	}
	now := time.Now()
	if c.parked.Load() > 0 {
		c.lastActive = now // it waits for us
	}
	if now.Sub(c.lastActive) >= idle {
		return ErrIdle
	}
	return c.raw.SetReadDeadline(c.lastActive.Add(idle))
}

// stop ends the connection after the requests it is serving now. The past deadline wakes it if it waits; should it be
// about to set another deadline, it looks at stopping before it waits.
func (c *Conn) stop() {
	c.stopping.Store(true)
	_ = c.raw.SetReadDeadline(time.Unix(1, 0)) // fails only on a closed connection
}
