package tcp

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/limits"
)

// arrivalBytes is the buffer into which requests arrive: a header and what of the body came along with it.
const arrivalBytes = requestBytes + limits.DataScratchBytes

// arrivals keeps buffers of closed connections: release 12 makes a connection for each request.
var arrivals = sync.Pool{New: func() any { return new([arrivalBytes]byte) }}

// Phases of a connection. Only a resting one is closed from outside when the server drains.
const (
	phaseResting = iota // waits for the next request
	phaseWorking        // serves one
	phaseLeaving        // serves one and ends after it, or was resting and ends now
)

// serverConn serves the requests of one connection, one after the other.
type serverConn struct {
	server *Server
	stream *stream
	phase  atomic.Int32
	region atomic.Pointer[region] // of the request at hand; shown before the reference is taken

	arrived *[arrivalBytes]byte
	from    int // arrived[from:to] is not consumed yet
	to      int
}

// errRefusedHere ends a connection after a request that was refused.
var errRefusedHere = errors.New("refused")

func (c *serverConn) serve() {
	c.arrived = arrivals.Get().(*[arrivalBytes]byte)
	defer arrivals.Put(c.arrived)
	for {
		r, err := c.nextRequest()
		if err == nil {
			if !c.phase.CompareAndSwap(phaseResting, phaseWorking) {
				return
			}
			err = c.answer(r)
		}
		if err != nil {
			c.account(err)
			return
		}
		if !c.phase.CompareAndSwap(phaseWorking, phaseResting) {
			return
		}
	}
}

// askToLeave reports whether the connection rests and may be closed at once.
func (c *serverConn) askToLeave() bool {
	return c.phase.Swap(phaseLeaving) == phaseResting
}

// nextRequest waits for a header, for ever while nothing of it is there. io.EOF is a peer that left between requests.
func (c *serverConn) nextRequest() (request, error) {
	bounded := false
	for c.to-c.from < requestBytes {
		if c.from > 0 {
			c.to = copy(c.arrived[:], c.arrived[c.from:c.to])
			c.from = 0
		}
		if c.to > 0 && !bounded {
			bounded = true
			if err := c.stream.armRead(); err != nil {
				return request{}, err
			}
		}
		n, err := c.stream.conn.Read(c.arrived[c.to:])
		if err != nil {
			if c.to == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
				// It is the deadline of the last body, and there is none for a connection at rest.
				if err := c.stream.readBy(time.Time{}); err != nil {
					return request{}, err
				}
				continue
			}
			if c.to > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return request{}, err
		}
		c.to += n
	}
	header := (*[requestBytes]byte)(c.arrived[c.from:])
	c.from += requestBytes
	return parseRequest(header), nil
}

// answer serves one request. Codes that are neither read nor write are refused; the original takes them for reads.
func (c *serverConn) answer(r request) error {
	found, window := c.server.find(r.addr, r.size)
	if found == nil || r.op > opWrite {
		return c.refuse(r)
	}
	c.region.Store(found)
	defer c.region.Store(nil)
	if !found.acquire() {
		return c.refuse(r)
	}
	defer found.release()
	if r.op == opWrite {
		return c.takeBody(r, found, window)
	}
	return c.giveBody(r, window)
}

// takeBody puts what already arrived into place, receives the rest into place, and acknowledges when all of it is there.
func (c *serverConn) takeBody(r request, into *region, window []byte) error {
	step := len(window)
	if into.beforeWrite != nil {
		step = limits.DataReadyBytes
	}
	for at := 0; at < len(window); at += step {
		piece := window[at:min(at+step, len(window))]
		if into.beforeWrite != nil {
			into.beforeWrite(r.addr-into.base+uint64(at), uint64(len(piece)))
		}
		n := copy(piece, c.arrived[c.from:c.to])
		c.from += n
		if _, err := c.stream.receive(piece[n:]); err != nil {
			return err
		}
	}
	c.server.stats.writes.Add(1)
	c.server.stats.writeBytes.Add(r.size)
	if !r.acknowledged {
		return nil
	}
	return c.stream.send(statusFrameOK, nil)
}

func (c *serverConn) giveBody(r request, window []byte) error {
	var status []byte
	if r.acknowledged {
		status = statusFrameOK
	}
	if err := c.stream.send(status, window); err != nil {
		return err
	}
	c.server.stats.reads.Add(1)
	c.server.stats.readBytes.Add(r.size)
	return nil
}

// refuse says no, where the framing has a word for it, and ends the connection. The body, of whatever length it claims to
// be, is not read; a short look at what was sent only keeps our close from overtaking the answer.
func (c *serverConn) refuse(r request) error {
	c.server.stats.refused.Add(1)
	c.server.cfg.Log.Debug("data request refused", zap.Stringer("peer", c.stream.conn.RemoteAddr()),
		zap.Uint64("addr", r.addr), zap.Uint64("size", r.size), zap.Uint8("opcode", uint8(r.op)))
	if !r.acknowledged {
		return errRefusedHere
	}
	if err := c.stream.send(statusFrameRefused, nil); err != nil {
		return errRefusedHere
	}
	conn := c.stream.conn
	if conn.TCP().CloseWrite() != nil || c.stream.readBy(time.Now().Add(limits.DataRefusalLingerMs*time.Millisecond)) != nil {
		return errRefusedHere
	}
	for left := limits.DataRefusalDrainBytes; left > 0; {
		n, err := conn.Read(c.arrived[:])
		if err != nil {
			break
		}
		left -= n
	}
	return errRefusedHere
}

// account counts why a connection ended. A peer that left between requests and our own closing are ordinary ends.
func (c *serverConn) account(err error) {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, errRefusedHere):
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.server.stats.stalled.Add(1)
	default:
		c.server.stats.broken.Add(1)
	}
	c.server.cfg.Log.Debug("data connection broke", zap.Stringer("peer", c.stream.conn.RemoteAddr()), zap.Error(err))
}
