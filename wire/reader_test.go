package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"mooncake/wire/pack"
)

// parts is a recorded body taken apart.
type parts struct {
	hash    uint32
	meta    byte
	total   int // bytes of the total length
	literal []byte
	data    []byte
}

func takeApart(t testing.TB, body []byte) parts {
	t.Helper()
	p := parts{hash: binary.LittleEndian.Uint32(body) &^ 1, meta: body[4]}
	at := 5
	if n := p.meta & 3; n != 0 {
		p.total = 1 << n
		at += p.total
	}
	end := bytes.IndexByte(body[at:], 0)
	p.literal, p.data = body[at:at+end], body[at+end+1:]
	return p
}

// build puts a body together; a total length is made to fit.
func (p parts) build(withLiteral bool) []byte {
	b := binary.LittleEndian.AppendUint32(nil, p.hash|1)
	meta := p.meta &^ 4
	if withLiteral {
		meta |= 4
	}
	b = append(b, meta)
	b = append(b, make([]byte, p.total)...)
	if withLiteral {
		b = append(append(b, p.literal...), 0)
	}
	b = append(b, p.data...)
	for i := range p.total {
		b[5+i] = byte(uint64(len(b)) >> (8 * i))
	}
	return b
}

// forEachBody calls visit with every recorded body that has one.
func forEachBody(t testing.TB, visit func(f *frame, call CallID, d Dialect, body []byte)) {
	frames := readFrames(t, "0*.jsonl.gz")
	for i := range frames {
		f := &frames[i]
		if body := f.body(t); len(body) > 0 {
			visit(f, f.call(t), f.dialect(t), body)
		}
	}
}

// decode reads a request or reply body and writes it again.
func decode(f *frame, call CallID, d Dialect, body []byte) ([]byte, error) {
	codec := everyCall[call]
	if f.Dir == "req" {
		x, err := codec.decodeRequestAny(body, d)
		return codec.appendRequestAny(nil, d, x), err
	}
	x, err := codec.decodeReplyAny(body, d)
	return codec.appendReplyAny(nil, d, x), err
}

// TestOtherFormsOfRecordedBodies: a body without its literal, with bytes behind its end, or wrapped in a 1-tuple means the
// same; one with a wrong literal or a wrong hash is refused.
func TestOtherFormsOfRecordedBodies(t *testing.T) {
	forEachBody(t, func(f *frame, call CallID, d Dialect, body []byte) {
		want, err := decode(f, call, d, body)
		if err != nil {
			t.Fatal(err)
		}
		p := takeApart(t, body)
		same := map[string][]byte{
			"without literal": p.build(false),
			"trailing bytes":  append(bytes.Clone(body), 0, 0, 0, 0, 0, 0, 0, 0),
		}
		if f.Dir == "rsp" || !bytes.HasPrefix(p.literal, []byte{0xfd}) || call == CallPing {
			w := p
			literal := pack.LiteralStruct(string(p.literal))
			w.hash, w.literal = pack.Hash(literal), []byte(literal)
			same["in a 1-tuple"] = w.build(true)
			same["in a 1-tuple without literal"] = w.build(false)
		}
		if p.meta == 4 {
			flagless := binary.LittleEndian.AppendUint32(nil, p.hash)
			same["without meta byte"] = append(flagless, p.data...)
		}
		for name, b := range same {
			got, err := decode(f, call, d, b)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s:%d: %s %s: %v", f.file, f.line, f.RPC, name, err)
			}
		}
		wrong := p
		wrong.literal = bytes.Clone(p.literal)
		wrong.literal[len(wrong.literal)-1] ^= 0x40
		if _, err := decode(f, call, d, wrong.build(true)); !errors.Is(err, pack.ErrLiteral) {
			t.Errorf("%s:%d: %s with a wrong literal: %v", f.file, f.line, f.RPC, err)
		}
		wrong.hash ^= 0x100
		if _, err := decode(f, call, d, wrong.build(true)); !errors.Is(err, pack.ErrHash) {
			t.Errorf("%s:%d: %s with a wrong hash: %v", f.file, f.line, f.RPC, err)
		}
	})
}

// TestCutBodies: no recorded body can lose a byte of its plain data unnoticed, and none makes a decoder panic.
func TestCutBodies(t *testing.T) {
	forEachBody(t, func(f *frame, call CallID, d Dialect, body []byte) {
		compat := takeApart(t, body).total > 0
		step := max(1, len(body)/200) // bodies of 70 kB are cut at 200 places
		for n := 0; n < len(body); n += step {
			if _, err := decode(f, call, d, body[:n]); err == nil && !compat {
				t.Errorf("%s:%d: %s cut to %d of %d bytes is accepted", f.file, f.line, f.RPC, n, len(body))
				return
			}
		}
	})
}

// TestDialectsReadEachOther: 13 skips the compatible fields of 14, and 14 takes them as absent in what 13 wrote.
func TestDialectsReadEachOther(t *testing.T) {
	forEachBody(t, func(f *frame, call CallID, d Dialect, body []byte) {
		if d == V12 || !call.Releases().Has(V13) || call == CallBatchReplicaClear {
			return
		}
		other := V13 + V14 - d
		again, err := decode(f, call, other, body)
		if err != nil {
			t.Errorf("%s:%d: %s of %v read as %v: %v", f.file, f.line, f.RPC, d, other, err)
			return
		}
		back, err := decode(f, call, d, again)
		if err != nil {
			t.Errorf("%s:%d: %s of %v read as %v and back: %v", f.file, f.line, f.RPC, d, other, err)
		}
		if d == V13 && !bytes.Equal(back, body) {
			t.Errorf("%s:%d: %s of 13 loses something on its way through 14", f.file, f.line, f.RPC)
		}
	})
}
