package pack

import "encoding/binary"

// Bits of the meta byte.
const (
	metaTotalMask  = 0x03
	metaLiteral    = 0x04
	metaWidthShift = 3
	metaWidthMask  = 0x03

	hashSize    = 4
	metaOffset  = hashSize
	totalOffset = metaOffset + 1
	shortTotal  = 2 // bytes of a total length below 64 KiB
	longTotal   = 4
)

// Type is what a reader and a writer must know about the type at the root of a body.
type Type struct {
	hash    uint32
	wrapped uint32 // hash of the 1-tuple around this type
	literal string
	wrapLit string
	compat  bool
	head    []byte // complete head of a message with 1-byte lengths; its total length is 0 until it is known
}

// NewType describes a root type by its literal; compat says that compatible fields sit somewhere inside it.
func NewType(literal string, compat bool) *Type {
	wrapLit := LiteralStruct(literal)
	t := &Type{hash: Hash(literal), wrapped: Hash(wrapLit), literal: literal, wrapLit: wrapLit, compat: compat}
	meta := byte(metaLiteral)
	if compat {
		meta |= 1 // a 2-byte total length
	}
	t.head = binary.LittleEndian.AppendUint32(t.head, t.hash|1)
	t.head = append(t.head, meta)
	if compat {
		t.head = append(t.head, make([]byte, shortTotal)...)
	}
	t.head = append(t.head, literal...)
	t.head = append(t.head, 0)
	return t
}

// Hash is the type hash with its lowest bit clear.
func (t *Type) Hash() uint32 { return t.hash }

// Literal is the self description that follows the head.
func (t *Type) Literal() string { return t.literal }

// Compat tells whether the type holds compatible fields, so that bodies carry a total length.
func (t *Type) Compat() bool { return t.compat }

// Check tells whether a body is of this type: ErrShort, ErrHash or ErrLiteral if it is not.
func (t *Type) Check(body []byte) error {
	_, err := t.open(body)
	return err
}

// opened is the result of reading a head.
type opened struct {
	data  int // where the data starts
	end   int // where the body ends for compatible fields; 0 if the body does not say
	width uint8
}

// open reads the head of a body. A literal may be absent, but one that is present must be ours.
func (t *Type) open(body []byte) (opened, error) {
	if len(body) < hashSize {
		return opened{}, ErrShort
	}
	raw := binary.LittleEndian.Uint32(body)
	literal := t.literal
	switch raw &^ 1 {
	case t.hash:
	case t.wrapped:
		literal = t.wrapLit
	default:
		return opened{}, ErrHash
	}
	o := opened{data: hashSize, width: 1}
	if raw&1 == 0 {
		return o, nil
	}
	if len(body) <= metaOffset {
		return opened{}, ErrShort
	}
	meta := body[metaOffset]
	o.width = 1 << (meta >> metaWidthShift & metaWidthMask)
	o.data = totalOffset
	if size := totalSize(meta); size > 0 {
		if len(body) < o.data+size {
			return opened{}, ErrShort
		}
		o.end = readTotal(body[o.data:o.data+size], len(body))
		o.data += size
	}
	if meta&metaLiteral == 0 {
		return o, nil
	}
	rest := body[o.data:]
	if len(rest) <= len(literal) {
		return opened{}, ErrLiteral
	}
	if string(rest[:len(literal)]) != literal || rest[len(literal)] != 0 {
		return opened{}, ErrLiteral
	}
	o.data += len(literal) + 1
	return o, nil
}

// HasTotal tells whether a body carries a total length: the mark of a writer that knows compatible fields.
func HasTotal(body []byte) bool {
	return len(body) > metaOffset && body[0]&1 == 1 && body[metaOffset]&metaTotalMask != 0
}

// totalSize is the number of bytes of the total length that a meta byte announces.
func totalSize(meta byte) int {
	if n := meta & metaTotalMask; n != 0 {
		return 1 << n
	}
	return 0
}

// readTotal reads a total length and cuts it to the bytes that are really there, so that a lying one does no harm.
func readTotal(field []byte, have int) int {
	var n uint64
	for i, b := range field {
		n |= uint64(b) << (8 * i)
	}
	return int(min(n, uint64(have)))
}
