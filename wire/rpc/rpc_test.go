package rpc

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits that end at once when all is well.
const patience = 2 * time.Minute

// What the handler of the tests does, by function id.
const (
	doEcho   = 1 // the body comes back
	doFail   = 2 // error 4
	doPark   = 3 // the request is put on parked
	doSize   = 4 // a reply of as many bytes as the u32 in the body says
	doPeek   = 5 // parked, but answered before Serve returns
	doSilent = 6 // a nil body
)

type parkedCall struct {
	conn *Conn
	seq  uint32
}

// testHandler counts what the server tells it and does as the function id says.
type testHandler struct {
	parked chan parkedCall
	closed chan error // causes, in order
	opened chan *Conn

	mu   sync.Mutex
	open int
}

func newTestHandler() *testHandler {
	return &testHandler{parked: make(chan parkedCall, 4096), closed: make(chan error, 4096), opened: make(chan *Conn, 4096)}
}

func (h *testHandler) Opened(c *Conn) {
	h.mu.Lock()
	h.open++
	h.mu.Unlock()
	h.opened <- c
}

func (h *testHandler) Closed(c *Conn) {
	h.mu.Lock()
	h.open--
	h.mu.Unlock()
	h.closed <- c.Cause()
}

func (h *testHandler) Serve(c *Conn, r Request, dst []byte) ([]byte, uint8, bool) {
	switch r.FunctionID {
	case doEcho:
		return append(dst, r.Body...), CodeOK, false
	case doFail:
		return AppendErrorText(dst, TextInvalidArgs), CodeInvalidArgs, false
	case doPark:
		h.parked <- parkedCall{c, r.Seq}
		return dst, CodeOK, true
	case doSize:
		n := binary.LittleEndian.Uint32(r.Body)
		return append(dst, make([]byte, n)...), CodeOK, false
	case doPeek:
		if err := c.Reply(r.Seq, CodeOK, []byte("early")); err != nil {
			return dst, CodeException, false
		}
		return nil, CodeOK, true
	case doSilent:
		return nil, CodeOK, false
	}
	return AppendErrorText(dst, TextUnknownFunction), CodeUnknownFunction, false
}

// rig is a running server.
type rig struct {
	*testHandler
	srv  *Server
	addr string
	stop func() // ends Serve and waits; may be called again
}

func start(t testing.TB, cfg ServerConfig) *rig {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{testHandler: newTestHandler(), addr: ln.Addr().String()}
	r.srv = NewServer(cfg, r.testHandler)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.srv.Serve(ctx, ln) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// modes runs a test once per way of moving bytes.
func modes(t *testing.T, f func(t *testing.T, std bool)) {
	t.Helper()
	t.Run("raw", func(t *testing.T) { f(t, false) })
	t.Run("std", func(t *testing.T) { f(t, true) })
}

// connect opens a bare connection to the server.
func (r *rig) connect(t testing.TB) *net.TCPConn {
	t.Helper()
	nc, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc.(*net.TCPConn)
}

func (r *rig) dial(t testing.TB, cfg ClientConfig) *Client {
	t.Helper()
	c, err := Dial(t.Context(), r.addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// stillServes makes one call over a new connection.
func (r *rig) stillServes(t testing.TB) {
	t.Helper()
	nc := r.connect(t)
	write(t, nc, request(77, doEcho, []byte("alive")))
	if f := readReply(t, nc); f.seq != 77 || f.code != CodeOK || string(f.body) != "alive" {
		t.Fatalf("reply %+v", f)
	}
	nc.Close()
}

// cause waits for a connection to end and tells why.
func (r *rig) cause(t testing.TB) error {
	t.Helper()
	select {
	case err := <-r.closed:
		return err
	case <-time.After(patience):
		t.Fatal("no connection ended")
		return nil
	}
}

func request(seq, functionID uint32, body []byte) []byte {
	return append(AppendRequestHeader(nil, seq, functionID, len(body)), body...)
}

func write(t testing.TB, nc net.Conn, p []byte) {
	t.Helper()
	if _, err := nc.Write(p); err != nil {
		t.Fatal(err)
	}
}

func readReply(t testing.TB, nc net.Conn) frame {
	t.Helper()
	h := make([]byte, ReplyHeaderBytes)
	if _, err := io.ReadFull(nc, h); err != nil {
		t.Fatalf("reply header: %v", err)
	}
	if h[0] != frameMagic || h[1] != 0 || h[3] != 0 {
		t.Fatalf("reply header % x", h)
	}
	f, n, attachment := parseReply(h)
	if attachment != 0 {
		t.Fatalf("reply with an attachment of %d bytes", attachment)
	}
	f.body = make([]byte, n)
	if _, err := io.ReadFull(nc, f.body); err != nil {
		t.Fatalf("reply body: %v", err)
	}
	return f
}

// closedSilently checks that the server ends the connection without a byte.
func closedSilently(t testing.TB, nc net.Conn) {
	t.Helper()
	n, err := nc.Read(make([]byte, 100))
	if n != 0 || err == nil {
		t.Fatalf("read %d bytes, %v; want a closed connection", n, err)
	}
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Fatalf("the server did not close: %v", err)
	}
}

// waitFor polls what no event tells: counts of the process.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in %v", what, patience)
		}
	}
}
