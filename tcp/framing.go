package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes of the fixed parts on the wire.
const (
	requestBytes = 24
	statusBytes  = 8
)

// opcode is what a request wants.
type opcode uint8

const (
	opRead  opcode = 0
	opWrite opcode = 1
	// acknowledgedBit in the opcode byte asks for a status (version 2 of the protocol).
	acknowledgedBit = 0x80
)

// Status codes of the acknowledged framing, and the mark in the upper half of the frame ("MCTV").
const (
	statusOK      = 0
	statusRefused = 1
	statusMark    = 0x4D435456
)

var (
	statusFrameOK      = appendStatus(nil, statusOK)
	statusFrameRefused = appendStatus(nil, statusRefused)
)

// ErrRefused is the cause when the holder refuses the range of a request.
var ErrRefused = errors.New("range refused by the holder")

// ErrProtocol is the cause when the holder answers something that is not a status.
var ErrProtocol = errors.New("answer is not a status frame")

// request is the header that begins every request: size, address, opcode, and seven bytes that mean nothing.
type request struct {
	size         uint64
	addr         uint64
	op           opcode
	acknowledged bool
}

// parseRequest reads a header. Every bit pattern is a request; whether it can be served is for the server to say.
func parseRequest(b *[requestBytes]byte) request {
	return request{
		size:         binary.LittleEndian.Uint64(b[0:]),
		addr:         binary.LittleEndian.Uint64(b[8:]),
		op:           opcode(b[16] &^ acknowledgedBit),
		acknowledged: b[16]&acknowledgedBit != 0,
	}
}

func appendRequest(dst []byte, r request) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, r.size)
	dst = binary.LittleEndian.AppendUint64(dst, r.addr)
	code := byte(r.op)
	if r.acknowledged {
		code |= acknowledgedBit
	}
	return append(dst, code, 0, 0, 0, 0, 0, 0, 0)
}

func appendStatus(dst []byte, code uint32) []byte {
	return binary.LittleEndian.AppendUint64(dst, statusMark<<32|uint64(code))
}

// parseStatus returns nil for "ok", ErrRefused for a refused range, and ErrProtocol for anything that is no status.
func parseStatus(b *[statusBytes]byte) error {
	frame := binary.LittleEndian.Uint64(b[:])
	code := uint32(frame)
	switch {
	case frame>>32 != statusMark:
		return fmt.Errorf("%w: % x", ErrProtocol, b[:])
	case code == statusOK:
		return nil
	case code == statusRefused:
		return ErrRefused
	}
	return fmt.Errorf("%w: code %d", ErrRefused, code)
}
