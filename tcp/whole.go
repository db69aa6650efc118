package tcp

import (
	"net"
	"sync/atomic"

	"mooncake/internal/limits"
)

// Between processes of one machine little is to be under way, see limits.DataSndbufLocalBytes: with several bodies at a time it falls
// out of the processor's caches. A single body of a MiB does not, and where it fits into the send buffer whole its sender
// waits for the status only, instead of being woken for each part of it.

// bodies counts those that initiators of this process write, if they make room for whole ones. apart is how many have to follow
// without another one at the same time before one gets room: several writers meet often, but not always.
var bodies, apart atomic.Int32

// wholes is the room of one connection for whole bodies.
type wholes struct {
	most   int // the largest body that gets it; 0: none
	usual  int // the send buffer for all else
	buffer int // the send buffer that the connection has
}

// newWholes tries whether a connection may have so large a send buffer.
func (o Options) newWholes(conn *net.TCPConn) wholes {
	if o.SndbufWholeBytes == 0 || o.SndbufLocalBytes == 0 || !sameMachine(conn.LocalAddr(), conn.RemoteAddr()) {
		return wholes{}
	}
	w := wholes{most: o.SndbufWholeBytes, usual: o.SndbufLocalBytes, buffer: o.SndbufLocalBytes}
	if setBuffer(conn, roomFor(w.most)) != nil || setBuffer(conn, w.usual) != nil {
		return wholes{}
	}
	return w
}

// roomFor is the send buffer that takes a body whole: the kernel makes twice of it, and counts the memory of its own that the bytes lie in.
func roomFor(body int) int { return body/2 + body/8 }

// begin makes room for a body, or takes it back where others are being written. Whoever begins ends.
func (w *wholes) begin(conn *net.TCPConn, body int) {
	if w.most == 0 {
		return
	}
	alone := bodies.Add(1) == 1
	if !alone {
		apart.Store(limits.DataWholeApart)
	} else if apart.Load() > 0 {
		apart.Add(-1)
		alone = false
	}
	want := w.usual
	switch {
	case body <= 2*w.usual: // it fits in any case
		return
	case alone && body <= w.most:
		want = roomFor(w.most)
	}
	if want != w.buffer && setBuffer(conn, want) == nil {
		w.buffer = want
	}
}

func (w *wholes) end() {
	if w.most > 0 {
		bodies.Add(-1)
	}
}
