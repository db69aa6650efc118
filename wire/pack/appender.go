package pack

import (
	"encoding/binary"
	"math"
	"slices"
)

// Appender writes one body. Write the value, then ask Done; if it says no, write the very same value again.
//
//	a := pack.NewAppender(dst, typ)
//	for {
//		a.String(key)
//		if a.Done() {
//			return a.Bytes()
//		}
//	}
type Appender struct {
	buf     []byte // written up to n; keeping its length fixed saves a pointer store, and its barrier, per field
	n       int
	typ     *Type
	start   int
	longest uint64 // longest container met so far
	width   uint8
}

// NewAppender starts a body of type t behind dst.
func NewAppender(dst []byte, t *Type) Appender {
	start := len(dst)
	dst = append(dst, t.head...)
	return Appender{buf: dst[:cap(dst)], n: len(dst), typ: t, start: start, width: 1}
}

// Bytes is dst with the body behind it; complete once Done said so.
func (a *Appender) Bytes() []byte { return a.buf[:a.n] }

// grow makes room for at least more bytes.
func (a *Appender) grow(more int) {
	b := slices.Grow(a.buf[:a.n], more)
	a.buf = b[:cap(b)]
}

// Done completes the body. If a container was longer than the present width can say, it starts the body anew with the
// width that fits and answers false: one width holds for the whole message.
func (a *Appender) Done() bool {
	if width := widthFor(a.longest); width > a.width {
		a.width = width
		a.n = a.start + len(a.typ.head)
		a.buf[a.start+metaOffset] |= widthBits(width) << metaWidthShift
		return false
	}
	if a.typ.compat {
		a.putTotal()
	}
	return true
}

// putTotal fills in the total length, which the head keeps 2 bytes wide, and widens it if it does not fit. (A body never
// reaches 4 GiB: its frame could not say so.)
func (a *Appender) putTotal() {
	at := a.start + totalOffset
	total := a.n - a.start
	if total <= math.MaxUint16 {
		binary.LittleEndian.PutUint16(a.buf[at:], uint16(total))
		return
	}
	a.Zeros(longTotal - shortTotal)
	copy(a.buf[at+longTotal:a.n], a.buf[at+shortTotal:])
	binary.LittleEndian.PutUint32(a.buf[at:], uint32(total+longTotal-shortTotal))
	meta := &a.buf[a.start+metaOffset]
	*meta = *meta&^metaTotalMask | 2
}

func widthFor(longest uint64) uint8 {
	switch {
	case longest <= math.MaxUint8:
		return 1
	case longest <= math.MaxUint16:
		return 2
	case longest <= math.MaxUint32:
		return 4
	}
	return 8
}

func widthBits(width uint8) uint8 {
	switch width {
	case 1:
		return 0
	case 2:
		return 1
	case 4:
		return 2
	}
	return 3
}

// U8 writes one byte.
func (a *Appender) U8(v uint8) {
	if a.n == len(a.buf) {
		a.grow(1)
	}
	a.buf[a.n] = v
	a.n++
}

// U16 writes two bytes.
func (a *Appender) U16(v uint16) {
	if len(a.buf)-a.n < 2 {
		a.grow(2)
	}
	binary.LittleEndian.PutUint16(a.buf[a.n:], v)
	a.n += 2
}

// U32 writes four bytes.
func (a *Appender) U32(v uint32) {
	if len(a.buf)-a.n < 4 {
		a.grow(4)
	}
	binary.LittleEndian.PutUint32(a.buf[a.n:], v)
	a.n += 4
}

// U64 writes eight bytes.
func (a *Appender) U64(v uint64) {
	if len(a.buf)-a.n < 8 {
		a.grow(8)
	}
	binary.LittleEndian.PutUint64(a.buf[a.n:], v)
	a.n += 8
}

// I32 writes four bytes with a sign.
func (a *Appender) I32(v int32) { a.U32(uint32(v)) }

// I64 writes eight bytes with a sign.
func (a *Appender) I64(v int64) { a.U64(uint64(v)) }

// Bool writes one byte, 0 or 1.
func (a *Appender) Bool(v bool) {
	if v {
		a.U8(1)
		return
	}
	a.U8(0)
}

// Zeros writes n bytes of padding.
func (a *Appender) Zeros(n int) {
	for range n {
		a.U8(0)
	}
}

// Len writes the length of a container.
func (a *Appender) Len(n int) {
	a.longest = max(a.longest, uint64(n))
	switch a.width {
	case 1:
		a.U8(uint8(n))
	case 2:
		a.U16(uint16(n))
	case 4:
		a.U32(uint32(n))
	default:
		a.U64(uint64(n))
	}
}

// String writes a string: its length, then its bytes.
func (a *Appender) String(s string) {
	a.Len(len(s))
	if len(a.buf)-a.n < len(s) {
		a.grow(len(s))
	}
	a.n += copy(a.buf[a.n:], s)
}
