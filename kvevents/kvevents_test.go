package kvevents

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mooncake/internal/limits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 2 * time.Minute

// start runs a publisher until the test ends.
func start(t *testing.T, o Options, queue int) (*Publisher, string) {
	t.Helper()
	s, err := Listen("tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := New(o, s, queue)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return p, s.Addr().String()
}

// subscriber is the receiving end.
type subscriber struct {
	net.Conn
	in *bufio.Reader
	t  testing.TB
}

func dial(t *testing.T, address, greets, ready, asks string) *subscriber {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(greets + ready + asks)); err != nil {
		t.Fatal(err)
	}
	return &subscriber{c, bufio.NewReader(c), t}
}

var (
	theirGreeting = string(greeting[:])
	theirReady    = func() string {
		body := "\x05READY" + property("Socket-Type", "SUB") + property("Identity", "")
		return string([]byte{flagCommand, byte(len(body))}) + body
	}()
)

const toAll = "\x00\x01\x01"

// subscribe connects and subscribes to everything, and reads what that begins with.
func subscribe(t *testing.T, address string) *subscriber {
	t.Helper()
	s := dial(t, address, theirGreeting, theirReady, toAll)
	s.greeted()
	return s
}

func (s *subscriber) greeted() {
	s.t.Helper()
	var theirs [64]byte
	if _, err := io.ReadFull(s.in, theirs[:]); err != nil || theirs != greeting {
		s.t.Fatalf("greeting % x: %v", theirs, err)
	}
	if flags, body, err := readFrame(s.in); err != nil || flags != flagCommand || !strings.Contains(string(body), property("Socket-Type", "PUB")) {
		s.t.Fatalf("ready: %x %q %v", flags, body, err)
	}
}

// receive reads a message.
func (s *subscriber) receive() (number uint64, payload []byte) {
	s.t.Helper()
	var parts [3][]byte
	for i := range parts {
		flags, body, err := readFrame(s.in)
		if err != nil || (flags&flagMore != 0) != (i < 2) {
			s.t.Fatalf("frame %d: %x %v", i, flags, err)
		}
		parts[i] = body
	}
	if len(parts[0]) != 0 || len(parts[1]) != 8 {
		s.t.Fatalf("frames %x", parts)
	}
	return binary.BigEndian.Uint64(parts[1]), parts[2]
}

func stored(key string) Event { return Event{Kind: Stored, Tenant: "default", Medium: "cpu", Key: key} }

// TestRecordedEvent writes an event in the bytes that release 0.3.14 sent, but for the epoch behind it.
func TestRecordedEvent(t *testing.T) {
	o := Options{BackendID: "b1", ModelName: "m1", BlockSize: 16, Legacy: true, ObjectKey: true}
	got := appendPayload(nil, &o, []Event{stored("12345")}, 1, 0x1a229d69a03, 7)
	const begins = "93cf000001a229d69a0391de0016a86576656e745f696401a974696d657374616d70cf000001a229d69a03"
	if text := hex.EncodeToString(got); !strings.HasPrefix(text, begins) {
		t.Errorf("got  %s\nwant %s…", text[:len(begins)], begins)
	}
	order := []string{
		"event_id", "timestamp", "event_type", "stored", "type", "BlockStored", "model_name", "m1", "block_size", "additional_salt", "lora_name", "tenant_id",
		"default", "backend_id", "b1", "medium", "cpu", "dp_rank", "group_id", "object_key", "12345", "seq_hashes", "block_hashes", "session_id",
		"base_block_idx", "parent_hash", "token_ids", "parent_block_hash", "leader_epoch",
	}
	rest := string(got)
	for _, word := range order {
		at := strings.Index(rest, word)
		if at < 0 {
			t.Fatalf("%s is missing, or before its time, in %q", word, got)
		}
		rest = rest[at+len(word):]
	}
	if rest != "\x07\x00" {
		t.Errorf("the end is %q", rest)
	}
}

// TestFieldsAreCounted counts the pairs of every sort of event.
func TestFieldsAreCounted(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		for _, k := range []Kind{Stored, Removed, Cleared} {
			o := Options{BackendID: "b", Legacy: legacy, ObjectKey: true}
			e := Event{Kind: k, Tenant: strings.Repeat("t", 40), Medium: "disk", Key: strings.Repeat("k", 70_000), Group: strings.Repeat("g", 300)}
			body := appendEvent(nil, &o, &e, 1<<20, 1<<40, 300)
			rest, pairs := unpacked(t, body)
			if len(rest) > 0 || pairs != o.fields(k) {
				t.Errorf("%v, legacy %v: %d bytes are left, %d pairs of %d", k, legacy, len(rest), pairs, o.fields(k))
			}
		}
	}
}

