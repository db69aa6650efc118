package rpc

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"mooncake/internal/limits"
)

func TestPipelining(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std})
		nc := r.connect(t)
		const calls = 500
		var all []byte
		for i := range calls {
			all = append(all, request(uint32(1000+i), doEcho, fmt.Appendf(nil, "body %d", i))...)
		}
		write(t, nc, all)
		for i := range calls {
			f := readReply(t, nc)
			if f.seq != uint32(1000+i) || f.code != CodeOK || string(f.body) != fmt.Sprintf("body %d", i) {
				t.Fatalf("reply %d: %+v", i, f)
			}
		}
		if got := r.srv.Stats().Frames; got != calls {
			t.Errorf("Stats.Frames = %d, want %d", got, calls)
		}
		if got := r.srv.Stats().BytesIn; got != uint64(len(all)) {
			t.Errorf("Stats.BytesIn = %d, want %d", got, len(all))
		}
	})
}

// Frames of all sizes around the buffer's, in pieces that split headers and bodies everywhere.
func TestFramesInPieces(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std})
		for _, size := range []int{0, 1, 100, limits.RPCBufferBytes - requestHeaderBytes, limits.RPCBufferBytes, limits.RPCKeepBytes + 1, 1 << 20} {
			nc := r.connect(t)
			body := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
			all := append(request(1, doEcho, body), request(2, doEcho, []byte("after"))...)
			step := max(1, len(all)/50)
			go func() {
				for part := range slices.Chunk(all, step) {
					nc.Write(part)
				}
			}()
			if f := readReply(t, nc); f.seq != 1 || !bytes.Equal(f.body, body) {
				t.Fatalf("size %d: wrong echo", size)
			}
			if f := readReply(t, nc); f.seq != 2 || string(f.body) != "after" {
				t.Fatalf("size %d: %+v", size, f)
			}
		}
	})
}

func TestParkedRepliesInAnyOrder(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std})
		nc := r.connect(t)
		const calls = 100
		for i := range calls {
			write(t, nc, request(uint32(i), doPark, nil))
		}
		write(t, nc, request(calls, doEcho, []byte("not held up")))
		if f := readReply(t, nc); f.seq != calls {
			t.Fatalf("first reply is to %d", f.seq)
		}
		var held []parkedCall
		for range calls {
			held = append(held, <-r.parked)
		}
		slices.Reverse(held)
		for _, p := range held {
			if err := p.conn.Reply(p.seq, CodeOK, fmt.Appendf(nil, "late %d", p.seq)); err != nil {
				t.Fatal(err)
			}
		}
		for i := calls - 1; i >= 0; i-- {
			if f := readReply(t, nc); f.seq != uint32(i) || string(f.body) != fmt.Sprintf("late %d", i) {
				t.Fatalf("reply %+v, want %d", f, i)
			}
		}
	})
}

// Replies from many goroutines and from the connection's own at the same time: frames stay whole.
func TestRepliesNeverInterleave(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std})
		nc := r.connect(t)
		const calls = 400
		go func() {
			for i := range calls {
				nc.Write(request(uint32(2*i), doPark, nil))
				nc.Write(request(uint32(2*i+1), doEcho, bytes.Repeat([]byte{byte(2*i + 1)}, 3000)))
			}
		}()
		for range 4 {
			go func() {
				for range calls / 4 {
					p := <-r.parked
					p.conn.Reply(p.seq, CodeOK, bytes.Repeat([]byte{byte(p.seq)}, 5000))
				}
			}()
		}
		seen := map[uint32]bool{}
		for range 2 * calls {
			f := readReply(t, nc)
			want := 5000
			if f.seq%2 == 1 {
				want = 3000
			}
			if seen[f.seq] || len(f.body) != want || !bytes.Equal(f.body, bytes.Repeat([]byte{byte(f.seq)}, want)) {
				t.Fatalf("reply to %d: seen %v, %d bytes", f.seq, seen[f.seq], len(f.body))
			}
			seen[f.seq] = true
		}
	})
}

