package rpc

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"mooncake/internal/limits"
	"mooncake/internal/rawconn"
)

// output is the sending half of a connection. Whoever sets writing owns the socket's sending side until it has written
// everything that others queued meanwhile; so frames never interleave and no goroutine waits in line with a lock held.
type output struct {
	raw      *rawconn.Conn
	requests bool           // what post sends
	stall    time.Duration  // how long the peer may take nothing
	limit    int            // bytes that may wait while somebody writes
	sent     *atomic.Uint64 // bytes handed to the kernel

	mu      sync.Mutex
	idle    sync.Cond // writing became false, or closed true
	pending []byte    // frames queued while somebody writes
	spare   []byte    // the buffer pending had before
	writing bool
	closed  bool
	err     error // why it was closed, if by itself
}

// flush writes p and waits until the kernel has it: back pressure for the goroutine that makes replies.
func (o *output) flush(p []byte) error {
	o.mu.Lock()
	for o.writing && !o.closed {
		o.idle.Wait()
	}
	if o.closed {
		defer o.mu.Unlock()
		return o.reasonLocked()
	}
	o.writing = true
	o.mu.Unlock()
	return o.drain(o.writeAll(p))
}

// post queues or sends one frame and never waits for the peer.
func (o *output) post(f frame) error {
	o.mu.Lock()
	if o.closed {
		defer o.mu.Unlock()
		return o.reasonLocked()
	}
	if o.writing && len(o.pending) > 0 && len(o.pending)+len(f.body) > o.limit {
		o.failLocked(ErrSlowReader)
		o.mu.Unlock()
		return ErrSlowReader
	}
	if o.requests {
		o.pending = AppendRequestHeader(o.pending, f.seq, f.functionID, len(f.body))
	} else {
		o.pending = appendReplyHeader(o.pending, f.seq, f.code, len(f.body))
	}
	o.pending = append(o.pending, f.body...)
	if o.writing {
		o.mu.Unlock()
		return nil
	}
	o.writing = true
	return o.push()
}

// push sends pending as far as the kernel takes it and leaves the rest to a goroutine. Called with the lock and writing
// set; returns with neither, or with writing handed on.
func (o *output) push() error {
	for !o.closed && len(o.pending) > 0 {
		p := o.takeLocked()
		o.mu.Unlock()
		n, err := o.raw.TryWrite(p)
		o.sent.Add(uint64(n))
		if err == nil && n < len(p) {
			go o.finish(p, n) // ends with the connection at the latest; close waits for it
			return nil
		}
		o.mu.Lock()
		o.giveBackLocked(p)
		if err != nil {
			o.failLocked(err)
		}
	}
	var err error
	if o.closed {
		err = o.reasonLocked()
	}
	o.writing = false
	o.idle.Broadcast()
	o.mu.Unlock()
	return err
}

// finish writes the rest of p, and what was queued meanwhile, at the peer's pace.
func (o *output) finish(p []byte, from int) {
	err := o.writeAll(p[from:])
	o.mu.Lock()
	o.giveBackLocked(p)
	o.mu.Unlock()
	_ = o.drain(err) // the reason is kept for whoever asks
}

// drain writes what was queued while its caller wrote, then gives the sending side up. err is how the caller fared.
func (o *output) drain(err error) error {
	o.mu.Lock()
	for err == nil && !o.closed && len(o.pending) > 0 {
		p := o.takeLocked()
		o.mu.Unlock()
		err = o.writeAll(p)
		o.mu.Lock()
		o.giveBackLocked(p)
	}
	if err != nil {
		o.failLocked(err)
	}
	o.writing = false
	o.idle.Broadcast()
	o.mu.Unlock()
	return err
}

func (o *output) takeLocked() []byte {
	p := o.pending
	o.pending, o.spare = o.spare[:0], nil
	return p
}

func (o *output) giveBackLocked(p []byte) {
	if cap(p) <= limits.RPCKeepBytes {
		o.spare = p[:0]
	}
}

// writeAll writes p; each chunk has its own deadline, so a slow peer is told from one that stopped.
func (o *output) writeAll(p []byte) error {
	n, err := o.raw.TryWrite(p)
	o.sent.Add(uint64(n))
	if err != nil || n == len(p) {
		return err
	}
	for p = p[n:]; len(p) > 0 && err == nil; p = p[n:] {
		if err = o.raw.SetWriteDeadline(time.Now().Add(o.stall)); err != nil {
			return err
		}
		n, err = o.raw.Write(p[:min(len(p), limits.RPCWriteBytes)])
		o.sent.Add(uint64(n))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrSlowReader
	}
	if err != nil {
		return err
	}
	return o.raw.SetWriteDeadline(time.Time{})
}

// failLocked ends the connection for both directions: its reader wakes up and does the rest.
func (o *output) failLocked(err error) {
	if !o.closed {
		o.closed, o.err = true, err
		o.pending = nil
		if o.raw != nil { // a Conn that a test made has no socket
			o.raw.Close()
		}
	}
}

func (o *output) reasonLocked() error {
	if o.err != nil {
		return o.err
	}
	return ErrClosed
}

// close ends the connection and waits until nobody writes any more. It returns why output ended before, if it did.
func (o *output) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		o.raw.Close()
	}
	o.pending, o.spare = nil, nil
	for o.writing {
		o.idle.Wait()
	}
	return o.err
}

// release ends sending and leaves the socket open for somebody else; false when the connection has ended.
func (o *output) release() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.writing && !o.closed {
		o.idle.Wait()
	}
	if o.closed {
		return false
	}
	o.closed = true
	return true
}

// abort ends the connection and waits for nobody.
func (o *output) abort() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failLocked(ErrClosed)
}
