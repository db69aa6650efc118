package descriptor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"mooncake/internal/limits"
)

func TestRecordedFramesSurvive(t *testing.T) {
	for _, file := range recordings(t, "testdata/*/*.bin") {
		raw := content(t, file)
		frame, err := ReadFrame(iotest.OneByteReader(bytes.NewReader(raw)), limits.HandshakeFrameBytes)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if again := AppendFrame(nil, frame); !bytes.Equal(again, raw) {
			t.Errorf("%s: written again % x", file, again)
		}
		if frame.Bare {
			t.Errorf("%s: a recorded frame passes for one without a type byte", file)
		}
		if name := file[strings.LastIndexByte(file, '/')+1:]; strings.Contains(name, "type2") != (frame.Type == FrameNotify) ||
			strings.Contains(name, "type3") != (frame.Type == FrameProbe) ||
			(strings.Contains(name, "type1") || strings.Contains(name, "metadata")) != (frame.Type == FrameMetadata) {
			t.Errorf("%s: type %d", file, frame.Type)
		}
	}
}

// An old peer sends its text without a type byte.
func TestFrameOfAnOldPeer(t *testing.T) {
	for _, text := range []string{"{}", `{"qp_num":[1]}` + "\n", " \n{}"} {
		raw := AppendFrame(nil, Frame{Bare: true, Text: []byte(text)})
		frame, err := ReadFrame(bytes.NewReader(raw), 100)
		if err != nil || !frame.Bare || frame.Type != FrameConnection || string(frame.Text) != text {
			t.Errorf("%q: %+v, %v", raw, frame, err)
		}
	}
}

func TestReadFrameRefuses(t *testing.T) {
	length := func(n uint64, rest string) string {
		return string(binary.LittleEndian.AppendUint64(nil, n)) + rest
	}
	for name, c := range map[string]struct {
		raw  string
		want error
	}{
		"nothing":         {"", io.EOF},
		"half a length":   {"\x05\x00\x00", io.ErrUnexpectedEOF},
		"length 0":        {length(0, "{}"), ErrFrameLength},
		"length 2^64-1":   {length(1<<64-1, "\x01{}"), ErrFrameLength},
		"1 TiB":           {length(1<<40, "\x01{}"), ErrFrameLength},
		"over the limit":  {length(101, "\x01"+strings.Repeat(" ", 100)), ErrFrameLength},
		"half a text":     {length(100, "\x01{}"), io.ErrUnexpectedEOF},
		"no text":         {length(100, ""), io.ErrUnexpectedEOF},
		"unknown type":    {length(3, "\x04{}"), errFrameType},
		"type 255":        {length(3, "\xff{}"), errFrameType},
		"not JSON either": {length(3, "GET"), errFrameType},
		"HTTP":            {"GET / HTTP/1.1\r\n\r\n", ErrFrameLength},
	} {
		if frame, err := ReadFrame(strings.NewReader(c.raw), 100); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v, want %v", name, frame, err, c.want)
		}
	}
	if frame, err := ReadFrame(strings.NewReader(length(100, "\x01"+strings.Repeat(" ", 99))), 100); err != nil || len(frame.Text) != 99 {
		t.Errorf("a frame of just the limit: %v", err)
	}
}

// A length that is allowed and never followed by bytes costs no memory.
func TestAnnouncedBytesCostNothing(t *testing.T) {
	raw := binary.LittleEndian.AppendUint64(nil, limits.HandshakeFrameBytesMax)
	bytesUsed := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			ReadFrame(bytes.NewReader(raw), limits.HandshakeFrameBytesMax)
		}
	}).AllocedBytesPerOp()
	if bytesUsed > 64<<10 {
		t.Errorf("reading an announced frame of %d bytes took %d", limits.HandshakeFrameBytesMax, bytesUsed)
	}
}

func TestFrameBytesMax(t *testing.T) {
	for text, want := range map[string]int{"": 1 << 20, "1048576": 1 << 20, "134217728": 128 << 20, "2000000": 2000000} {
		t.Setenv("MC_HANDSHAKE_MAX_LENGTH", text)
		if got, err := FrameBytesMax(); err != nil || got != want {
			t.Errorf("MC_HANDSHAKE_MAX_LENGTH=%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "1", "-1", "134217729", "2MB", "x"} {
		t.Setenv("MC_HANDSHAKE_MAX_LENGTH", text)
		if _, err := FrameBytesMax(); err == nil {
			t.Errorf("MC_HANDSHAKE_MAX_LENGTH=%q is accepted", text)
		}
	}
}

func FuzzReadFrame(f *testing.F) {
	for _, file := range recordings(f, "testdata/*/*.bin") {
		f.Add(content(f, file))
	}
	f.Add(AppendFrame(nil, Frame{Bare: true, Text: []byte("{}")}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := bytes.NewReader(raw)
		frame, err := ReadFrame(r, 1<<16)
		if err != nil {
			return
		}
		consumed := raw[:len(raw)-r.Len()]
		if again := AppendFrame(nil, frame); !bytes.Equal(again, consumed) {
			t.Fatalf("% x, written again % x", consumed, again)
		}
	})
}
