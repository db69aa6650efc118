package replication

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// The fields of a Change, as bits that say which follow. A field that is absent has its zero value. Their order is that
// of the bits; a new field gets the next bit, so that older entries stay readable.
const (
	hasCause = 1 << iota
	hasDataType
	hasSoftPin
	hasFlags
	hasTime
	hasUntil
	hasHandedOut
	hasPinnedUntil
	hasSoftPinTTL
	hasClient
	hasKey
	hasGroup
	hasSize
	hasChecksum
	hasReplicas
	hasSegment
	hasTenant
	hasWorkloads
	hasBundle
	hasCopy
	hasSource
	hasState
	hasLocality
	hasWanted
	hasSum
	hasBelow
	knownFields = iota
)

// The flags of a Change in one byte.
const (
	flagHardPin = 1 << iota
	flagStaged
	flagChecksum
	flagKeepChecksum
	flagSum
	knownFlags = 1<<iota - 1
)

// errShort says that an entry ends inside a field.
var errShort = errors.New("the entry ends inside a field")

// recentIDs remembers the ids of clients and segments that an entry named last: most Changes name few of them again and
// again. Writer and reader keep the same memory.
type recentIDs struct {
	ids  [limits.LogRecentIDs]catalog.UUID
	used int
	next int
}

func (r *recentIDs) find(id catalog.UUID) int {
	for i := range r.ids[:r.used] {
		if r.ids[i] == id {
			return i
		}
	}
	return -1
}

func (r *recentIDs) add(id catalog.UUID) {
	r.ids[r.next] = id
	r.next = (r.next + 1) % len(r.ids)
	r.used = min(r.used+1, len(r.ids))
}

// appendID writes an id: 0 and 16 bytes for one not among the recent ones, else its place among them plus 1.
func (r *recentIDs) append(dst []byte, id catalog.UUID) []byte {
	if at := r.find(id); at >= 0 {
		return append(dst, byte(at+1))
	}
	r.add(id)
	dst = append(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, id.Hi)
	return binary.BigEndian.AppendUint64(dst, id.Lo)
}

// appendChange writes one Change. base is the time that the entry's times are relative to.
func appendChange(dst []byte, recent *recentIDs, base catalog.Time, c *catalog.Change) []byte {
	flags := flagsOf(c)
	fields := fieldsOf(base, c, flags)
	dst = append(dst, byte(c.Kind))
	dst = binary.AppendUvarint(dst, fields)
	for _, small := range [...]struct {
		bit   uint64
		value uint8
	}{{hasCause, uint8(c.Cause)}, {hasDataType, c.DataType}, {hasSoftPin, c.SoftPin}, {hasFlags, flags}} {
		if fields&small.bit != 0 {
			dst = append(dst, small.value)
		}
	}
	for _, at := range [...]struct {
		bit   uint64
		value catalog.Time
	}{{hasTime, c.Time}, {hasUntil, c.Until}, {hasHandedOut, c.HandedOut}, {hasPinnedUntil, c.PinnedUntil}} {
		if fields&at.bit != 0 {
			dst = binary.AppendVarint(dst, int64(at.value)-int64(base)) // wraps around for Never, and back when read
		}
	}
	if fields&hasSoftPinTTL != 0 {
		dst = binary.AppendVarint(dst, c.SoftPinTTLMs)
	}
	if fields&hasClient != 0 {
		dst = recent.append(dst, c.Client)
	}
	if fields&hasKey != 0 {
		dst = appendText(dst, c.Key)
	}
	if fields&hasGroup != 0 {
		dst = appendText(dst, c.Group)
	}
	if fields&hasSize != 0 {
		dst = binary.AppendUvarint(dst, c.Size)
	}
	if fields&hasChecksum != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, c.Checksum)
	}
	if fields&hasReplicas != 0 {
		dst = appendReplicas(dst, recent, c)
	}
	if fields&hasSegment != 0 {
		dst = appendSegment(dst, recent, c.Segment)
	}
	if fields&hasTenant != 0 {
		dst = appendText(dst, c.Tenant)
	}
	if fields&hasWorkloads != 0 {
		dst = appendWorkloads(dst, c.Workloads)
	}
	if fields&hasBundle != 0 {
		dst = appendBundle(dst, base, c.Bundle)
	}
	return appendPlacement(dst, fields, c)
}

// appendPlacement writes the fields about copies, moves and the state of segments.
func appendPlacement(dst []byte, fields uint64, c *catalog.Change) []byte {
	if fields&hasCopy != 0 {
		dst = append(dst, byte(c.Copy))
	}
	if fields&hasSource != 0 {
		dst = binary.AppendUvarint(dst, c.Source)
	}
	if fields&hasState != 0 {
		dst = append(dst, c.State)
	}
	if fields&hasLocality != 0 {
		dst = appendText(dst, c.Segment.Locality)
	}
	if fields&hasWanted != 0 {
		dst = append(dst, c.Wanted)
	}
	if fields&hasSum != 0 {
		dst = binary.LittleEndian.AppendUint32(dst, c.Sum)
	}
	if fields&hasBelow != 0 {
		dst = binary.AppendUvarint(dst, c.Below)
	}
	return dst
}

