package descriptor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"mooncake/internal/limits"
)

// FrameType says what a handshake frame asks for. The answer carries the type of the request.
type FrameType uint8

// The four requests of the handshake port.
const (
	// FrameConnection exchanges RDMA queue pairs.
	FrameConnection FrameType = iota
	// FrameMetadata asks for the segment descriptor and carries the asker's own.
	FrameMetadata
	// FrameNotify delivers a short message to the process.
	FrameNotify
	// FrameProbe asks whether the process is there.
	FrameProbe
	frameTypes // the first value that is not a type
)

// frameLengthBytes is the size of the length that begins a frame.
const frameLengthBytes = 8

// Frame is one request or answer: a u64 length in little-endian order, a type byte, and a JSON text.
type Frame struct {
	Type FrameType
	// Bare marks a frame of an old peer: no type byte, always FrameConnection. Its answer must be bare as well.
	Bare bool
	Text []byte
}

// ErrFrameLength is the cause when a frame announces a length that is refused before any memory is taken for it.
var ErrFrameLength = errors.New("frame length out of bounds")

// errFrameType is the cause when the first byte of a frame is neither a type nor the beginning of a JSON text.
var errFrameType = errors.New("unknown frame type")

// AppendFrame appends the frame as it goes over the wire.
func AppendFrame(dst []byte, f Frame) []byte {
	length := uint64(len(f.Text))
	if !f.Bare {
		length++
	}
	dst = binary.LittleEndian.AppendUint64(dst, length)
	if !f.Bare {
		dst = append(dst, byte(f.Type))
	}
	return append(dst, f.Text...)
}

// ReadFrame reads one frame. A length of 0 or above maxBytes is refused; memory grows with what arrives, never with what
// was announced.
func ReadFrame(r io.Reader, maxBytes int) (Frame, error) {
	var head [frameLengthBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	length := binary.LittleEndian.Uint64(head[:])
	if length == 0 || length > uint64(maxBytes) {
		return Frame{}, fmt.Errorf("%w: %d, limit %d", ErrFrameLength, length, maxBytes)
	}
	var payload bytes.Buffer
	if _, err := io.CopyN(&payload, r, int64(length)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	return splitPayload(payload.Bytes())
}

// splitPayload separates type byte and text. A text that begins at once is an old peer's. Any other first byte is a type
// nobody has defined yet, and is not answered.
func splitPayload(payload []byte) (Frame, error) {
	if FrameType(payload[0]) < frameTypes {
		return Frame{Type: FrameType(payload[0]), Text: payload[1:]}, nil
	}
	if text := bytes.TrimLeft(payload, " \t\r\n"); len(text) > 0 && text[0] == '{' {
		return Frame{Type: FrameConnection, Bare: true, Text: payload}, nil
	}
	return Frame{}, fmt.Errorf("%w %d", errFrameType, payload[0])
}

// FrameBytesMax is the largest frame this process accepts: limits.HandshakeFrameBytes, or what MC_HANDSHAKE_MAX_LENGTH
// says. A descriptor with very many buffers needs it raised on both sides.
func FrameBytesMax() (int, error) {
	const name = "MC_HANDSHAKE_MAX_LENGTH"
	text := os.Getenv(name)
	if text == "" {
		return limits.HandshakeFrameBytes, nil
	}
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil || value < limits.HandshakeFrameBytes || value > limits.HandshakeFrameBytesMax {
		return 0, fmt.Errorf("%s=%q is not a number of bytes from %d to %d",
			name, text, limits.HandshakeFrameBytes, limits.HandshakeFrameBytesMax)
	}
	return int(value), nil
}
