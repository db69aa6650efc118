package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Layout of a request: magic, version, serialization, message type, sequence number, function id, body length,
// attachment length. A reply has its error code in place of the serialization and no function id.
const (
	frameMagic         = 21
	frameVersion       = 0
	frameSerialization = 0 // struct_pack
	requestHeaderBytes = 20
	// ReplyHeaderBytes is how long the header of a reply is. Its third byte is the error code, its last eight are the lengths
	// of body and attachment.
	ReplyHeaderBytes = 16
)

// Why a connection was ended by this side. Conn.Cause and the errors of a Client wrap them.
var (
	// ErrProtocol: the peer does not speak this protocol.
	ErrProtocol = errors.New("not a frame of this protocol")
	// ErrFrameTooLarge: a header announced more than the frame limit.
	ErrFrameTooLarge = errors.New("frame larger than the limit")
	// ErrHalfFrame: the rest of a frame did not come in time.
	ErrHalfFrame = errors.New("frame not completed in time")
	// ErrIdle: nothing was asked for as long as the idle timeout.
	ErrIdle = errors.New("connection idle for too long")
	// ErrBusy: all connections together, or those of one address, hold as much of large frames as they may.
	ErrBusy = errors.New("too many large frames under way")
	// ErrSlowReader: the peer does not take its replies.
	ErrSlowReader = errors.New("peer does not read its replies")
	// ErrClosed: the connection, client or server was closed by its owner.
	ErrClosed = errors.New("connection closed")
)

var (
	errMagic         = fmt.Errorf("%w: first byte is not %d", ErrProtocol, frameMagic)
	errVersion       = fmt.Errorf("%w: version above %d", ErrProtocol, frameVersion)
	errSerialization = fmt.Errorf("%w: serialization type is not %d", ErrProtocol, frameSerialization)
	errSequence      = fmt.Errorf("%w: reply with a sequence number nobody waits for", ErrProtocol)
)

// frame is one whole request or reply. The body belongs to the buffer it was read into.
type frame struct {
	seq        uint32
	functionID uint32 // requests only
	code       uint8  // replies only
	body       []byte
}

// checkStart looks at as many of the first bytes as there are, so that a stranger is recognised by its first byte.
func checkStart(b []byte, request bool) error {
	if len(b) > 0 && b[0] != frameMagic {
		return errMagic
	}
	if len(b) > 1 && b[1] > frameVersion {
		return errVersion
	}
	if request && len(b) > 2 && b[2] != frameSerialization {
		return errSerialization
	}
	return nil
}

// parseRequest reads a request header of at least requestHeaderBytes.
func parseRequest(h []byte) (f frame, bodyBytes, attachmentBytes int64) {
	f.seq = binary.LittleEndian.Uint32(h[4:])
	f.functionID = binary.LittleEndian.Uint32(h[8:])
	return f, int64(binary.LittleEndian.Uint32(h[12:])), int64(binary.LittleEndian.Uint32(h[16:]))
}

// parseReply reads a reply header of at least ReplyHeaderBytes.
func parseReply(h []byte) (f frame, bodyBytes, attachmentBytes int64) {
	f.code = h[2]
	f.seq = binary.LittleEndian.Uint32(h[4:])
	return f, int64(binary.LittleEndian.Uint32(h[8:])), int64(binary.LittleEndian.Uint32(h[12:]))
}

// AppendRequestHeader starts a request whose body follows, for who writes to a socket of his own.
func AppendRequestHeader(dst []byte, seq, functionID uint32, bodyBytes int) []byte {
	dst = append(dst, frameMagic, frameVersion, frameSerialization, 0)
	dst = binary.LittleEndian.AppendUint32(dst, seq)
	dst = binary.LittleEndian.AppendUint32(dst, functionID)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(bodyBytes))
	return binary.LittleEndian.AppendUint32(dst, 0)
}

// appendReplyHeader starts a reply whose body follows.
func appendReplyHeader(dst []byte, seq uint32, code uint8, bodyBytes int) []byte {
	dst = append(dst, frameMagic, frameVersion, code, 0)
	dst = binary.LittleEndian.AppendUint32(dst, seq)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(bodyBytes))
	return binary.LittleEndian.AppendUint32(dst, 0)
}
