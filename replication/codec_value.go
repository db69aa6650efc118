package replication

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"mooncake/internal/limits"
)

// A value of log/ and roll/ begins with 8 bytes: "MCKE", the version of the format, the codec and two zeros. Records
// follow, each as in a journal file; their identity is the term of the leader who wrote them, which is the create revision
// of his key. With codec 1 the length of the records follows in 4 bytes, little endian, and then they as zstd frames, one after
// another: joined values keep the frames that they had.
var valueHead = []byte{'M', 'C', 'K', 'E', 1, codecPlain, 0, 0}

const (
	codecAt        = 5
	codecPlain     = 0
	codecZstd      = 1
	valueHeadBytes = 8
	zippedAt       = valueHeadBytes + 4
)

// A snapshot in etcd, or kept by members, is a snapshot file, or these 8 bytes, its length in 8, and it as one zstd frame.
var snapshotHead = []byte{'M', 'C', 'K', 'Z', 1, codecZstd, 0, 0}

const snapshotZippedAt = 16

// The zipper keeps no state between two uses and starts no goroutine. The unzipper makes nothing longer than a value can
// be; the one for snapshots is made for each.
//
// They are made at the start, not at the first use: what they have inside would belong to the simulation that uses them
// first, and could not be used by the next.
var (
	zipper = always(func() *zstd.Encoder {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
		if err != nil {
			return nil // it does not happen: the options are constants; values would stay as they are
		}
		z.EncodeAll([]byte{0}, nil) // until then it is not complete
		return z
	})
	unzipper = always(func() *zstd.Decoder { return newUnzipper(limits.LogValueBytes) })
)

func always[T any](build func() T) func() T {
	v := build()
	return func() T { return v }
}

func newUnzipper(limit uint64) *zstd.Decoder {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(max(limit, 1)), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil // as above
	}
	return z
}

// packValue makes a value smaller, if that is worth it. It may return the value itself.
func packValue(value []byte) []byte {
	raw := value[valueHeadBytes:]
	if zipper() == nil || len(raw) < limits.LogZipBytes || len(raw) > limits.LogValueBytes {
		return value
	}
	zipped := make([]byte, zippedAt, zippedAt+len(raw)/2)
	copy(zipped, valueHead)
	zipped[codecAt] = codecZstd
	binary.LittleEndian.PutUint32(zipped[valueHeadBytes:], uint32(len(raw)))
	if zipped = zipper().EncodeAll(raw, zipped); len(zipped) >= len(value) {
		return value
	}
	return zipped
}

// joiner puts values together in one. What is packed stays packed: it is the work of unpacking and packing that joining would
// cost. Values that are not, are packed together, since small ones are the smaller for it.
type joiner struct {
	zipped, plain []byte
	raw           int // bytes of records
}

// rawOf tells how many bytes of records a value has, and what they are packed in; a value that is not packed is them.
func rawOf(value []byte) (raw int, body []byte, zipped bool) {
	if len(value) >= zippedAt && value[codecAt] == codecZstd {
		return int(binary.LittleEndian.Uint32(value[valueHeadBytes:])), value[zippedAt:], true
	}
	body = value[min(valueHeadBytes, len(value)):]
	return len(body), body, false
}

// fits tells whether a value may be added: neither what lies in etcd nor what it is unpacked to gets too large.
func (j *joiner) fits(value []byte) bool {
	raw, body, _ := rawOf(value)
	return zippedAt+len(j.zipped)+len(j.plain)+len(body) <= limits.LogRollBytes && j.raw+raw <= limits.LogRollRawBytes
}

// add appends a value, which must be sound.
func (j *joiner) add(value []byte) error {
	raw, body, zipped := rawOf(value)
	j.raw += raw
	if !zipped {
		j.plain = append(j.plain, body...)
		return nil
	}
	err := j.pack()
	j.zipped = append(j.zipped, body...)
	return err
}

// pack adds what is not packed as a frame of its own.
func (j *joiner) pack() error {
	if len(j.plain) == 0 {
		return nil
	}
	z := zipper()
	if z == nil {
		return errNoZstd
	}
	j.zipped = z.EncodeAll(j.plain, j.zipped)
	j.plain = j.plain[:0]
	return nil
}

