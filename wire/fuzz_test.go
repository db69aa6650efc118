package wire

import (
	"bytes"
	"testing"
)

// addFrames seeds a fuzz target with the recorded frames of one direction; bodies of many kilobytes teach it nothing more.
func addFrames(f *testing.F, dir string) {
	forEachBody(f, func(fr *frame, call CallID, d Dialect, body []byte) {
		if fr.Dir == dir && len(body) < 4096 {
			f.Add(uint8(call), uint8(d), body)
		}
	})
}

// FuzzRequest: no body makes a decoder panic; what is accepted is written and read again without a change.
func FuzzRequest(f *testing.F) {
	addFrames(f, "req")
	for _, fr := range readFrames(f, "errors.jsonl.gz") {
		if raw := unhex(f, fr.RequestHex); len(raw) > requestHead {
			f.Add(uint8(CallExistKey), uint8(V12), raw[requestHead:])
		}
	}
	f.Fuzz(func(t *testing.T, n, dialect uint8, body []byte) {
		call, d := CallID(n%NumCalls), Dialect(dialect%numDialects)
		set, acceptErr := call.Accepts(body)
		if (set == 0) != (acceptErr != nil) || set&^call.Releases() != 0 {
			t.Fatalf("%v accepts %q, %v", call, set, acceptErr)
		}
		UnavailableReply(nil, call, d, body)
		codec := everyCall[call]
		x, err := codec.decodeRequestAny(body, d)
		if err != nil {
			return
		}
		if acceptErr != nil {
			t.Fatalf("%v decodes in %v what it does not accept: %v", call, d, acceptErr)
		}
		checkStable(t, x, d, codec.appendRequestAny, codec.decodeRequestAny)
	})
}

// FuzzReply is the same for what our client reads.
func FuzzReply(f *testing.F) {
	addFrames(f, "rsp")
	f.Fuzz(func(t *testing.T, n, dialect uint8, body []byte) {
		call, d := CallID(n%NumCalls), Dialect(dialect%numDialects)
		codec := everyCall[call]
		if x, err := codec.decodeReplyAny(body, d); err == nil {
			checkStable(t, x, d, codec.appendReplyAny, codec.decodeReplyAny)
		}
	})
}

func checkStable(t *testing.T, x any, d Dialect, write func([]byte, Dialect, any) []byte, read func([]byte, Dialect) (any, error)) {
	body := write(nil, d, x)
	y, err := read(body, d)
	if err != nil {
		t.Fatalf("own bytes are not read: %v\n%x", err, body)
	}
	if again := write(nil, d, y); !bytes.Equal(again, body) {
		t.Fatalf("writes\n%x, then\n%x", body, again)
	}
}