func flagsOf(c *catalog.Change) (flags uint8) {
	for _, f := range [...]struct {
		set bool
		bit uint8
	}{{c.HardPin, flagHardPin}, {c.Staged, flagStaged}, {c.HasChecksum, flagChecksum}, {c.KeepChecksum, flagKeepChecksum}, {c.HasSum, flagSum}} {
		if f.set {
			flags |= f.bit
		}
	}
	return flags
}

func fieldsOf(base catalog.Time, c *catalog.Change, flags uint8) (fields uint64) {
	for _, f := range [...]struct {
		set bool
		bit uint64
	}{
		{c.Cause != 0, hasCause},
		{c.DataType != 0, hasDataType},
		{c.SoftPin != 0, hasSoftPin},
		{flags != 0, hasFlags},
		{c.Time != base, hasTime},
		{c.Until != 0, hasUntil},
		{c.HandedOut != 0, hasHandedOut},
		{c.PinnedUntil != 0, hasPinnedUntil},
		{c.SoftPinTTLMs != 0, hasSoftPinTTL},
		{c.Client != catalog.UUID{}, hasClient},
		{c.Key != "", hasKey},
		{c.Group != "", hasGroup},
		{c.Size != 0, hasSize},
		{c.Checksum != 0, hasChecksum},
		{len(c.Replicas) > 0, hasReplicas},
		{c.Segment != nil, hasSegment},
		{c.Tenant != "", hasTenant},
		{len(c.Workloads) > 0, hasWorkloads},
		{c.Bundle != nil, hasBundle},
		{c.Copy != 0, hasCopy},
		{c.Source != 0, hasSource},
		{c.State != 0, hasState},
		{c.Segment != nil && c.Segment.Locality != "", hasLocality},
		{c.Wanted != 0, hasWanted},
		{c.Sum != 0, hasSum},
		{c.Below != 0, hasBelow},
	} {
		if f.set {
			fields |= f.bit
		}
	}
	return fields
}

func appendText(dst []byte, text string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}

// appendReplicas writes a list of replicas. Their size is mostly the Change's own, so it is written as the difference.
func appendReplicas(dst []byte, recent *recentIDs, c *catalog.Change) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.Replicas)))
	for i := range c.Replicas {
		r := &c.Replicas[i]
		dst = binary.AppendUvarint(dst, r.ID)
		dst = recent.append(dst, r.Segment)
		dst = binary.AppendUvarint(dst, r.Offset)
		dst = binary.AppendVarint(dst, int64(r.Size-c.Size))
	}
	return dst
}

func appendSegment(dst []byte, recent *recentIDs, s *catalog.Segment) []byte {
	dst = recent.append(dst, s.ID)
	dst = binary.AppendUvarint(dst, s.Base)
	dst = binary.AppendUvarint(dst, s.Size)
	for _, text := range [...]string{s.Name, s.Endpoint, s.Protocol, s.HostID} {
		dst = appendText(dst, text)
	}
	return dst
}

// reader takes an entry apart. Its first error stays, and everything read after it is zero.
type reader struct {
	in     []byte
	recent recentIDs
	err    error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.in = nil
}

func (r *reader) byte() byte {
	if len(r.in) == 0 {
		r.fail(errShort)
		return 0
	}
	b := r.in[0]
	r.in = r.in[1:]
	return b
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.in)
	if n <= 0 {
		r.fail(errShort)
		return 0
	}
	r.in = r.in[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.in)
	if n <= 0 {
		r.fail(errShort)
		return 0
	}
	r.in = r.in[n:]
	return v
}

func (r *reader) uint64(order binary.ByteOrder) uint64 {
	if len(r.in) < 8 {
		r.fail(errShort)
		return 0
	}
	v := order.Uint64(r.in)
	r.in = r.in[8:]
	return v
}

func (r *reader) uint32() uint32 {
	if len(r.in) < 4 {
		r.fail(errShort)
		return 0
	}
	v := binary.LittleEndian.Uint32(r.in)
	r.in = r.in[4:]
	return v
}

func (r *reader) id() catalog.UUID {
	at := int(r.byte())
	if at > 0 {
		if at > r.recent.used {
			r.fail(fmt.Errorf("an entry names id %d of %d", at, r.recent.used))
			return catalog.UUID{}
		}
		return r.recent.ids[at-1]
	}
	id := catalog.UUID{Hi: r.uint64(binary.BigEndian), Lo: r.uint64(binary.BigEndian)}
	r.recent.add(id)
	return id
}

