package calls

import (
	"encoding/binary"
	"errors"

	"mooncake/wire"
)

var errBroken = errors.New("an answer is broken")

// What the first bytes of a body say of its head; see package pack.
const (
	hashBytes    = 4
	metaBit      = 1
	totalMask    = 3
	literalBit   = 4
	widthShift   = 3
	widthMask    = 3
	replicaBytes = 8 + 1 + 16 // id, kind, size and address
	statusBytes  = 4
)

// answer walks over the body of a reply. After a step beyond its end it is broken, and stays so.
type answer struct {
	rest   []byte
	width  int // bytes of a length
	broken bool
}

// open steps over the head.
func open(body []byte) answer {
	a := answer{rest: body, width: 1}
	head := a.take(hashBytes)
	if a.broken || head[0]&metaBit == 0 {
		return a
	}
	meta := a.byte()
	a.width = 1 << (meta >> widthShift & widthMask)
	if total := meta & totalMask; total != 0 {
		a.take(1 << total)
	}
	if meta&literalBit != 0 {
		for !a.broken && a.byte() != 0 {
		}
	}
	return a
}

func (a *answer) take(n int) []byte {
	if a.broken || n < 0 || n > len(a.rest) {
		a.broken = true
		return nil
	}
	out := a.rest[:n]
	a.rest = a.rest[n:]
	return out
}

func (a *answer) byte() byte {
	if b := a.take(1); b != nil {
		return b[0]
	}
	return 0
}

// length reads the length of a container.
func (a *answer) length() int {
	n := 0
	for i, b := range a.take(a.width) {
		n |= int(b) << (8 * i)
	}
	return n
}

// refusal reads the error of a value that is not there.
func (a *answer) refusal() wire.ErrorCode {
	if b := a.take(4); b != nil {
		return wire.ErrorCode(binary.LittleEndian.Uint32(b))
	}
	return 0
}

// replicas steps over a list of copies in memory.
func (a *answer) replicas() {
	for n := a.length(); n > 0 && !a.broken; n-- {
		if b := a.take(replicaBytes); b != nil && b[8] != wire.VariantMemory {
			a.broken = true
		}
		a.take(a.length()) // protocol
		a.take(a.length()) // endpoint
		a.take(statusBytes)
	}
}

// The kinds of values that answers are made of.

func done(a *answer) wire.ErrorCode {
	if a.byte() == 1 {
		return 0
	}
	return a.refusal()
}

// found is that of a question whether something is there, which it has to be.
func found(a *answer) wire.ErrorCode {
	switch {
	case a.byte() == 0:
		return a.refusal()
	case a.byte() == 0:
		return wire.ErrObjectNotFound
	}
	return 0
}

func placed(a *answer) wire.ErrorCode {
	if a.byte() == 0 {
		return a.refusal()
	}
	a.replicas()
	return 0
}

func located(a *answer) wire.ErrorCode {
	if a.byte() == 0 {
		return a.refusal()
	}
	a.replicas()
	a.take(8) // lease
	if a.byte() == 1 {
		a.take(8) // checksum
	}
	return 0
}

// one looks at an answer with one value, each at one with so many.
func one(body []byte, value func(*answer) wire.ErrorCode) (wire.ErrorCode, error) {
	a := open(body)
	code := value(&a)
	if a.broken || len(a.rest) > 0 {
		return 0, errBroken
	}
	return code, nil
}

func each(body []byte, n int, value func(*answer) wire.ErrorCode, refused func(wire.ErrorCode)) error {
	a := open(body)
	if got := a.length(); got != n {
		return errBroken
	}
	for range n {
		if code := value(&a); code != 0 && !a.broken {
			refused(code)
		}
	}
	if a.broken || len(a.rest) > 0 {
		return errBroken
	}
	return nil
}
