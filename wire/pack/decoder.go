package pack

import (
	"encoding/binary"

	"mooncake/internal/limits"
)

// Decoder reads the data of one body. The first error stays; after it every read answers zero.
type Decoder struct {
	body  []byte
	pos   int
	end   int // compatible fields exist only before this byte
	at    int // where the first error happened
	items int // container elements so far
	width uint8
	cause error
	text  string // the body once more, as what strings of many elements are cut from; "" while there are few
}

// NewDecoder opens a body of type t. A wrong head is the decoder's first error.
func NewDecoder(body []byte, t *Type) Decoder {
	o, err := t.open(body)
	d := Decoder{body: body, pos: o.data, end: o.end, width: o.width}
	if err != nil {
		d.Fail(err)
	}
	return d
}

// Err is nil or the *Error that stopped the decoder.
func (d *Decoder) Err() error {
	if d.cause == nil {
		return nil
	}
	return &Error{Offset: d.at, Cause: d.cause}
}

// Fail records an error found by the caller; only the first one counts.
func (d *Decoder) Fail(cause error) {
	if d.cause == nil {
		d.cause, d.at = cause, d.pos
	}
	d.pos = len(d.body)
}

// Rest is the number of unread bytes; a reader ignores them when it knows no further field.
func (d *Decoder) Rest() int { return len(d.body) - d.pos }

// More tells whether a compatible field follows: the body said how long it is, and that point is not reached.
func (d *Decoder) More() bool { return d.cause == nil && d.pos < d.end }

// Skip passes n bytes of padding.
func (d *Decoder) Skip(n int) { d.take(n) }

// take gives the next n bytes, or nil.
func (d *Decoder) take(n int) []byte {
	if len(d.body)-d.pos < n {
		d.Fail(ErrShort)
		return nil
	}
	b := d.body[d.pos : d.pos+n]
	d.pos += n
	return b
}

// U8 reads one byte.
func (d *Decoder) U8() uint8 {
	if d.pos >= len(d.body) {
		d.Fail(ErrShort)
		return 0
	}
	b := d.body[d.pos]
	d.pos++
	return b
}

// U16 reads two bytes.
func (d *Decoder) U16() uint16 {
	b := d.take(2)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint16(b)
}

// U32 reads four bytes.
func (d *Decoder) U32() uint32 {
	b := d.take(4)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

// U64 reads eight bytes.
func (d *Decoder) U64() uint64 {
	b := d.take(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// I32 reads four bytes with a sign.
func (d *Decoder) I32() int32 { return int32(d.U32()) }

// I64 reads eight bytes with a sign.
func (d *Decoder) I64() int64 { return int64(d.U64()) }

// Bool reads one byte; anything but 0 is true. Optionals and expected values start with one.
func (d *Decoder) Bool() bool { return d.U8() != 0 }

// Count reads the number of a container's elements, which take at least minBytes each on the wire. A number that the rest
// of the body cannot hold is an error, so callers may take memory for what they get. Empty elements take more memory than
// bytes, so a message is also refused whose containers have more than limits.WireItems elements together.
func (d *Decoder) Count(minBytes int) int {
	n := d.length(max(minBytes, 1))
	if n > limits.WireItems-d.items {
		d.Fail(ErrItems)
		return 0
	}
	d.items += n
	if n >= limits.WireSharedItems && d.text == "" {
		d.text = string(d.body)
	}
	return n
}

// length reads a length in the message's width.
func (d *Decoder) length(minBytes int) int {
	var n uint64
	switch d.width {
	case 1:
		n = uint64(d.U8())
	case 2:
		n = uint64(d.U16())
	case 4:
		n = uint64(d.U32())
	default:
		n = d.U64()
	}
	if n > uint64((len(d.body)-d.pos)/minBytes) {
		d.Fail(ErrShort)
		return 0
	}
	return int(n)
}

// String reads a string and copies it. The two texts that nearly every message carries cost no memory. The strings of a
// message with a container of many elements are cut from one copy of the whole message: who keeps one of them for long
// should clone it.
func (d *Decoder) String() string {
	b := d.take(d.length(1))
	switch string(b) {
	case "":
		return ""
	case "default":
		return "default"
	case "tcp":
		return "tcp"
	}
	if d.text != "" {
		return d.text[d.pos-len(b) : d.pos]
	}
	return string(b)
}
