package descriptor

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mooncake/internal/limits"
)

const connectionFrames = "testdata/rdma-*/*.bin"

// recordedConnections are the texts of all recorded requests and answers about queue pairs.
func recordedConnections(t testing.TB) map[string][]byte {
	texts := map[string][]byte{}
	for _, file := range recordings(t, connectionFrames) {
		frame, err := ReadFrame(bytes.NewReader(content(t, file)), 1<<20)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if frame.Type == FrameConnection {
			texts[file] = frame.Text
		}
	}
	return texts
}

// foreign are the fields that a release has and that are left out here.
var foreign = []string{"efa_addr", "ctrl_channel", "notify_qp_num", "notify_rq_depth"}

// What was parsed and written again says the same as the original, but for what is not offered here; texts of release 13
// come out byte for byte.
func TestRecordedConnectionsSurvive(t *testing.T) {
	seen := map[string]int{}
	for file, text := range recordedConnections(t) {
		c, err := ParseConnection(text)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		got, want := c.Encode(), generic(t, text)
		for _, key := range foreign {
			delete(want, key)
		}
		if _, newer := want["payload"]; !newer {
			want["payload"] = ""
		}
		if diff := cmp.Diff(want, generic(t, got)); diff != "" {
			t.Errorf("%s: recorded (-), written again (+):\n%s", file, diff)
		}
		if strings.Contains(file, "13/") && !bytes.Equal(bytes.TrimSpace(text), bytes.TrimSpace(got)) {
			t.Errorf("%s:\n was %s\n  is %s", file, text, got)
		}
		switch {
		case c.ReadyAck == nil:
			seen["without"]++
		case c.Ready():
			seen["second"]++
		default:
			seen["first"]++
		}
	}
	if seen["without"] == 0 || seen["first"] == 0 || seen["second"] == 0 {
		t.Errorf("frames seen: %v", seen)
	}
}

// The descriptors that three releases accepted from another program come out of this one byte for byte.
func TestRecordedDescriptorsComeOutTheSame(t *testing.T) {
	for _, file := range recordings(t, "testdata/rdma-*/handshake-type1-*.us2peer.bin") {
		frame, err := ReadFrame(bytes.NewReader(content(t, file)), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(frame.Text)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if got := s.Encode(); !bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(frame.Text)) {
			t.Errorf("%s:\n was %s\n  is %s", file, frame.Text, got)
		}
	}
}

func TestConnectionsThatAreRefused(t *testing.T) {
	for text, reason := range map[string]string{
		`[]`:                       "connection",
		`null`:                     "null",
		`{"local_lid":65536}`:      "65536 is larger",
		`{"local_lid":-1}`:         "connection.local_lid",
		`{"qp_num":[1,-1]}`:        "connection.qp_num",
		`{"qp_num":7}`:             "connection.qp_num",
		`{"qp_num":[4294967296]}`:  "connection.qp_num",
		`{"local_nic_path":[]}`:    "connection.local_nic_path",
		`{"ready_ack":"yes"}`:      "connection.ready_ack",
		`{"local_gid":{"deep":1}}`: "connection.local_gid",
		`{"peer_nic_path":"` + strings.Repeat("x", limits.HandshakeNICPathBytes+1) + `"}`: "nic path of 513 bytes, at most 512",
		`{"qp_num":[1` + strings.Repeat(",1", limits.HandshakeQPs) + `]}`:                 "257 queue pairs, at most 256",
	} {
		_, err := ParseConnection([]byte(text))
		if err == nil {
			t.Errorf("%.80s is accepted", text)
			continue
		}
		mustContain(t, err, reason)
	}
}

func TestConnectGoesToTheOwner(t *testing.T) {
	asked := make(chan *Connection, 1)
	_, endpoint := startServer(t, ServerConfig{Connect: func(request *Connection) Connection {
		asked <- request
		notYet := false
		return Connection{LocalNICPath: request.PeerNICPath, PeerNICPath: request.LocalNICPath, QPNum: []uint32{1, 2}, ReadyAck: &notYet}
	}})
	for file, text := range recordedConnections(t) {
		raw := AppendFrame(nil, Frame{Type: FrameConnection, Text: text})
		frame, err := ReadFrame(bytes.NewReader(askRaw(t, endpoint, raw)), 1<<20)
		if err != nil || frame.Type != FrameConnection {
			t.Fatalf("%s: %+v, %v", file, frame, err)
		}
		request := <-asked
		answer, err := ParseConnection(frame.Text)
		if err != nil || answer.LocalNICPath != request.PeerNICPath || answer.ReadyAck == nil || len(answer.QPNum) != 2 {
			t.Errorf("%s: %+v got %+v, %v", file, request, answer, err)
		}
	}
	var client Client
	answer, err := client.Handshake(context.Background(), endpoint, &Connection{PeerNICPath: "a@b", LocalNICPath: "c@d"})
	if request := <-asked; err != nil || request.ReadyAck != nil || answer.PeerNICPath != "c@d" {
		t.Errorf("asked %+v, answered %+v, %v", request, answer, err)
	}
	bare := AppendFrame(nil, Frame{Bare: true, Text: []byte(`{"qp_num":[7]}`)})
	if frame, err := ReadFrame(bytes.NewReader(askRaw(t, endpoint, bare)), 1<<20); err != nil || !frame.Bare || (<-asked).QPNum[0] != 7 {
		t.Errorf("an old peer got %+v, %v", frame, err)
	}
}

