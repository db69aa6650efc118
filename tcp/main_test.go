package tcp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mooncake/descriptor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testBase is where test regions pretend to lie: beyond any real pointer.
const testBase = 0x5a0000000000

// holder is a server at work with one region.
type holder struct {
	*Server
	arena  []byte
	port   int
	target *descriptor.Target
	stop   func()
}

// startHolder serves arena at testBase until the test ends.
func startHolder(t testing.TB, cfg ServerConfig, arena []byte) *holder {
	t.Helper()
	server := NewServer(cfg)
	if err := server.AddRegion(testBase, arena, nil); err != nil {
		t.Fatal(err)
	}
	return serveOn(t, server, arena, listenAgain(t))
}

// listenAgain takes a port that can be taken once more later: one outside the range from which the kernel gives ports to
// connections of others.
func listenAgain(t testing.TB) net.Listener {
	t.Helper()
	var err error
	for range 100 {
		var ln net.Listener
		if ln, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000))); err == nil {
			return ln
		}
	}
	t.Fatal(err)
	return nil
}

func listen(t testing.TB, address string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func serveOn(t testing.TB, server *Server, arena []byte, ln net.Listener) *holder {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, ln) }()
	h := &holder{Server: server, arena: arena, port: ln.Addr().(*net.TCPAddr).Port}
	h.target = targetFor(h.port, descriptor.TCPAcknowledged)
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(h.stop)
	return h
}

func targetFor(port, version int) *descriptor.Target {
	return &descriptor.Target{
		Endpoint: "test", DataHost: "127.0.0.1",
		Segment: &descriptor.Segment{
			Name: "test", Protocol: descriptor.ProtocolTCP, TCPDataPort: uint16(port), TCPProtoVersion: version,
		},
	}
}

func startDialer(t testing.TB, cfg DialerConfig) *Dialer {
	t.Helper()
	d := NewDialer(cfg)
	t.Cleanup(func() { d.Close() })
	return d
}

func (h *holder) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", h.port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(testPatience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// testPatience ends a test that would otherwise hang. No test waits for it to pass.
const testPatience = 2 * time.Minute

// bothIO runs a test with either way to move bytes; lowat and buffer as in production.
func bothIO(t *testing.T, test func(t *testing.T, o Options)) {
	for _, io := range []string{IORaw, IOStd} {
		o := DefaultOptions()
		o.IO = io
		t.Run(io, func(t *testing.T) { test(t, o) })
	}
}

// pattern fills a buffer so that every shift and every swapped piece shows.
func pattern(n int, seed uint64) []byte {
	buf := make([]byte, n)
	x := seed*0x9e3779b97f4a7c15 + 1
	for i := range buf {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		buf[i] = byte(x >> 32)
	}
	return buf
}

// waitFor polls a condition that another goroutine makes true.
func waitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(testPatience); time.Now().Before(end); <-tick.C {
		if condition() {
			return
		}
	}
	t.Fatalf("never happened: %s", what)
}

func mustContain(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not contain %q", err, part)
		}
	}
}