func TestReplyBeforeServeReturns(t *testing.T) {
	r := start(t, ServerConfig{})
	nc := r.connect(t)
	write(t, nc, request(5, doPeek, nil))
	if f := readReply(t, nc); f.seq != 5 || string(f.body) != "early" {
		t.Fatalf("reply %+v", f)
	}
	write(t, nc, request(6, doSilent, nil))
	if f := readReply(t, nc); f.seq != 6 || len(f.body) != 0 {
		t.Fatalf("reply %+v", f)
	}
}

// What a connection carries after the errors is answered: only broken frames end it.
func TestErrorRepliesKeepTheConnection(t *testing.T) {
	r := start(t, ServerConfig{})
	nc := r.connect(t)
	for i, c := range []struct {
		id   uint32
		code uint8
		text string
	}{{doFail, CodeInvalidArgs, TextInvalidArgs}, {999, CodeUnknownFunction, TextUnknownFunction}, {doEcho, CodeOK, ""}} {
		write(t, nc, request(uint32(i), c.id, nil))
		if f := readReply(t, nc); f.seq != uint32(i) || f.code != c.code || ErrorText(f.body) != c.text {
			t.Fatalf("reply %+v, want code %d", f, c.code)
		}
	}
}

func TestGarbageClosesSilently(t *testing.T) {
	valid := request(1, doEcho, nil)
	with := func(at int, b byte) []byte {
		p := bytes.Clone(valid)
		p[at] = b
		return p
	}
	announce := func(body, attachment uint32) []byte {
		p := bytes.Clone(valid)
		binary.LittleEndian.PutUint32(p[12:], body)
		binary.LittleEndian.PutUint32(p[16:], attachment)
		return p
	}
	cases := []struct {
		name  string
		bytes []byte
		cause error
	}{
		{"wrong magic", with(0, 22), ErrProtocol},
		{"zeros", make([]byte, 100), ErrProtocol},
		{"version 1", with(1, 1), ErrProtocol},
		{"serialization 1", with(2, 1), ErrProtocol},
		{"http", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), ErrProtocol},
		{"tls hello", []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), ErrProtocol},
		{"queue pair record", []byte("\x3e\x3e\xa3\xa2"), ErrProtocol},
		{"one wrong byte", []byte{0}, ErrProtocol},
		{"body of 4 GiB - 1", announce(math.MaxUint32, 0), ErrFrameTooLarge},
		{"attachment of 4 GiB - 1", announce(0, math.MaxUint32), ErrFrameTooLarge},
		{"both", announce(math.MaxUint32, math.MaxUint32), ErrFrameTooLarge},
		{"one above the limit", announce(limits.RPCFrameBytes, 1), ErrFrameTooLarge},
	}
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std})
		for i, c := range cases {
			nc := r.connect(t)
			write(t, nc, c.bytes)
			closedSilently(t, nc)
			if err := r.cause(t); !errors.Is(err, c.cause) {
				t.Errorf("%s: ended by %v, want %v", c.name, err, c.cause)
			}
			if got := r.srv.Stats().ProtocolErrors; got != uint64(i+1) {
				t.Errorf("%s: %d protocol errors counted, want %d", c.name, got, i+1)
			}
		}
		r.stillServes(t)
	})
}

func TestGoodFramesBeforeGarbageAreAnswered(t *testing.T) {
	r := start(t, ServerConfig{})
	nc := r.connect(t)
	write(t, nc, append(request(1, doEcho, []byte("good")), 0xff))
	if f := readReply(t, nc); f.seq != 1 || string(f.body) != "good" {
		t.Fatalf("reply %+v", f)
	}
	closedSilently(t, nc)
}

func TestMessageTypeAndAttachmentAreIgnored(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std})
		nc := r.connect(t)
		for i, attachment := range []int{1, 19, 5000, 300_000} {
			p := request(uint32(i), doEcho, []byte("body"))
			p[3] = 9
			binary.LittleEndian.PutUint32(p[16:], uint32(attachment))
			write(t, nc, p)
			write(t, nc, bytes.Repeat([]byte{0xee}, attachment))
			if f := readReply(t, nc); f.seq != uint32(i) || string(f.body) != "body" {
				t.Fatalf("reply %+v", f)
			}
		}
	})
}

