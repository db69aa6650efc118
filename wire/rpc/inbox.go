package rpc

import (
	"sync/atomic"

	"mooncake/internal/limits"
)

// inbox collects what a connection delivers and hands it out as whole frames. It knows no socket: the owner reads into
// space, tells filled, takes frames with next until there is none, then calls settle.
type inbox struct {
	buf        []byte
	start, end int   // what is in buf and not yet taken
	skip       int64 // bytes of an attachment still to come, which nobody wants
	limit      int64 // largest body plus attachment
	request    bool  // requests or replies
	full       bool  // the last read filled the buffer

	large     *atomic.Int64 // what all connections of the server hold in buffers of large frames; nil = nobody counts
	largeMax  int64
	largeHeld int64 // this one's part of it

	peerLarge *atomic.Int64 // the same for the connections of one address; nil = nobody counts
	peerMax   int64
}

// space is where the next bytes go; never empty.
func (b *inbox) space() []byte {
	if b.buf == nil {
		b.buf = make([]byte, limits.RPCBufferBytes)
	}
	return b.buf[b.end:]
}

// filled tells that n bytes were read into space.
func (b *inbox) filled(n int) {
	b.end += n
	b.full = b.end == len(b.buf)
}

func (b *inbox) headerBytes() int {
	if b.request {
		return requestHeaderBytes
	}
	return ReplyHeaderBytes
}

// header parses the header at the front, if it is there whole.
func (b *inbox) header() (f frame, bodyBytes, attachmentBytes int64, ok bool) {
	h := b.buf[b.start:b.end]
	if len(h) < b.headerBytes() {
		return f, 0, 0, false
	}
	if b.request {
		f, bodyBytes, attachmentBytes = parseRequest(h)
	} else {
		f, bodyBytes, attachmentBytes = parseReply(h)
	}
	return f, bodyBytes, attachmentBytes, true
}

// next takes the next whole frame out. Its body is valid until space is called.
func (b *inbox) next() (f frame, ok bool, err error) {
	if b.skip > 0 {
		n := min(b.skip, int64(b.end-b.start))
		b.start += int(n)
		b.skip -= n
	}
	if b.start == b.end {
		return f, false, nil
	}
	if err := checkStart(b.buf[b.start:b.end], b.request); err != nil {
		return f, false, err
	}
	f, bodyBytes, attachmentBytes, ok := b.header()
	if !ok {
		return f, false, nil
	}
	if bodyBytes+attachmentBytes > b.limit {
		return f, false, ErrFrameTooLarge
	}
	bodyAt := b.start + b.headerBytes()
	if int64(b.end-bodyAt) < bodyBytes {
		return f, false, nil
	}
	b.start = bodyAt + int(bodyBytes)
	b.skip = attachmentBytes
	f.body = b.buf[bodyAt:b.start:b.start]
	return f, true, nil
}

// partial reports whether a frame has begun that is not complete.
func (b *inbox) partial() bool { return b.start < b.end || b.skip > 0 }

// settle makes room for the next read. The buffer grows with the bytes that came: at once up to limits.RPCKeepBytes, then
// by doubling, so that an announced length alone takes no memory. It shrinks as soon as a large frame has been taken. The
// error is ErrBusy: all connections together, or those of this address, hold as much of large frames as they may.
func (b *inbox) settle() error {
	rest := b.end - b.start
	if rest == 0 {
		b.start, b.end = 0, 0
		switch {
		case len(b.buf) > limits.RPCKeepBytes:
			b.buf = nil
			b.release()
		case b.full && len(b.buf) < limits.RPCKeepBytes:
			b.buf = make([]byte, min(2*len(b.buf), limits.RPCKeepBytes)) // a busy peer: more frames per read
		}
		return nil
	}
	size := len(b.buf)
	if want := b.wanted(); want > size {
		if want <= limits.RPCKeepBytes {
			size = want
		} else if rest == size {
			size = min(want, max(2*size, limits.RPCKeepBytes))
		}
	}
	switch {
	case size > len(b.buf):
		if !b.hold(size) {
			return ErrBusy
		}
		grown := make([]byte, size)
		copy(grown, b.buf[b.start:b.end])
		b.buf = grown
	case b.start > 0:
		copy(b.buf, b.buf[b.start:b.end])
	}
	b.start, b.end = 0, rest
	return nil
}

// hold counts a buffer of the given size with those of the other connections; false when there is no room for it.
func (b *inbox) hold(size int) bool {
	if b.large == nil || size <= limits.RPCKeepBytes {
		return true
	}
	more := int64(size) - b.largeHeld
	if b.large.Add(more) > b.largeMax {
		b.large.Add(-more)
		return false
	}
	if b.peerLarge != nil && b.peerLarge.Add(more) > b.peerMax {
		b.peerLarge.Add(-more)
		b.large.Add(-more)
		return false
	}
	b.largeHeld += more
	return true
}

// release ends the counting; the owner calls it when it gives the inbox up.
func (b *inbox) release() {
	if b.largeHeld > 0 {
		b.large.Add(-b.largeHeld)
		if b.peerLarge != nil {
			b.peerLarge.Add(-b.largeHeld)
		}
		b.largeHeld = 0
	}
}

// wanted is the size of the frame at the front without its attachment, as far as it is known.
func (b *inbox) wanted() int {
	_, bodyBytes, _, ok := b.header()
	if !ok {
		return b.headerBytes()
	}
	return b.headerBytes() + int(bodyBytes)
}
