package descriptor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// play serves one connection with a fixed answer and returns what was asked.
func play(ln net.Listener, answer []byte) []byte {
	conn, err := ln.Accept()
	if err != nil {
		return nil
	}
	defer conn.Close()
	frame, err := ReadFrame(conn, 1<<20)
	if err != nil {
		return nil
	}
	conn.Write(answer)
	return AppendFrame(nil, frame)
}

// Our client understands what real processes of three releases answered, and sends what was recorded.
func TestFetchFromRecordedHolders(t *testing.T) {
	for _, file := range recordings(t, "testdata/*/initiator-metadata-*.peer2us.bin") {
		ln := listen(t)
		asked := make(chan []byte, 1)
		go func() { asked <- play(ln, content(t, file)) }()
		self := &Segment{Name: "probe:1", Protocol: ProtocolTCP, TCPDataPort: 1, TCPProtoVersion: TCPAcknowledged}
		c := Client{Self: func() *Segment { return self }}
		s, err := c.Fetch(context.Background(), ln.Addr().String())
		if err != nil || len(s.Buffers) == 0 {
			t.Errorf("%s: %+v, %v", file, s, err)
		}
		if got, want := <-asked, content(t, counterpart(file)); !bytes.Equal(got, want) {
			t.Errorf("%s: sent %q, recorded %q", file, got, want)
		}
		ln.Close()
	}
}

func TestProbeOfRecordedHolders(t *testing.T) {
	for _, file := range recordings(t, "testdata/*/initiator-hs-type3-*.peer2us.bin") {
		ln := listen(t)
		asked := make(chan []byte, 1)
		go func() { asked <- play(ln, content(t, file)) }()
		if err := Probe(context.Background(), ln.Addr().String()); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if got, want := <-asked, content(t, counterpart(file)); !bytes.Equal(got, want) {
			t.Errorf("%s: sent %q, recorded %q", file, got, want)
		}
		ln.Close()
	}
}

func TestBadAnswers(t *testing.T) {
	frame := func(typ FrameType, text string) []byte { return AppendFrame(nil, Frame{Type: typ, Text: []byte(text)}) }
	for name, answer := range map[string][]byte{
		"nothing":        nil,
		"garbage":        bytes.Repeat([]byte{0xff}, 64),
		"other type":     frame(FrameProbe, `{"status":"success"}`),
		"no type":        AppendFrame(nil, Frame{Bare: true, Text: []byte(`{"name":"n"}`)}),
		"no name":        frame(FrameMetadata, `{}`),
		"half an answer": frame(FrameMetadata, `{"name":"n"}`)[:12],
	} {
		ln := listen(t)
		done := make(chan struct{})
		go func() { play(ln, answer); close(done) }()
		if s, err := Fetch(context.Background(), ln.Addr().String()); err == nil {
			t.Errorf("%s: fetched %+v", name, s)
		} else {
			mustContain(t, err, ln.Addr().String())
		}
		<-done
		ln.Close()
	}
	for _, text := range []string{`{"status":"failure"}`, `[]`, `{}`} {
		ln := listen(t)
		done := make(chan struct{})
		go func() { play(ln, frame(FrameProbe, text)); close(done) }()
		if err := Probe(context.Background(), ln.Addr().String()); err == nil {
			t.Errorf("probe answered %s succeeded", text)
		}
		<-done
		ln.Close()
	}
}

func TestEndpointsThatDoNotAnswer(t *testing.T) {
	silent := listen(t)
	defer silent.Close()
	c := Client{Reply: 50 * time.Millisecond}
	_, err := c.Fetch(context.Background(), silent.Addr().String())
	mustContain(t, err, "i/o timeout")

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := Fetch(ctx, silent.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a deadline: %v", err)
	}
	gone := listen(t)
	gone.Close()
	if err := Probe(context.Background(), gone.Addr().String()); err == nil {
		t.Error("a port that is closed answered a probe")
	}
	_, err = Fetch(context.Background(), "not:an:endpoint")
	mustContain(t, err, "not:an:endpoint")
	if errors.Is(err, io.EOF) {
		t.Error("a malformed endpoint was dialled")
	}
}