// unpacked reads one value of MessagePack, of the sorts that are written here, and tells how many pairs it has.
func unpacked(t *testing.T, in []byte) (rest []byte, pairs int) {
	t.Helper()
	values := func(in []byte, n int) []byte {
		for range n {
			in, _ = unpacked(t, in)
		}
		return in
	}
	switch b := in[0]; {
	case b < 0x80, b == 0xc0:
		return in[1:], 0
	case b < 0x90:
		return values(in[1:], 2*int(b&15)), int(b & 15)
	case b < 0xa0:
		return values(in[1:], int(b&15)), 0
	case b < 0xc0:
		return in[1+int(b&31):], 0
	case b == 0xcc:
		return in[2:], 0
	case b == 0xcd:
		return in[3:], 0
	case b == 0xce:
		return in[5:], 0
	case b == 0xcf:
		return in[9:], 0
	case b == 0xd9:
		return in[2+int(in[1]):], 0
	case b == 0xda:
		return in[3+int(binary.BigEndian.Uint16(in[1:])):], 0
	case b == 0xdb:
		return in[5+int(binary.BigEndian.Uint32(in[1:])):], 0
	case b == 0xdc:
		return values(in[3:], int(binary.BigEndian.Uint16(in[1:]))), 0
	case b == 0xde:
		n := int(binary.BigEndian.Uint16(in[1:]))
		return values(in[3:], 2*n), n
	default:
		t.Fatalf("byte %#x", b)
		return nil, 0
	}
}

// TestEpochs follows a subscription over two epochs, and one that begins in between: no number is missing, and a reset says
// where to go on.
func TestEpochs(t *testing.T) {
	p, address := start(t, Options{BackendID: "b", ObjectKey: true}, 0)
	p.Begin(5)
	s := subscribe(t, address)
	number, payload := s.receive()
	if number != 0 || !bytes.Contains(payload, []byte("cleared")) || payload[len(payload)-2] != 5 {
		t.Fatalf("the beginning: %d %q", number, payload)
	}
	for i := range limits.EventsPerMessage + 1 {
		p.Add(stored(fmt.Sprint(i)))
	}
	p.Flush()
	for want := uint64(1); want <= 2; want++ {
		if number, payload = s.receive(); number != want || !bytes.Contains(payload, []byte("stored")) {
			t.Fatalf("message %d, want %d: %q", number, want, payload)
		}
	}
	late := subscribe(t, address)
	if number, payload = late.receive(); number != 2 || !bytes.Contains(payload, []byte("cleared")) {
		t.Fatalf("the beginning of a late one: %d %q", number, payload)
	}
	p.Add(Event{Kind: Removed, Tenant: "default", Medium: "cpu", Key: "0"})
	p.Flush()
	for _, s := range []*subscriber{s, late} {
		if number, payload = s.receive(); number != 3 || !bytes.Contains(payload, []byte("removed")) {
			t.Fatalf("%d %q", number, payload)
		}
	}
	p.Begin(6)
	p.Add(stored("x"))
	p.Flush()
	for want := range uint64(2) {
		if number, payload = s.receive(); number != want || payload[len(payload)-2] != 6 {
			t.Fatalf("the next epoch: %d %q", number, payload)
		}
	}
	if st := p.Stats(); st.Batches != 4 || st.Published != limits.EventsPerMessage+3 || st.Dropped != 0 {
		t.Errorf("%+v", st)
	}
}

// TestFullQueue drops the oldest, and the numbers tell.
// TestBetweenEpochs has nothing to say to who subscribes after the end of an epoch until the next one begins.
func TestBetweenEpochs(t *testing.T) {
	p, address := start(t, Options{BackendID: "b", ObjectKey: true}, 0)
	p.Begin(5)
	p.Add(stored("of the fifth"))
	p.End()
	s := subscribe(t, address)
	subscribed := func() (n int) {
		p.socket.mu.Lock()
		defer p.socket.mu.Unlock()
		for peer := range p.socket.peers {
			n += peer.subscribed
		}
		return n
	}
	for end := time.Now().Add(patience); subscribed() == 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the subscription never came")
		}
	}
	p.Begin(6)
	p.Add(stored("of the sixth"))
	p.Flush()
	for want := range uint64(2) {
		if number, payload := s.receive(); number != want || payload[len(payload)-2] != 6 || bytes.Contains(payload, []byte("of the fifth")) {
			t.Fatalf("message %d of the next epoch: %d %q", want, number, payload)
		}
	}
}