func (r *reader) text() string {
	n := r.uvarint()
	if n > limits.KeyBytesMax || n > uint64(len(r.in)) {
		r.fail(errShort)
		return ""
	}
	text := string(r.in[:n])
	r.in = r.in[n:]
	return text
}

// change reads one Change. Nothing in it points into the entry.
func (r *reader) change(base catalog.Time) (c catalog.Change) {
	c.Kind, c.Time = catalog.ChangeKind(r.byte()), base
	fields := r.uvarint()
	if fields>>knownFields != 0 {
		r.fail(fmt.Errorf("a change with fields %#x, of which this version knows %d", fields, knownFields))
	}
	if fields&hasCause != 0 {
		c.Cause = catalog.Cause(r.byte())
	}
	if fields&hasDataType != 0 {
		c.DataType = r.byte()
	}
	if fields&hasSoftPin != 0 {
		c.SoftPin = r.byte()
	}
	if fields&hasFlags != 0 {
		r.flags(&c)
	}
	for _, at := range [...]struct {
		bit   uint64
		value *catalog.Time
	}{{hasTime, &c.Time}, {hasUntil, &c.Until}, {hasHandedOut, &c.HandedOut}, {hasPinnedUntil, &c.PinnedUntil}} {
		if fields&at.bit != 0 {
			*at.value = catalog.Time(r.varint() + int64(base))
		}
	}
	if fields&hasSoftPinTTL != 0 {
		c.SoftPinTTLMs = r.varint()
	}
	if fields&hasClient != 0 {
		c.Client = r.id()
	}
	if fields&hasKey != 0 {
		c.Key = r.text()
	}
	if fields&hasGroup != 0 {
		c.Group = r.text()
	}
	if fields&hasSize != 0 {
		c.Size = r.uvarint()
	}
	if fields&hasChecksum != 0 {
		c.Checksum = r.uint64(binary.LittleEndian)
	}
	if fields&hasReplicas != 0 {
		r.replicas(&c)
	}
	if fields&hasSegment != 0 {
		c.Segment = r.segment()
	}
	if fields&hasTenant != 0 {
		c.Tenant = r.text()
	}
	if fields&hasWorkloads != 0 {
		c.Workloads = r.workloads()
	}
	if fields&hasBundle != 0 {
		c.Bundle = r.bundle(base)
	}
	r.placement(&c, fields)
	return c
}

// placement reads the fields about copies, moves and the state of segments.
func (r *reader) placement(c *catalog.Change, fields uint64) {
	if fields&hasCopy != 0 {
		c.Copy = catalog.CopyKind(r.byte())
	}
	if fields&hasSource != 0 {
		c.Source = r.uvarint()
	}
	if fields&hasState != 0 {
		c.State = r.byte()
	}
	if fields&hasLocality != 0 {
		text := r.text()
		if c.Segment == nil {
			r.fail(errors.New("a place in a machine without a segment"))
		} else {
			c.Segment.Locality = text
		}
	}
	if fields&hasWanted != 0 {
		c.Wanted = r.byte()
	}
	if fields&hasSum != 0 {
		c.Sum = r.uint32()
	}
	if fields&hasBelow != 0 {
		c.Below = r.uvarint()
	}
}

func (r *reader) flags(c *catalog.Change) {
	flags := r.byte()
	if flags&^knownFlags != 0 {
		r.fail(fmt.Errorf("a change with flags %#x", flags))
	}
	c.HardPin, c.Staged = flags&flagHardPin != 0, flags&flagStaged != 0
	c.HasChecksum, c.KeepChecksum = flags&flagChecksum != 0, flags&flagKeepChecksum != 0
	c.HasSum = flags&flagSum != 0
}

// replicas reads a list. Its length is held against what is left of the entry before memory is taken for it.
func (r *reader) replicas(c *catalog.Change) {
	const shortest = 4 // bytes of a replica, at least
	n := r.uvarint()
	if n > uint64(len(r.in))/shortest || n > math.MaxInt32 {
		r.fail(errShort)
		return
	}
	c.Replicas = make([]catalog.ReplicaChange, 0, n)
	for range n {
		rc := catalog.ReplicaChange{ID: r.uvarint(), Segment: r.id(), Offset: r.uvarint()}
		rc.Size = uint64(r.varint()) + c.Size
		c.Replicas = append(c.Replicas, rc)
	}
}

func (r *reader) segment() *catalog.Segment {
	s := &catalog.Segment{ID: r.id(), Base: r.uvarint(), Size: r.uvarint()}
	for _, text := range [...]*string{&s.Name, &s.Endpoint, &s.Protocol, &s.HostID} {
		*text = r.text()
	}
	return s
}
