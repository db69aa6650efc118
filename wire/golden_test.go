package wire

import (
	"bytes"
	"encoding/binary"
	"testing"

	"mooncake/wire/pack"
)

// TestGoldenFrames decodes what published wheels and masters said, compares the values, and writes the same bytes again.
func TestGoldenFrames(t *testing.T) {
	frames := readFrames(t, "0*.jsonl.gz")
	if len(frames) != 1340 {
		t.Errorf("%d frames, want 1340", len(frames))
	}
	inexact := 0
	for i := range frames {
		f := &frames[i]
		if !f.Exact {
			inexact++
		}
		checkFrame(t, f)
	}
	if inexact != 1 {
		t.Errorf("%d frames with padding of their own, want 1", inexact)
	}
}

func checkFrame(t *testing.T, f *frame) {
	t.Helper()
	call, d, body := f.call(t), f.dialect(t), f.body(t)
	codec := everyCall[call]
	var x any
	var err error
	var again []byte
	if f.Dir == "req" {
		set, acceptErr := call.Accepts(body)
		if acceptErr != nil || !set.Has(d) {
			t.Errorf("%s:%d: %s accepts %q: %v", f.file, f.line, f.RPC, set, acceptErr)
		}
		x, err = codec.decodeRequestAny(body, d)
		again = codec.appendRequestAny(nil, d, x)
	} else {
		x, err = codec.decodeReplyAny(body, d)
		again = codec.appendReplyAny(nil, d, x)
	}
	if err != nil {
		t.Errorf("%s:%d: %v", f.file, f.line, err)
		return
	}
	checkDecoded(t, f, x)
	if !f.Exact {
		if len(again) != len(body) {
			t.Errorf("%s:%d: %s writes %d bytes, want %d", f.file, f.line, f.RPC, len(again), len(body))
		}
	} else if !bytes.Equal(again, body) {
		t.Errorf("%s:%d: %s %s writes\n%x, want\n%x", f.file, f.line, f.RPC, f.Dir, again, body)
	}
}

// TestGoldenErrors reads the replies of real masters to bad requests, and refuses the same requests.
func TestGoldenErrors(t *testing.T) {
	for _, f := range readFrames(t, "errors.jsonl.gz") {
		reply := unhex(t, f.Hex)[replyHead:]
		text, err := pack.DecodeText(reply)
		if err != nil {
			t.Errorf("%s %s: %v", f.Version, f.Case, err)
			continue
		}
		if again := pack.AppendText(nil, text); !bytes.Equal(again, reply) {
			t.Errorf("%s %s: writes %x, want %x", f.Version, f.Case, again, reply)
		}
		checkRefused(t, &f)
	}
}

// checkRefused sends a request that a real master answered with an error code through our reader: unknown functions (11)
// are not found, bad arguments (4) do not decode.
func checkRefused(t *testing.T, f *frame) {
	t.Helper()
	raw := unhex(t, f.RequestHex)
	call, known := Lookup(binary.LittleEndian.Uint32(raw[8:]))
	switch f.Code {
	case 11:
		if known {
			t.Errorf("%s %s: function is known as %v", f.Version, f.Case, call)
		}
	case 4:
		if !known {
			t.Fatalf("%s %s: unknown function", f.Version, f.Case)
		}
		if _, err := everyCall[call].decodeRequestAny(raw[requestHead:], f.dialect(t)); err == nil {
			t.Errorf("%s %s: request is accepted", f.Version, f.Case)
		}
	default:
		t.Errorf("%s %s: unexpected code %d", f.Version, f.Case, f.Code)
	}
}