// A request that cannot be read gets its refusal in words, and does not reach the owner.
func TestConnectRefusesInWords(t *testing.T) {
	_, endpoint := startServer(t, ServerConfig{Connect: func(*Connection) Connection {
		t.Error("the owner was asked")
		return Connection{}
	}})
	raw := AppendFrame(nil, Frame{Type: FrameConnection, Text: []byte(`{"qp_num":"two"}`)})
	frame, err := ReadFrame(bytes.NewReader(askRaw(t, endpoint, raw)), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := ParseConnection(frame.Text); err != nil || !strings.Contains(answer.ReplyMsg, "connection.qp_num") {
		t.Errorf("answered %+v, %v", answer, err)
	}
}

func TestNICPaths(t *testing.T) {
	for path, want := range map[string][3]string{
		"127.0.0.1:15427@mlx5_0": {"127.0.0.1:15427", "mlx5_0", "ok"},
		"[::1]:16001@rxe0":       {"[::1]:16001", "rxe0", "ok"},
		"name@dev@ice":           {"name", "dev@ice", "ok"},
		"junk":                   {"junk", "", ""},
		"@mlx5_0":                {"", "mlx5_0", ""},
		"name@":                  {"name", "", ""},
		"":                       {"", "", ""},
	} {
		server, device, ok := SplitNICPath(path)
		if server != want[0] || device != want[1] || ok != (want[2] == "ok") {
			t.Errorf("%q: %q, %q, %v", path, server, device, ok)
		}
		if ok && NICPath(server, device) != path {
			t.Errorf("%q is written %q", path, NICPath(server, device))
		}
	}
	s := Segment{Name: "127.0.0.1:16001"}
	if s.ServerName() != "127.0.0.1:16001" {
		t.Error(s.ServerName())
	}
	if s.RDMAServerName = "10.0.0.1:16001"; s.ServerName() != "10.0.0.1:16001" {
		t.Error(s.ServerName())
	}
}

func TestRemoteRanges(t *testing.T) {
	const top = 1<<64 - 1
	s := Segment{Buffers: []Buffer{
		{Addr: 100, Length: 50}, // private
		{Addr: 100, Length: 100, RKey: []uint32{1}},
		{Addr: top - 9, Length: 10, RKey: []uint32{2}},
	}}
	for _, c := range []struct{ addr, length, key uint64 }{
		{100, 100, 1},
		{100, 50, 1},
		{199, 1, 1},
		{200, 0, 1},
		{199, 2, 0},
		{99, 2, 0},
		{100, 101, 0},
		{top - 9, 10, 2},
		{top, 1, 2},
		{top, 2, 0},
		{top - 9, 11, 0},
		{150, top, 0},
	} {
		var key uint64
		if b := s.Remote(c.addr, c.length); b != nil {
			key = uint64(b.RKey[0])
		}
		if key != c.key {
			t.Errorf("%d + %d lies in the buffer with key %d, want %d", c.addr, c.length, key, c.key)
		}
	}
}

// Whatever a connection says survives being written and read.
func TestConnectionsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ -~é]{0,20}`)
		c := &Connection{
			LocalGID: text.Draw(t, "gid"), LocalLID: rapid.Uint16().Draw(t, "lid"), LocalNICPath: text.Draw(t, "local"),
			PeerNICPath: text.Draw(t, "peer"), Payload: text.Draw(t, "payload"), ReplyMsg: text.Draw(t, "reply"),
			QPNum: rapid.SliceOfN(rapid.Uint32(), 0, 5).Draw(t, "qps"),
		}
		if rapid.Bool().Draw(t, "has ready") {
			ready := rapid.Bool().Draw(t, "ready")
			c.ReadyAck = &ready
		}
		back, err := ParseConnection(c.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, back); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzParseConnection(f *testing.F) {
	for _, text := range recordedConnections(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConnection(text)
		if err != nil {
			return
		}
		if len(c.QPNum) > limits.HandshakeQPs || !json.Valid(c.Encode()) {
			t.Fatalf("%s became %s", text, c.Encode())
		}
		back, err := ParseConnection(c.Encode())
		if err != nil || !bytes.Equal(back.Encode(), c.Encode()) {
			t.Fatalf("%s, written and read again %s, %v", c.Encode(), back.Encode(), err)
		}
	})
}