// value gives the values that were added as one.
func (j *joiner) value() ([]byte, error) {
	if len(j.zipped) == 0 {
		return packValue(append(bytes.Clone(valueHead), j.plain...)), nil
	}
	if err := j.pack(); err != nil {
		return nil, err
	}
	head := bytes.Clone(valueHead)
	head[codecAt] = codecZstd
	return append(binary.LittleEndian.AppendUint32(head, uint32(j.raw)), j.zipped...), nil
}

var errNoZstd = errors.New("zstd is not to be had")

var errNoValue = errors.New("another version wrote it, or something else did")

// unpackValue gives the records of a value. It is bounded by limits.LogValueBytes, whatever the value says.
func unpackValue(value []byte) ([]byte, error) {
	switch {
	case len(value) < valueHeadBytes || !bytes.HasPrefix(value, valueHead[:4]):
		return nil, fmt.Errorf("its value does not begin with %q: %w", valueHead[:4], errDamaged)
	case value[4] != valueHead[4] || value[6] != 0 || value[7] != 0:
		return nil, fmt.Errorf("its value begins with %q: %w", value[:valueHeadBytes], errNoValue)
	}
	switch value[codecAt] {
	case codecPlain:
		return value[valueHeadBytes:], nil
	case codecZstd:
	default:
		return nil, fmt.Errorf("its value has codec %d: %w", value[codecAt], errNoValue)
	}
	if len(value) < zippedAt {
		return nil, fmt.Errorf("it ends inside its head: %w", errDamaged)
	}
	return unzip(unzipper(), value[zippedAt:], uint64(binary.LittleEndian.Uint32(value[valueHeadBytes:])), limits.LogValueBytes)
}

// unzip gives exactly as many bytes as were announced.
func unzip(z *zstd.Decoder, zipped []byte, length, limit uint64) ([]byte, error) {
	if z == nil {
		return nil, errNoZstd
	}
	if length > limit {
		return nil, fmt.Errorf("it announces %d bytes, the limit is %d: %w", length, limit, errDamaged)
	}
	raw, err := z.DecodeAll(zipped, make([]byte, 0, length))
	switch {
	case err != nil:
		return nil, fmt.Errorf("zstd: %w: %w", err, errDamaged)
	case uint64(len(raw)) != length:
		return nil, fmt.Errorf("it has %d bytes instead of %d: %w", len(raw), length, errDamaged)
	}
	return raw, nil
}

// packSnapshot makes the text of a snapshot smaller. It may return the text itself.
func packSnapshot(text []byte) []byte {
	if zipper() == nil || len(text) < limits.LogZipBytes {
		return text
	}
	zipped := make([]byte, snapshotZippedAt, snapshotZippedAt+len(text)/4)
	copy(zipped, snapshotHead)
	binary.LittleEndian.PutUint64(zipped[len(snapshotHead):], uint64(len(text)))
	if zipped = zipper().EncodeAll(text, zipped); len(zipped) >= len(text) || uint64(len(text)) > snapshotLimit(zipped) {
		return text
	}
	return zipped
}

// snapshotLimit bounds what a packed snapshot may become: records of a catalog never shrink to less than that.
func snapshotLimit(packed []byte) uint64 {
	return min(uint64(len(packed))*limits.LogZipRatio, limits.SnapshotBytesMax)
}

// unpackSnapshot gives the text of a snapshot.
func unpackSnapshot(packed []byte) ([]byte, error) {
	if !bytes.HasPrefix(packed, snapshotHead) {
		return packed, nil // as it is; whoever reads it looks at its head
	}
	if len(packed) < snapshotZippedAt {
		return nil, errShort
	}
	limit := snapshotLimit(packed)
	z := newUnzipper(limit)
	if z != nil {
		defer z.Close()
	}
	return unzip(z, packed[snapshotZippedAt:], binary.LittleEndian.Uint64(packed[len(snapshotHead):]), limit)
}
