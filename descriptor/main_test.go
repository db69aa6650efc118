package descriptor

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testPatience ends a test that would otherwise hang. No test waits for it to pass.
const testPatience = 2 * time.Minute

func recordings(t testing.TB, glob string) []string {
	t.Helper()
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings match %s: %v", glob, err)
	}
	return files
}

func content(t testing.TB, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// counterpart is the other half of a recorded exchange.
func counterpart(file string) string {
	if strings.Contains(file, ".us2peer.") {
		return strings.Replace(file, ".us2peer.", ".peer2us.", 1)
	}
	return strings.Replace(file, ".peer2us.", ".us2peer.", 1)
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// startServer serves handshakes until the test ends, and returns the endpoint.
func startServer(t testing.TB, cfg ServerConfig) (server *Server, endpoint string) {
	t.Helper()
	if cfg.Describe == nil {
		cfg.Describe = func(*Segment) (*Segment, error) { return sample(), nil }
	}
	server, ln := NewServer(cfg), listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, ln) }()
	t.Cleanup(sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}))
	return server, ln.Addr().String()
}

func dial(t testing.TB, endpoint string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(testPatience)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// sample is a descriptor with numbers that do not fit a float.
func sample() *Segment {
	return &Segment{
		Name: "127.0.0.1:16005", Protocol: ProtocolTCP, TCPDataHost: "127.0.0.1", TCPDataPort: 16006,
		TCPProtoVersion: TCPAcknowledged, Timestamp: "2026-11-29 15:12:52.345935",
		Buffers: []Buffer{{Name: "127.0.0.1:16005", Addr: 1<<63 + 1, Length: 1<<62 + 1}},
	}
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
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error is more than one line: %q", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not contain %q", err, part)
		}
	}
}