func TestFullQueue(t *testing.T) {
	p, address := start(t, Options{BackendID: "b", ObjectKey: true}, 2)
	p.Begin(1)
	s := subscribe(t, address)
	s.receive()
	p.Add(stored("a"), stored("b"), stored("c"))
	p.Flush()
	number, payload := s.receive()
	if number != 2 || bytes.Contains(payload, []byte("\xa1a")) || !bytes.Contains(payload, []byte("\xa1c")) || p.Stats().Dropped != 1 {
		t.Errorf("%d %q %+v", number, payload, p.Stats())
	}
}

// TestNamelessObjects leaves events out that would name nothing.
func TestNamelessObjects(t *testing.T) {
	p, address := start(t, Options{BackendID: "b"}, 0)
	p.Begin(1)
	s := subscribe(t, address)
	s.receive()
	p.Add(stored("a"), Event{Kind: Cleared, Tenant: "default"})
	p.Flush()
	if number, payload := s.receive(); number != 1 || !bytes.Contains(payload, []byte("cleared")) || p.Stats().Keyless != 1 {
		t.Errorf("%d %q %+v", number, payload, p.Stats())
	}
}

// TestSubscriptions heeds commands as well as messages, and other topics not at all.
func TestSubscriptions(t *testing.T) {
	p, address := start(t, Options{BackendID: "b", ObjectKey: true}, 0)
	p.Begin(1)
	s := dial(t, address, theirGreeting, theirReady, "\x00\x06\x01topic"+"\x04\x05\x04PING"+"\x04\x0a\x09SUBSCRIBE"+toAll+"\x00\x01\x00")
	s.greeted()
	if number, payload := s.receive(); number != 0 || !bytes.Contains(payload, []byte("cleared")) {
		t.Fatalf("%d %q", number, payload)
	}
	p.Add(stored("a"))
	p.Flush()
	if number, _ := s.receive(); number != 1 {
		t.Errorf("%d", number)
	}
}

// TestBadPeers ends connections of other protocols and of who says too much; the others go on.
func TestBadPeers(t *testing.T) {
	p, address := start(t, Options{BackendID: "b", ObjectKey: true}, 0)
	p.Begin(1)
	good := subscribe(t, address)
	good.receive()
	secure := greeting
	copy(secure[12:], "CURVE")
	old := greeting
	old[10] = 2
	pull := "\x05READY" + property("Socket-Type", "PULL")
	for name, say := range map[string][3]string{
		"http":     {"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + strings.Repeat("x", 64)},
		"secure":   {string(secure[:]), theirReady},
		"old":      {string(old[:]), theirReady},
		"puller":   {theirGreeting, string([]byte{flagCommand, byte(len(pull))}) + pull},
		"no ready": {theirGreeting, toAll},
		"long":     {theirGreeting, theirReady, "\x02" + strings.Repeat("\xff", 8)},
	} {
		s := dial(t, address, say[0], say[1], say[2])
		if _, err := io.Copy(io.Discard, s.in); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.Add(stored("a"))
	p.Flush()
	if number, _ := good.receive(); number != 1 {
		t.Errorf("%d", number)
	}
}

func TestBadEndpoints(t *testing.T) {
	for _, endpoint := range []string{"", "127.0.0.1:1", "ipc://x", "tcp://127.0.0.1", "tcp://nohost.invalid:1"} {
		if s, err := Listen(endpoint); err == nil {
			_ = s.Close()
			t.Errorf("%q is an endpoint", endpoint)
		}
	}
	s, err := Listen("tcp://*:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// FuzzFrames reads anything a subscriber may send.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(theirReady + toAll))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x01x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		in := bufio.NewReader(bytes.NewReader(text))
		for {
			if _, body, err := readFrame(in); err != nil {
				return
			} else if len(body) > limits.EventsFrameBytes {
				t.Fatalf("%d bytes", len(body))
			}
		}
	})
}
