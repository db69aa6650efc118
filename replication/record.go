package replication

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// A record is a header of 40 bytes and a payload, padded with zeros to a multiple of 8 bytes. All numbers are little
// endian.
//
//	at  bytes
//	 0      4  length of the payload
//	 4      4  CRC32C of the header without this field
//	 8      8  number of the record
//	16      8  time in milliseconds that the payload's times are relative to
//	24      8  identity of the journal
//	32      4  changes in the payload
//	36      4  CRC32C of the payload
const (
	headerBytes = 40
	recordAlign = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type header struct {
	length   uint32
	number   uint64
	base     catalog.Time
	identity uint64
	changes  uint32
	sum      uint32
}

func (h *header) append(dst []byte) []byte {
	at := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, h.length)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, h.number)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.base))
	dst = binary.LittleEndian.AppendUint64(dst, h.identity)
	dst = binary.LittleEndian.AppendUint32(dst, h.changes)
	dst = binary.LittleEndian.AppendUint32(dst, h.sum)
	binary.LittleEndian.PutUint32(dst[at+4:], headerSum(dst[at:]))
	return dst
}

func headerSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[8:headerBytes])
}

// parseHeader reads a header; false when it is none of this journal.
func parseHeader(b []byte, identity uint64) (h header, ok bool) {
	h, ok = readHeader(b)
	return h, ok && h.identity == identity
}

// readHeader reads a header of any journal.
func readHeader(b []byte) (h header, ok bool) {
	if len(b) < headerBytes || binary.LittleEndian.Uint32(b[4:]) != headerSum(b) {
		return h, false
	}
	h = header{
		length:   binary.LittleEndian.Uint32(b),
		number:   binary.LittleEndian.Uint64(b[8:]),
		base:     catalog.Time(binary.LittleEndian.Uint64(b[16:])),
		identity: binary.LittleEndian.Uint64(b[24:]),
		changes:  binary.LittleEndian.Uint32(b[32:]),
		sum:      binary.LittleEndian.Uint32(b[36:]),
	}
	return h, h.length <= limits.LogRecordBytes && h.number > 0
}

// padded is the room a record with a payload of n bytes takes.
func padded(n uint32) int {
	return (headerBytes + int(n) + recordAlign - 1) / recordAlign * recordAlign
}

// A NameChange is one step in the history of the metadata server: Name gets Value, or goes.
type NameChange struct {
	Name    string
	Value   []byte
	Removed bool
}

// A Grant is a range that was given to a writer. Each record repeats those of the records just before it, so that the
// loss of a few does not hide which bytes may have been written over.
type Grant struct {
	Segment      catalog.UUID
	Offset, Size uint64
}

// An Entry is the content of one record.
type Entry struct {
	Number  uint64
	Base    catalog.Time
	Since   uint64  // Before has all grants of the records from this number on
	Before  []Grant // made before this record
	Changes []catalog.Change
	Names   []NameChange
	Notes   []Note
	Anew    bool // everything before this record is void
}

// The parts of a payload, each introduced by one byte. A payload is the grants made before, and then changes, names and
// notes in the order in which they happened.
const (
	partGrants  = 'g'
	partChange  = 'c'
	partName    = 'n'
	partNameEnd = 'x'
	partNote    = 'h'
	partAnew    = 'e'
)

func appendGrants(dst []byte, recent *recentIDs, back uint64, grants []Grant) []byte {
	dst = append(dst, partGrants)
	dst = binary.AppendUvarint(dst, back)
	dst = binary.AppendUvarint(dst, uint64(len(grants)))
	for _, g := range grants {
		dst = recent.append(dst, g.Segment)
		dst = binary.AppendUvarint(dst, g.Offset)
		dst = binary.AppendUvarint(dst, g.Size)
	}
	return dst
}

func appendName(dst []byte, n *NameChange) []byte {
	if n.Removed {
		return appendText(append(dst, partNameEnd), n.Name)
	}
	dst = appendText(append(dst, partName), n.Name)
	dst = binary.AppendUvarint(dst, uint64(len(n.Value)))
	return append(dst, n.Value...)
}

// grantsOf adds the ranges that a Change lets somebody write.
func grantsOf(dst []Grant, c *catalog.Change) []Grant {
	if c.Kind != catalog.ChangePut && c.Kind != catalog.ChangeReopen {
		return dst
	}
	for i := range c.Replicas {
		r := &c.Replicas[i]
		dst = append(dst, Grant{r.Segment, r.Offset, r.Size})
	}
	return dst
}

// parsePayload reads what a record holds. The payload's checksum was verified before: an error means that another version
// wrote it, or a mistake in this code.
func parsePayload(h *header, payload []byte) (Entry, error) { return parseInto(h, payload, nil) }

