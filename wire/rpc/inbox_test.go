package rpc

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"testing"

	"pgregory.net/rapid"

	"mooncake/internal/limits"
)

// split takes a whole stream apart, without any care for pieces or memory: what inbox must come to as well.
func split(stream []byte, request bool, limit int64) (frames []frame, rest bool, err error) {
	header := ReplyHeaderBytes
	if request {
		header = requestHeaderBytes
	}
	for len(stream) > 0 {
		if err := checkStart(stream, request); err != nil {
			return frames, true, err
		}
		if len(stream) < header {
			return frames, true, nil
		}
		f, bodyBytes, attachmentBytes := parseReply(stream)
		if request {
			f, bodyBytes, attachmentBytes = parseRequest(stream)
		}
		if bodyBytes+attachmentBytes > limit {
			return frames, true, ErrFrameTooLarge
		}
		stream = stream[header:]
		if int64(len(stream)) < bodyBytes {
			return frames, true, nil
		}
		f.body = stream[:bodyBytes]
		frames = append(frames, f)
		stream = stream[bodyBytes:]
		if int64(len(stream)) < attachmentBytes {
			return frames, true, nil
		}
		stream = stream[attachmentBytes:]
	}
	return frames, false, nil
}

// checkInbox feeds a stream in pieces, whose sizes step gives, and compares with split.
func checkInbox(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, stream []byte, request bool, limit int64, step func() int,
) {
	t.Helper()
	want, wantRest, wantErr := split(stream, request, limit)
	in := inbox{request: request, limit: limit}
	taken := 0
	for at := 0; at < len(stream); {
		space := in.space()
		if len(space) == 0 {
			t.Fatalf("no space after %d bytes", at)
		}
		n := copy(space, stream[at:min(len(stream), at+max(1, step()))])
		at += n
		in.filled(n)
		for {
			f, ok, err := in.next()
			if err != nil {
				if !errors.Is(err, wantErr) || taken != len(want) {
					t.Fatalf("frame %d of %d: error %v, want %v", taken, len(want), err, wantErr)
				}
				return
			}
			if !ok {
				break
			}
			if taken == len(want) {
				t.Fatalf("a frame too many after %d", taken)
			}
			w := want[taken]
			if f.seq != w.seq || f.functionID != w.functionID || f.code != w.code || !bytes.Equal(f.body, w.body) {
				t.Fatalf("frame %d: %+v, want %+v", taken, f, w)
			}
			taken++
		}
		_ = in.settle() // nobody counts here
		if len(in.buf) > max(2*at, limits.RPCKeepBytes) {
			t.Fatalf("%d bytes of buffer for %d bytes that came", len(in.buf), at)
		}
	}
	if wantErr != nil || taken != len(want) || in.partial() != wantRest {
		t.Fatalf("%d frames of %d, partial %v; want partial %v, error %v", taken, len(want), in.partial(), wantRest, wantErr)
	}
}

func FuzzInbox(f *testing.F) {
	file, err := os.Open("testdata/errors.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	var all []byte
	for sc := bufio.NewScanner(file); sc.Scan(); {
		var g struct {
			RequestHex string `json:"request_hex"`
			Hex        string
		}
		if err := json.Unmarshal(sc.Bytes(), &g); err != nil {
			f.Fatal(err)
		}
		f.Add(unhex(f, g.RequestHex), true, uint16(7))
		f.Add(unhex(f, g.Hex), false, uint16(3))
		all = append(all, unhex(f, g.RequestHex)...)
	}
	f.Add(all, true, uint16(50))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), true, uint16(1))
	withAttachment := request(1, 2, []byte("body"))
	withAttachment[16] = 5
	f.Add(append(withAttachment, "12345"...), true, uint16(4))
	f.Fuzz(func(t *testing.T, stream []byte, request bool, step uint16) {
		checkInbox(t, stream, request, 1<<20, func() int { return int(step) })
	})
}

func TestInboxProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		isRequest := rapid.Bool().Draw(t, "request")
		sizes := rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(0, 200_000))
		var stream []byte
		for i := range rapid.IntRange(0, 8).Draw(t, "frames") {
			body := bytes.Repeat([]byte{byte(i)}, sizes.Draw(t, "body"))
			attachment := rapid.SampledFrom([]int{0, 0, 0, 1, 30, 70_000}).Draw(t, "attachment")
			at := len(stream)
			if isRequest {
				stream = AppendRequestHeader(stream, uint32(i), 5, len(body))
				binary.LittleEndian.PutUint32(stream[at+16:], uint32(attachment))
			} else {
				stream = appendReplyHeader(stream, uint32(i), byte(i), len(body))
				binary.LittleEndian.PutUint32(stream[at+12:], uint32(attachment))
			}
			stream = append(stream, body...)
			stream = append(stream, make([]byte, attachment)...)
		}
		cut := rapid.IntRange(0, 50).Draw(t, "cut")
		stream = stream[:max(0, len(stream)-cut)]
		steps := rapid.SampledFrom([]int{1, 19, 20, 21, 500, 8191, 8192, 100_000})
		big := len(stream) > 20_000
		checkInbox(t, stream, isRequest, limits.RPCFrameBytes, func() int {
			n := steps.Draw(t, "step")
			if big {
				n = max(n, 500)
			}
			return n
		})
	})
}

// An announced length alone takes no memory; the buffer follows the bytes and goes back afterwards.
func TestInboxGrowsWithWhatCame(t *testing.T) {
	const body = 40 << 20
	in := inbox{request: true, limit: limits.RPCFrameBytes}
	stream := AppendRequestHeader(nil, 1, 2, body)
	in.filled(copy(in.space(), stream))
	if _, ok, err := in.next(); ok || err != nil {
		t.Fatal(ok, err)
	}
	_ = in.settle() // nobody counts here
	if len(in.buf) != limits.RPCBufferBytes {
		t.Fatalf("%d bytes of buffer for a header", len(in.buf))
	}
	came := requestHeaderBytes
	for came < requestHeaderBytes+body {
		n := len(in.space())
		in.filled(n)
		came += n
		f, ok, err := in.next()
		if err != nil || ok != (came == requestHeaderBytes+body) {
			t.Fatalf("after %d bytes: %v, %v", came, ok, err)
		}
		if ok && len(f.body) != body {
			t.Fatalf("body of %d bytes", len(f.body))
		}
		_ = in.settle() // nobody counts here
		if len(in.buf) > max(2*came, limits.RPCKeepBytes) {
			t.Fatalf("%d bytes of buffer for %d that came", len(in.buf), came)
		}
	}
	if in.partial() || len(in.space()) != limits.RPCBufferBytes {
		t.Fatalf("%d bytes of buffer kept", len(in.buf))
	}
}

// A peer with many calls in flight gets a larger buffer, a quiet one keeps the small one.
func TestInboxFollowsLoad(t *testing.T) {
	in := inbox{request: true, limit: limits.RPCFrameBytes}
	for range 10 {
		space := in.space()
		frames := len(space) / 32
		for i := range frames {
			copy(space[32*i:], request(uint32(i), 1, make([]byte, 12)))
		}
		in.filled(32 * frames)
		for got := 0; ; got++ {
			_, ok, err := in.next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				if got != frames {
					t.Fatalf("%d frames of %d", got, frames)
				}
				break
			}
		}
		_ = in.settle() // nobody counts here
	}
	if len(in.buf) != limits.RPCKeepBytes {
		t.Fatalf("%d bytes of buffer under load, want %d", len(in.buf), limits.RPCKeepBytes)
	}
}

func TestErrorText(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), math.MaxUint16+10))
	for _, text := range []string{"", "a", long[:255], long[:256], long[:math.MaxUint16]} {
		if got := ErrorText(AppendErrorText(nil, text)); got != text {
			t.Errorf("%d bytes: read back %d", len(text), len(got))
		}
	}
	if got := ErrorText(AppendErrorText(nil, long)); got != long[:math.MaxUint16] {
		t.Errorf("long text: %d bytes", len(got))
	}
	whole := AppendErrorText(nil, "hello")
	for cut := range whole {
		if got := ErrorText(whole[:cut]); got != "hello"[:max(0, cut-9)] {
			t.Errorf("cut at %d: %q", cut, got)
		}
	}
	for _, body := range []string{"", "garbage of some length", "\x77\xfa\xcf\x9d\x00\x80\x0c\x00\x05hello"} {
		if got := ErrorText([]byte(body)); got != "" {
			t.Errorf("%q: %q", body, got)
		}
	}
}

func FuzzErrorText(f *testing.F) {
	f.Add(AppendErrorText(nil, TextInvalidArgs))
	f.Add(AppendErrorText(nil, string(make([]byte, 300))))
	f.Fuzz(func(t *testing.T, body []byte) {
		text := ErrorText(body)
		if len(text) > len(body) {
			t.Fatal("a text longer than its body")
		}
		if got := ErrorText(AppendErrorText(nil, text)); got != text {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
