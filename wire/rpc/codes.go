package rpc

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Error codes of a reply header. Any but CodeOK makes a wheel close the connection and report RPC_FAIL.
const (
	CodeOK              = 0
	CodeIO              = 1
	CodeNotConnected    = 2
	CodeTimedOut        = 3
	CodeInvalidArgs     = 4
	CodeAddressInUse    = 5
	CodeBadAddress      = 6
	CodeOpen            = 7
	CodeListen          = 8
	CodeCanceled        = 9
	CodeException       = 10
	CodeUnknownFunction = 11
	CodeProtocol        = 12
	CodeUnknownVersion  = 13
	CodeMessageTooLarge = 14
	CodeServerRan       = 15
	CodeInvalidResult   = 16
	CodeSerialConflict  = 17
)

// Texts that belong to the two codes a server answers; peers do not look at them, people do.
const (
	TextInvalidArgs     = "invalid rpc arg"
	TextUnknownFunction = "the rpc function not registered"
)

// The body of an error reply is a serialized string: hash with the meta flag, meta byte, type literal, length, text.
const (
	stringHash        = 0x9dcffa77
	metaLiteral       = 0x04
	metaLiteralWide   = 0x0c // the same with two-byte lengths
	stringLiteral     = "\x80\x0c\x00"
	errorTextAt       = 4 + 1 + len(stringLiteral)
	errorTextBytesMax = math.MaxUint16
)

// AppendErrorText appends text as the body of an error reply. A text above 65,535 bytes is cut.
func AppendErrorText(dst []byte, text string) []byte {
	text = text[:min(len(text), errorTextBytesMax)]
	dst = binary.LittleEndian.AppendUint32(dst, stringHash)
	if len(text) <= math.MaxUint8 {
		dst = append(dst, metaLiteral)
		dst = append(dst, stringLiteral...)
		dst = append(dst, byte(len(text)))
	} else {
		dst = append(dst, metaLiteralWide)
		dst = append(dst, stringLiteral...)
		dst = binary.LittleEndian.AppendUint16(dst, uint16(len(text)))
	}
	return append(dst, text...)
}

// ErrorText reads the body of an error reply; empty if it is none that AppendErrorText could have made.
func ErrorText(body []byte) string {
	if len(body) < errorTextAt || binary.LittleEndian.Uint32(body) != stringHash {
		return ""
	}
	rest := body[errorTextAt:]
	n := 0
	switch {
	case body[4] == metaLiteral && len(rest) >= 1:
		n, rest = int(rest[0]), rest[1:]
	case body[4] == metaLiteralWide && len(rest) >= 2:
		n, rest = int(binary.LittleEndian.Uint16(rest)), rest[2:]
	}
	return string(rest[:min(n, len(rest))])
}

// CallError is an error reply as Invoke returns it.
type CallError struct {
	Call string // name of the call
	Code uint8
	Text string
}

// Error names the call, the code and what the server said.
func (e *CallError) Error() string {
	return fmt.Sprintf("%s: server answered error %d: %s", e.Call, e.Code, e.Text)
}