// parseInto is parsePayload with room for the changes, which it may use.
func parseInto(h *header, payload []byte, room []catalog.Change) (Entry, error) {
	const shortest = 3 // bytes that a change takes
	if want := min(int(h.changes), len(payload)/shortest); cap(room) < want {
		room = make([]catalog.Change, 0, want)
	}
	e := Entry{Number: h.number, Base: h.base, Changes: room[:0]}
	r := reader{in: payload}
	for len(r.in) > 0 {
		switch part := r.byte(); part {
		case partGrants:
			r.grants(&e)
		case partAnew:
			e.Anew = true
		case partChange:
			e.Changes = append(e.Changes, r.change(h.base))
		case partName:
			n := NameChange{Name: r.text()}
			n.Value = r.bytes()
			e.Names = append(e.Names, n)
		case partNameEnd:
			e.Names = append(e.Names, NameChange{Name: r.text(), Removed: true})
		case partNote:
			e.Notes = append(e.Notes, r.note())
		default:
			r.fail(fmt.Errorf("part %#x is unknown", part))
		}
	}
	if r.err == nil && uint32(len(e.Changes)) != h.changes {
		r.err = fmt.Errorf("%d changes instead of %d", len(e.Changes), h.changes)
	}
	return e, r.err
}

func (r *reader) grants(e *Entry) {
	const shortest = 3
	e.Since = e.Number - min(r.uvarint(), e.Number)
	n := r.uvarint()
	if n > uint64(len(r.in))/shortest {
		r.fail(errShort)
		return
	}
	for range n {
		e.Before = append(e.Before, Grant{Segment: r.id(), Offset: r.uvarint(), Size: r.uvarint()})
	}
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.in)) {
		r.fail(errShort)
		return nil
	}
	b := append([]byte(nil), r.in[:n]...)
	r.in = r.in[n:]
	return b
}

// batch collects what becomes one record.
type batch struct {
	number  uint64
	base    catalog.Time
	buf     []byte // header and payload; the header is filled in last
	recent  recentIDs
	changes uint32
	names   int // and notes
	appends int // decisions
	granted []Grant
}

// start empties the batch for the record of a number, which repeats the grants of the records from since on.
func (b *batch) start(number, since uint64, before []Grant) {
	b.number, b.base, b.changes, b.names, b.appends = number, 0, 0, 0, 0
	b.recent = recentIDs{}
	b.granted = b.granted[:0]
	b.buf = append(b.buf[:0], make([]byte, headerBytes)...)
	b.buf = appendGrants(b.buf, &b.recent, number-since, before)
}

// isFull tells that a record of limited size takes no further decision.
func (b *batch) isFull() bool {
	return len(b.buf) >= limits.LogBatchBytes || b.changes >= limits.LogBatchChanges
}

// isHuge tells that a record of limited size must end amid a decision. Every change leaves a state that is sound, so
// the loss of the rest, which nobody was told of, does no harm.
func (b *batch) isHuge() bool { return len(b.buf) >= limits.LogBatchSplitBytes }

// mustSplit tells that changes may make the record huge.
func (b *batch) mustSplit(changes []catalog.Change) bool {
	bytes := len(b.buf)
	for i := range changes {
		bytes += limits.LogChangeBytes + len(changes[i].Key) + len(changes[i].Group) + limits.LogChangeBytes*len(changes[i].Replicas)
		if bytes >= limits.LogBatchSplitBytes {
			return true
		}
	}
	return false
}

func (b *batch) empty() bool { return b.changes == 0 && b.names == 0 }

func (b *batch) addChanges(changes []catalog.Change) {
	for i := range changes {
		c := &changes[i]
		if b.changes == 0 {
			b.base = c.Time
		}
		b.buf = appendChange(append(b.buf, partChange), &b.recent, b.base, c)
		b.granted = grantsOf(b.granted, c)
		b.changes++
	}
}

// addAnew makes everything before the record void. Nothing was added to it yet.
func (b *batch) addAnew() {
	b.buf = append(b.buf, partAnew)
	b.names++
}

func (b *batch) addName(n *NameChange) {
	b.buf = appendName(b.buf, n)
	b.names++
}

func (b *batch) addNote(n *Note) {
	b.buf = appendNote(b.buf, n)
	b.names++
}

// seal completes the record. Its bytes are valid until the next start.
func (b *batch) seal(identity uint64) []byte {
	payload := b.buf[headerBytes:]
	h := header{
		length: uint32(len(payload)), number: b.number, base: b.base, identity: identity, changes: b.changes,
		sum: crc32.Checksum(payload, castagnoli),
	}
	h.append(b.buf[:0])
	for len(b.buf)%recordAlign != 0 {
		b.buf = append(b.buf, 0)
	}
	return b.buf
}
