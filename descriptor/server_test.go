package descriptor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"mooncake/internal/limits"
)

// askRaw sends bytes, ends its side only after the answer, as real clients do, and returns all that came back.
func askRaw(t testing.TB, endpoint string, request []byte) []byte {
	t.Helper()
	conn := dial(t, endpoint)
	defer conn.Close()
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil && !errors.Is(err, io.EOF) && len(answer) > 0 {
		t.Fatal(err)
	}
	return answer
}

// The recorded requests of initiators get, byte for byte, what real processes without RDMA answered. (Descriptors differ,
// and release 12 had no "payload", 14 a field more.)
func TestRecordedRequestsAreAnsweredTheSame(t *testing.T) {
	_, endpoint := startServer(t, ServerConfig{})
	for _, file := range recordings(t, "testdata/initiator-*/initiator-hs-type*.us2peer.bin") {
		want := content(t, counterpart(file))
		if strings.Contains(file, "type0") && !strings.Contains(file, "-13-") {
			want = content(t, strings.NewReplacer("-12-", "-13-", "-14-", "-13-").Replace(counterpart(file)))
		}
		if got := askRaw(t, endpoint, content(t, file)); !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", file, got, want)
		}
	}
}

func TestOldPeersGetAnAnswerWithoutATypeByte(t *testing.T) {
	_, endpoint := startServer(t, ServerConfig{})
	want := AppendFrame(nil, Frame{Bare: true, Text: emptyConnection})
	request := AppendFrame(nil, Frame{Bare: true, Text: []byte(`{"local_nic_path":"x@y","qp_num":[1,2]}`)})
	if got := askRaw(t, endpoint, request); !bytes.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMetadataGoesByTheAsker(t *testing.T) {
	askers := make(chan *Segment, 1)
	_, endpoint := startServer(t, ServerConfig{Describe: func(asker *Segment) (*Segment, error) {
		askers <- asker
		own := sample()
		if asker.Protocol == ProtocolRDMA {
			own.Protocol = ProtocolRDMA
		}
		return own, nil
	}})
	for _, file := range recordings(t, "testdata/*/handshake-type1-*.peer2us.bin") {
		frame, err := ReadFrame(bytes.NewReader(askRaw(t, endpoint, content(t, file))), 1<<20)
		if err != nil || frame.Type != FrameMetadata {
			t.Fatalf("%s: %+v, %v", file, frame, err)
		}
		asker := <-askers
		own, err := Parse(frame.Text)
		if err != nil || asker.Name == "" || own.Protocol != asker.Protocol {
			t.Errorf("%s: asker %+v got %+v, %v", file, asker, own, err)
		}
	}
	for _, text := range []string{"{}", `{"name":7}`, `{"protocol":["x"]}`} {
		answer := askRaw(t, endpoint, AppendFrame(nil, Frame{Type: FrameMetadata, Text: []byte(text)}))
		if asker := <-askers; asker == nil || asker.Protocol != "" || len(answer) == 0 {
			t.Errorf("asker %s: seen as %+v, answered %q", text, asker, answer)
		}
	}
}

func TestBadRequestsAreNotAnswered(t *testing.T) {
	server, endpoint := startServer(t, ServerConfig{})
	frame := func(typ FrameType, text string) string {
		return string(AppendFrame(nil, Frame{Type: typ, Text: []byte(text)}))
	}
	bad := []string{
		frame(FrameProbe, ""), frame(FrameProbe, "[]"), frame(FrameProbe, `{"a"`), frame(FrameNotify, "null"), frame(4, "{}"), frame(99, "{}"),
		string(make([]byte, 8)), strings.Repeat("\xff", 100), "GET / HTTP/1.1\r\n\r\n", frame(FrameConnection, "{}{}"),
	}
	for i, request := range bad {
		if answer := askRaw(t, endpoint, []byte(request)); len(answer) != 0 {
			t.Errorf("%q was answered %q", request, answer)
		}
		waitFor(t, "the refusal is counted", func() bool { return server.Stats().Refused == uint64(i+1) })
	}
	if err := Probe(context.Background(), endpoint); err != nil {
		t.Error(err)
	}
	waitFor(t, "the one answer is counted", func() bool { return server.Stats().Answered == [4]uint64{FrameProbe: 1} })
}

func TestOwnersWithoutAnAnswer(t *testing.T) {
	answers := []func() (*Segment, error){
		func() (*Segment, error) { return nil, errors.New("not yet") },
		func() (*Segment, error) {
			own := sample()
			own.Timestamp = strings.Repeat("x", limits.HandshakeFrameBytes)
			return own, nil
		},
	}
	for _, answer := range answers {
		server, endpoint := startServer(t, ServerConfig{Describe: func(*Segment) (*Segment, error) { return answer() }})
		if _, err := Fetch(context.Background(), endpoint); err == nil {
			t.Error("a descriptor came from an owner that gave none")
		}
		waitFor(t, "it is counted", func() bool { return server.Stats().Refused == 1 })
	}
}

// Peers that connect and say nothing, or half of something, hold up nobody and are dropped in time.
func TestStuckPeersDelayNobody(t *testing.T) {
	const stuck = 50
	server, endpoint := startServer(t, ServerConfig{Receive: 300 * time.Millisecond})
	conns := make([]net.Conn, 0, stuck)
	for i := range stuck {
		conn := dial(t, endpoint)
		if i%2 == 0 {
			conn.Write([]byte{20, 0, 0})
		} else {
			conn.Write([]byte("\x14\x00\x00\x00\x00\x00\x00\x00\x01{"))
		}
		conns = append(conns, conn)
	}
	if _, err := Fetch(context.Background(), endpoint); err != nil {
		t.Fatal(err)
	}
	for _, conn := range conns {
		if rest, err := io.ReadAll(conn); err != nil || len(rest) != 0 {
			t.Fatalf("a stuck peer got %q, %v", rest, err)
		}
	}
	waitFor(t, "all are counted and gone", func() bool {
		stats := server.Stats()
		return stats.Stalled == stuck && stats.Active == 0
	})
}

// A client that takes its answer and does not close is let go after a while, and its half-closed side shows at once.
func TestClientThatDoesNotClose(t *testing.T) {
	server, endpoint := startServer(t, ServerConfig{Linger: 100 * time.Millisecond})
	conn := dial(t, endpoint)
	conn.Write(AppendFrame(nil, Frame{Type: FrameProbe, Text: []byte("{}")}))
	if answer, err := io.ReadAll(conn); err != nil || len(answer) == 0 {
		t.Fatalf("answer %q, %v", answer, err)
	}
	waitFor(t, "the connection is gone", func() bool { return server.Stats().Active == 0 })
}

// More askers than places wait for their turn, and all are served.
func TestMoreAskersThanPlaces(t *testing.T) {
	server, endpoint := startServer(t, ServerConfig{Conns: 2})
	var askers sync.WaitGroup
	for range 20 {
		askers.Go(func() {
			if _, err := Fetch(context.Background(), endpoint); err != nil {
				t.Error(err)
			}
		})
	}
	askers.Wait()
	waitFor(t, "all twenty answers are counted", func() bool { return server.Stats().Answered[FrameMetadata] == 20 })
}

// The end of Serve does not wait for peers that say nothing.
func TestEndWithStuckPeers(t *testing.T) {
	server, ln := NewServer(ServerConfig{Describe: func(*Segment) (*Segment, error) { return sample(), nil }}), listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, ln) }()
	silent, lingering := dial(t, ln.Addr().String()), dial(t, ln.Addr().String())
	lingering.Write(AppendFrame(nil, Frame{Type: FrameProbe, Text: []byte("{}")}))
	io.ReadAll(lingering)
	waitFor(t, "both are there", func() bool { return server.Stats().Active == 2 })
	cancel()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	io.ReadAll(silent)
}

func BenchmarkFetch(b *testing.B) {
	_, endpoint := startServer(b, ServerConfig{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Fetch(context.Background(), endpoint); err != nil {
			b.Fatal(err)
		}
	}
}
