package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"mooncake/internal/limits"
)

// Who reads: a call that finds nobody reading reads by itself, on its caller's goroutine, until it has its answer or is given up.
// It delivers what is for others, and in the end lets one of them go on. So the only call under way costs no hand-over from one
// goroutine to another, which is often one between threads. While nothing is under way nobody reads for a moment, then a goroutine
// does, which finds out that the peer has left.
//
// Where a call waits for its answer somebody reads: reading is false only while waiting is empty.

// readOwn reads until the answer of a call is there. The call has been made the one that reads.
func (c *Client) readOwn(ctx context.Context, seq uint32, own *call) (code uint8, body []byte, err error) {
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, func() { c.interrupt(own) })()
	}
	for own.reply == nil {
		err := c.readOnce()
		if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
			c.giveUp(seq, own)
			return 0, nil, ctx.Err()
		}
		if err != nil {
			c.end(err)
			if own.reply != nil { // it came before what ended the connection
				return own.reply.code, own.reply.body, nil
			}
			return 0, nil, c.reason()
		}
	}
	c.mu.Lock()
	c.handOverLocked()
	c.mu.Unlock()
	return own.reply.code, own.reply.body, nil
}

// interrupt wakes the call that reads, unless another one does by now.
func (c *Client) interrupt(own *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reader == own {
		c.interrupted = true
		_ = c.raw.SetReadDeadline(time.Unix(1, 0)) // fails only on a closed connection
	}
}

// handOverLocked ends the reading of whoever calls it: another call goes on, else a goroutine if answers of calls that were given up are
// to come, else nobody for now.
func (c *Client) handOverLocked() {
	c.passLocked()
	if c.reading && c.reader == nil {
		go c.readAtRest() // Close ends it and waits
	}
}

// passLocked is handOverLocked without a goroutine: afterwards either a call reads, or nobody does, or the caller has to.
func (c *Client) passLocked() {
	c.reader = nil
	if c.interrupted {
		c.interrupted = false
		_ = c.raw.SetReadDeadline(time.Time{}) // fails only on a closed connection
	}
	for _, other := range c.waiting {
		if other != nil {
			c.reader = other
			other.word <- reply{reads: true}
			return
		}
	}
	if len(c.waiting) > 0 && c.err == nil {
		return
	}
	c.reading = false
	if c.err != nil {
		c.endLocked()
		return
	}
	c.restLocked()
}

// restLocked has a look at the connection after a while, so that it is not done with every call.
func (c *Client) restLocked() {
	if c.resting {
		return
	}
	c.resting, c.restSeq = true, c.nextSeq
	const pause = limits.RPCClientRestMs * time.Millisecond
	if c.rest == nil {
		c.rest = time.AfterFunc(pause, c.rested)
		return
	}
	c.rest.Reset(pause)
}

// rested reads if no call has been made for a while.
func (c *Client) rested() {
	c.mu.Lock()
	c.resting = false
	switch {
	case c.err != nil, c.reading: // whoever reads lets it begin again
		c.mu.Unlock()
	case c.restSeq != c.nextSeq:
		c.restLocked()
		c.mu.Unlock()
	default:
		c.reading = true
		c.mu.Unlock()
		c.readAtRest()
	}
}

// readAtRest reads while no call is there that could, on a goroutine of the client's own. What comes is the answer of the next
// call, of one that was given up, or the end.
func (c *Client) readAtRest() {
	for {
		if err := c.readOnce(); err != nil {
			c.end(err)
			return
		}
		c.mu.Lock()
		c.passLocked()
		mine := c.reading && c.reader == nil
		c.mu.Unlock()
		if !mine {
			return
		}
	}
}

// end ends the connection because of what its reader found.
func (c *Client) end(err error) {
	if own := c.out.close(); own != nil {
		err = own
	}
	c.fail(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading, c.reader = false, nil
	c.endLocked()
}

// readOnce reads once and delivers every reply that is there.
func (c *Client) readOnce() error {
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
			return c.in.settle()
		}
		if err := c.deliver(f); err != nil {
			return fmt.Errorf("server %v: %w", c.raw.RemoteAddr(), err)
		}
	}
}

// deliver hands one reply to its call.
func (c *Client) deliver(f frame) error {
	c.mu.Lock()
	to, known := c.waiting[f.seq]
	delete(c.waiting, f.seq)
	own := to == c.reader
	c.mu.Unlock()
	if !known {
		return errSequence
	}
	if to != nil {
		r := reply{code: f.code, body: bytes.Clone(f.body)}
		if own {
			to.reply = &r
		} else {
			to.word <- r
		}
	}
	<-c.slots
	return nil
}

// Ended tells whether the connection has ended. While nobody reads it looks.
func (c *Client) Ended() bool {
	select {
	case <-c.done:
		return true
	default:
	}
	c.mu.Lock()
	hungUp := !c.reading && c.raw.HungUp() // it never waits; a call that began to read meanwhile could have taken its answer already
	c.mu.Unlock()
	if !hungUp {
		return false
	}
	c.fail(fmt.Errorf("server %v: %w", c.raw.RemoteAddr(), io.EOF))
	return true
}
