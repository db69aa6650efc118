package master

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"mooncake/wire"
	"mooncake/wire/rpc"
)

// patience is how long a test waits for what must happen, far above what any of it takes.
const patience = 2 * time.Minute

var dialects = []wire.Dialect{wire.V12, wire.V13, wire.V14}

// bed is a running master with all its ports on 127.0.0.1.
type bed struct {
	framed bool // short calls of gRPC go in frames
	*Server
	t      testing.TB
	logs   *observer.ObservedLogs
	silent atomic.Bool            // no handshake port answers
	mute   atomic.Pointer[string] // this one does not
	stop   func()                 // ends the master and waits for it; once more does nothing
}

// newBed starts a master; the end of the test stops it and waits until nothing of it runs.
func newBed(t testing.TB, edits ...func(*Config)) *bed {
	t.Helper()
	cfg := DefaultConfig()
	cfg.RPCAddress, cfg.MetricsHost, cfg.MetadataHost = "127.0.0.1", "127.0.0.1", "127.0.0.1"
	cfg.RPCPort, cfg.MetricsPort, cfg.MetadataPort, cfg.GRPCPort = 0, 0, 0, -1
	cfg.ClientActiveTTL, cfg.suspectAfter = time.Hour, time.Hour // nobody pings while a test thinks
	for _, edit := range edits {
		edit(&cfg)
	}
	core, logs := observer.New(zap.DebugLevel)
	srv, err := Listen(cfg, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{Server: srv, t: t, logs: logs}
	srv.service.suspicion.ask = func(_ context.Context, address string) error {
		if mute := b.mute.Load(); b.silent.Load() || mute != nil && *mute == address {
			return errors.New("nobody there")
		}
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the master ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("the master does not stop")
		}
	})
	b.stop = stop
	t.Cleanup(stop)
	select { // its ports answer before it has started everything, and some tests count what runs
	case <-srv.up:
	case <-time.After(patience):
		t.Fatal("the master does not start")
	}
	return b
}

// complaints are the log lines above info.
func (b *bed) complaints() (lines []string) {
	for _, e := range b.logs.All() {
		if e.Level > zapcore.InfoLevel {
			lines = append(lines, fmt.Sprint(e.Level, " ", e.Message, " ", e.ContextMap()))
		}
	}
	return lines
}

// conns is how many connections the call ports serve.
func (b *bed) conns() (open int64) {
	b.service.families.mu.Lock()
	defer b.service.families.mu.Unlock()
	return int64(len(b.service.families.conns))
}

var ids atomic.Uint64

// newID is a client or segment id no other test has.
func newID() wire.UUID { return wire.UUID{Hi: 7, Lo: ids.Add(1)} }

// caller is a connection on which calls can be made one after another.
type caller interface {
	Call(ctx context.Context, functionID uint32, body []byte) (code uint8, reply []byte, err error)
}

// peer is a client of one release on one connection.
type peer struct {
	caller
	t  testing.TB
	d  wire.Dialect
	id wire.UUID
}

// client connects a client of a release to the common port and lets it prove its release, as a first put would.
func (b *bed) client(d wire.Dialect) *peer {
	b.t.Helper()
	p := b.stranger(d)
	p.prove()
	return p
}

// stranger connects a client that has shown nothing of its release yet.
func (b *bed) stranger(d wire.Dialect) *peer {
	b.t.Helper()
	return b.dial(b.Ports().RPC, d)
}

func (b *bed) dial(port int, d wire.Dialect) *peer {
	b.t.Helper()
	c, err := rpc.Dial(context.Background(), "127.0.0.1:"+strconv.Itoa(port), rpc.ClientConfig{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() })
	return &peer{caller: c, t: b.t, d: d, id: newID()}
}

// prove sends a put that is refused but shows the release.
func (p *peer) prove() {
	p.t.Helper()
	if rep := invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id}); rep.Err != wire.ErrInvalidParams {
		p.t.Fatalf("put of nothing: %v", rep.Err)
	}
}

// try makes one call in the peer's dialect and reads the reply in it.
func try[Req, Rep any](p *peer, call *wire.Call[Req, Rep], req *Req) (rep Rep, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	code, body, err := p.Call(ctx, call.ID.FunctionID(), call.AppendRequest(nil, p.d, req))
	if err != nil {
		return rep, fmt.Errorf("%s: %w", call.ID, err)
	}
	if code != rpc.CodeOK {
		return rep, &rpc.CallError{Call: call.ID.Name(), Code: code, Text: rpc.ErrorText(body)}
	}
	return rep, call.DecodeReply(body, p.d, &rep)
}

// invoke is try for calls that must be answered.
func invoke[Req, Rep any](p *peer, call *wire.Call[Req, Rep], req *Req) Rep {
	p.t.Helper()
	rep, err := try(p, call, req)
	if err != nil {
		p.t.Fatalf("release %s: %v", p.d, err)
	}
	return rep
}