// Golden error replies of the real masters: the same frames, byte for byte.
func TestGoldenErrors(t *testing.T) {
	file, err := os.Open("testdata/errors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := 0
	for sc := bufio.NewScanner(file); sc.Scan(); lines++ {
		var g struct {
			Version, Case string
			RequestHex    string `json:"request_hex"`
			Hex           string
			Code          uint8
		}
		if err := json.Unmarshal(sc.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		req, want := unhex(t, g.RequestHex), unhex(t, g.Hex)
		in := inbox{request: true, limit: limits.RPCFrameBytes}
		in.filled(copy(in.space(), req))
		f, ok, err := in.next()
		if !ok || err != nil {
			t.Fatalf("%s %s: request not read: %v", g.Version, g.Case, err)
		}
		text := TextInvalidArgs
		switch {
		case g.Code == CodeUnknownFunction:
			text = TextUnknownFunction
		case len(want) > ReplyHeaderBytes+9+len(TextInvalidArgs): // 0.3.14 says it differently
			text = "invalid rpc function arguments"
		}
		body := AppendErrorText(nil, text)
		got := append(appendReplyHeader(nil, f.seq, g.Code, len(body)), body...)
		if !bytes.Equal(got, want) {
			t.Errorf("%s %s:\n got %x\nwant %x", g.Version, g.Case, got, want)
		}
		if ErrorText(want[ReplyHeaderBytes:]) != text {
			t.Errorf("%s %s: text read as %q", g.Version, g.Case, ErrorText(want[ReplyHeaderBytes:]))
		}
	}
	if lines != 24 {
		t.Errorf("%d golden lines, want 24", lines)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestHalfFrameIsGivenUp(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std, HalfFrameTimeout: 20 * time.Millisecond})
		whole := request(1, doEcho, make([]byte, 100))
		withAttachment := request(2, doEcho, nil)
		withAttachment[16] = 50
		for _, half := range [][]byte{whole[:1], whole[:19], whole[:20], whole[:119], append(slices.Clone(whole), whole[:7]...), withAttachment} {
			nc := r.connect(t)
			write(t, nc, half)
			if _, err := io.Copy(io.Discard, nc); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("the server did not close")
			}
			if err := r.cause(t); !errors.Is(err, ErrHalfFrame) {
				t.Fatalf("ended by %v", err)
			}
		}
		if got := r.srv.Stats().HalfFrames; got != 6 {
			t.Errorf("Stats.HalfFrames = %d, want 6", got)
		}
	})
}

// A connection that completes its half frame is idle afterwards, and idle connections stay. The end of another one's
// half frame, begun later, is the clock.
func TestIdleConnectionsStay(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std, HalfFrameTimeout: time.Second})
		idle := r.connect(t)
		write(t, idle, request(1, doEcho, make([]byte, 50_000)))
		readReply(t, idle)
		half := r.connect(t)
		write(t, half, request(1, doEcho, nil)[:10])
		closedSilently(t, half)
		write(t, idle, request(2, doEcho, nil))
		if f := readReply(t, idle); f.seq != 2 {
			t.Fatalf("reply %+v", f)
		}
	})
}

func TestIdleTimeout(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std, IdleTimeout: 500 * time.Millisecond})
		never := r.connect(t) // asks nothing at all
		closedSilently(t, never)
		if err := r.cause(t); !errors.Is(err, ErrIdle) {
			t.Fatalf("ended by %v", err)
		}
		asked := r.connect(t)
		write(t, asked, request(1, doEcho, nil))
		readReply(t, asked)
		closedSilently(t, asked)
		if err := r.cause(t); !errors.Is(err, ErrIdle) {
			t.Fatalf("ended by %v", err)
		}
		// Who waits for a parked reply is not idle.
		waits := r.connect(t)
		write(t, waits, request(1, doPark, nil))
		p := <-r.parked
		gone := r.connect(t) // when this one is dropped, the other has been idle for longer
		closedSilently(t, gone)
		if err := p.conn.Reply(p.seq, CodeOK, []byte("still here")); err != nil {
			t.Fatal(err)
		}
		if f := readReply(t, waits); string(f.body) != "still here" {
			t.Fatalf("reply %+v", f)
		}
	})
}
