package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mooncake/descriptor"
)

// exchangeOf reads what a real peer sent and what it got, as recorded.
func exchangeOf(t testing.TB, fromPeer string) (sent, got []byte) {
	t.Helper()
	sent, err := os.ReadFile(fromPeer)
	if err != nil {
		t.Fatal(err)
	}
	got, err = os.ReadFile(strings.Replace(fromPeer, ".peer2us.", ".us2peer.", 1))
	if err != nil {
		t.Fatal(err)
	}
	return sent, got
}

func recordings(t testing.TB, glob string) []string {
	t.Helper()
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings match %s: %v", glob, err)
	}
	return files
}

// Requests of the real clients of three releases get, byte for byte, what they got when they were recorded.
func TestRecordedRequestsAreAnsweredTheSame(t *testing.T) {
	for _, file := range recordings(t, "testdata/holder/*/*.peer2us.bin") {
		sent, want := exchangeOf(t, file)
		r := parseRequest((*[requestBytes]byte)(sent))
		arena := make([]byte, r.size)
		if r.op == opRead {
			copy(arena, want[len(want)-int(r.size):])
		}
		server := NewServer(ServerConfig{Options: DefaultOptions()})
		if err := server.AddRegion(r.addr, arena, nil); err != nil {
			t.Fatal(err)
		}
		h := serveOn(t, server, arena, listen(t, "127.0.0.1:0"))
		conn := h.dial(t)
		if _, err := conn.Write(sent); err != nil {
			t.Fatal(err)
		}
		conn.(*net.TCPConn).CloseWrite()
		got, err := io.ReadAll(conn)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: answered % x, %v, recorded % x", file, got, err, want)
		}
		h.stop()
		if r.op == opWrite && !bytes.Equal(arena, sent[requestBytes:]) {
			t.Errorf("%s: memory holds % x after the write", file, arena)
		}
	}
}

// Our initiator sends what the recorded one sent to real holders, and understands their answers.
func TestInitiatorSpeaksToRecordedHolders(t *testing.T) {
	dialer := startDialer(t, DialerConfig{Options: DefaultOptions()})
	for _, file := range recordings(t, "testdata/initiator/*/*.us2peer.bin") {
		if strings.Contains(file, "-v1-write-") {
			continue // ours reads the last byte back, which was not recorded
		}
		request, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := os.ReadFile(strings.Replace(file, ".us2peer.", ".peer2us.", 1))
		if err != nil {
			t.Fatal(err)
		}
		r := parseRequest((*[requestBytes]byte)(request))
		version := descriptor.TCPUnacknowledged
		if r.acknowledged {
			version = descriptor.TCPAcknowledged
		}
		ln := listen(t, "127.0.0.1:0")
		heard := make(chan []byte, 1)
		go func() { heard <- playHolder(ln, len(request), answer) }()
		target := targetFor(ln.Addr().(*net.TCPAddr).Port, version)
		body := make([]byte, r.size)
		if r.op == opRead {
			err = dialer.Read(context.Background(), target, r.addr, body)
		} else {
			copy(body, request[requestBytes:])
			err = dialer.Write(context.Background(), target, r.addr, body)
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if got := <-heard; !bytes.Equal(got, request) {
			t.Errorf("%s: sent % x, recorded % x", file, got, request)
		}
		if r.op == opRead && !bytes.Equal(body, answer[len(answer)-int(r.size):]) {
			t.Errorf("%s: read % x", file, body)
		}
		ln.Close()
	}
}

// playHolder takes one request of a known length and gives a recorded answer.
func playHolder(ln net.Listener, requestLength int, answer []byte) []byte {
	conn, err := ln.Accept()
	if err != nil {
		return nil
	}
	defer conn.Close()
	request := make([]byte, requestLength)
	if _, err := io.ReadFull(conn, request); err != nil {
		return nil
	}
	conn.Write(answer)
	return request
}

func FuzzParseRequest(f *testing.F) {
	for _, file := range recordings(f, "testdata/holder/*/*.peer2us.bin") {
		sent, _ := exchangeOf(f, file)
		f.Add(sent[:requestBytes])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < requestBytes {
			return
		}
		r := parseRequest((*[requestBytes]byte)(b))
		again := parseRequest((*[requestBytes]byte)(appendRequest(nil, r)))
		if again != r {
			t.Fatalf("%+v, encoded and read again %+v", r, again)
		}
		// No request may reach outside the region, however its numbers are chosen.
		small := &region{base: testBase, mem: make([]byte, 64)}
		if window := small.window(r.addr, r.size); window != nil && uint64(len(window)) != r.size {
			t.Fatalf("%+v got a window of %d bytes", r, len(window))
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add(statusFrameOK)
	f.Add(statusFrameRefused)
	f.Add(binary.LittleEndian.AppendUint64(nil, 7))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < statusBytes {
			return
		}
		err := parseStatus((*[statusBytes]byte)(b))
		if (err == nil) != bytes.Equal(b[:statusBytes], statusFrameOK) {
			t.Fatalf("status % x: %v", b[:statusBytes], err)
		}
	})
}