// mount gives the master a segment of the peer's and makes the client count as alive, as a wheel does.
func (p *peer) mount(name string, base, size uint64) wire.Segment {
	p.t.Helper()
	seg := wire.Segment{ID: newID(), Name: name, Base: base, Size: size, TeEndpoint: name + ":15001", Protocol: "tcp"}
	if rep := invoke(p, &wire.MountSegment, &wire.MountSegmentRequest{Segment: seg, ClientID: p.id}); rep.Err != 0 {
		p.t.Fatalf("mount: %v", rep.Err)
	}
	if rep := invoke(p, &wire.ReMountSegment, &wire.ReMountSegmentRequest{Segments: []wire.Segment{seg}, ClientID: p.id}); rep.Err != 0 {
		p.t.Fatalf("remount: %v", rep.Err)
	}
	return seg
}

func oneCopy() wire.ReplicateConfig { return wire.ReplicateConfig{ReplicaNum: 1} }

func (p *peer) putStart(key string, size uint64) wire.PutStartReply {
	p.t.Helper()
	return invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: key, Size: size, Config: oneCopy()})
}

func (p *peer) putEnd(key string) wire.ErrorCode {
	p.t.Helper()
	return invoke(p, &wire.PutEnd, &wire.PutEndRequest{ClientID: p.id, Object: wire.ObjectMeta{Key: key}, ReplicaType: wire.ReplicaTypeAll}).Err
}

// put stores an object.
func (p *peer) put(key string, size uint64) {
	p.t.Helper()
	if rep := p.putStart(key, size); rep.Err != 0 {
		p.t.Fatalf("put start of %.40q: %v", key, rep.Err)
	}
	if code := p.putEnd(key); code != 0 {
		p.t.Fatalf("put end of %.40q: %v", key, code)
	}
}

func (p *peer) get(key string) wire.GetReplicaListReply {
	p.t.Helper()
	return invoke(p, &wire.GetReplicaList, &wire.GetReplicaListRequest{Key: key})
}

func (p *peer) exists(key string) bool {
	p.t.Helper()
	rep := invoke(p, &wire.ExistKey, &wire.ExistKeyRequest{Key: key})
	if rep.Err != 0 {
		p.t.Fatalf("exist: %v", rep.Err)
	}
	return rep.Value
}

func (p *peer) remove(key string, force bool) wire.ErrorCode {
	p.t.Helper()
	return invoke(p, &wire.Remove, &wire.RemoveRequest{Key: key, Force: force}).Err
}

// line is a connection written and read by hand: for frames no client of ours sends, for requests that wait unanswered,
// and for peers with an address of their own.
type line struct {
	net.Conn
	t   testing.TB
	seq uint32
}

// line connects to a call port from an address of 127.0.0.0/8.
func (b *bed) line(port int, from string) *line {
	b.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() })
	return &line{Conn: c, t: b.t}
}

// peerFrom is a stranger at an address of its own.
func (b *bed) peerFrom(from string, d wire.Dialect) *peer {
	b.t.Helper()
	return &peer{caller: b.line(b.Ports().RPC, from), t: b.t, d: d, id: newID()}
}

func requestFrame(seq, functionID uint32, body []byte) []byte {
	f := []byte{21, 0, 0, 0}
	f = binary.LittleEndian.AppendUint32(f, seq)
	f = binary.LittleEndian.AppendUint32(f, functionID)
	f = binary.LittleEndian.AppendUint32(f, uint32(len(body)))
	f = binary.LittleEndian.AppendUint32(f, 0)
	return append(f, body...)
}

// send writes a request and does not wait for its reply.
func (l *line) send(functionID uint32, body []byte) (seq uint32) {
	l.t.Helper()
	seq = l.seq
	l.seq++
	if _, err := l.Write(requestFrame(seq, functionID, body)); err != nil {
		l.t.Fatal(err)
	}
	return seq
}

// receive reads the next reply.
func (l *line) receive() (seq uint32, code uint8, body []byte, err error) {
	if err := l.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return 0, 0, nil, err
	}
	var head [16]byte
	if _, err := io.ReadFull(l, head[:]); err != nil {
		return 0, 0, nil, err
	}
	body = make([]byte, binary.LittleEndian.Uint32(head[8:]))
	_, err = io.ReadFull(l, body)
	return binary.LittleEndian.Uint32(head[4:]), head[2], body, err
}

// Call implements caller.
func (l *line) Call(_ context.Context, functionID uint32, body []byte) (uint8, []byte, error) {
	seq := l.send(functionID, body)
	got, code, reply, err := l.receive()
	if err == nil && got != seq {
		err = fmt.Errorf("reply to request %d, want %d", got, seq)
	}
	return code, reply, err
}

// ended reads until the server closes the connection, which it must.
func (l *line) ended() error {
	if err := l.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, l.Conn)
	if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		return errors.New("the connection stays open")
	}
	return nil
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// waitFor waits until something is so.
func waitFor(t testing.TB, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !so() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}
