package acceptloop

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func start(t *testing.T, l *Loop, ln net.Listener) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx, ln) }()
	stop = func() error { cancel(); return <-done }
	return stop
}

func dial(t *testing.T, ln net.Listener) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func echoOnce(conn net.Conn) {
	defer conn.Close()
	var b [1]byte
	if _, err := io.ReadFull(conn, b[:]); err == nil {
		conn.Write(b[:])
	}
}

func TestServesAndStops(t *testing.T) {
	ln := listen(t)
	stop := start(t, &Loop{Max: 2, Handle: echoOnce}, ln)
	for range 20 {
		conn := dial(t, ln)
		conn.Write([]byte{7})
		if b, err := io.ReadAll(conn); err != nil || len(b) != 1 || b[0] != 7 {
			t.Fatalf("echo: %v, %v", b, err)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		t.Fatal("the listener is still open after Run")
	}
}

func TestWithoutOverflowTheNextOneWaits(t *testing.T) {
	ln := listen(t)
	var now, most atomic.Int32
	stop := start(t, &Loop{Max: 1, Handle: func(conn net.Conn) {
		most.Store(max(most.Load(), now.Add(1)))
		echoOnce(conn)
		now.Add(-1)
	}}, ln)
	first, second := dial(t, ln), dial(t, ln)
	second.Write([]byte{2})
	first.Write([]byte{1})
	for _, conn := range []net.Conn{first, second} {
		if b, err := io.ReadAll(conn); err != nil || len(b) != 1 {
			t.Fatalf("echo: %v, %v", b, err)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if most.Load() != 1 {
		t.Fatalf("%d handlers at once, want 1", most.Load())
	}
}

func TestOverflowIsTurnedAway(t *testing.T) {
	ln := listen(t)
	var turnedAway atomic.Int32
	started := make(chan struct{}, 1)
	stop := start(t, &Loop{
		Max:      1,
		Handle:   func(conn net.Conn) { started <- struct{}{}; echoOnce(conn) },
		Overflow: func(conn net.Conn) { turnedAway.Add(1); conn.Close() },
	}, ln)
	first := dial(t, ln)
	<-started
	second := dial(t, ln)
	if b, err := io.ReadAll(second); len(b) != 0 {
		t.Fatalf("the second connection was answered: %v, %v", b, err)
	}
	first.Write([]byte{1})
	if b, err := io.ReadAll(first); err != nil || len(b) != 1 {
		t.Fatalf("echo: %v, %v", b, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if turnedAway.Load() != 1 {
		t.Fatalf("%d turned away, want 1", turnedAway.Load())
	}
}

func TestStopsWhileFull(t *testing.T) {
	ln := listen(t)
	release := make(chan struct{})
	started := make(chan struct{}, 1)
	stop := start(t, &Loop{Max: 1, Handle: func(conn net.Conn) {
		defer conn.Close()
		started <- struct{}{}
		<-release
	}}, ln)
	dial(t, ln)
	<-started
	close(release)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// failing is a listener whose first accepts fail.
type failing struct {
	net.Listener
	errs []error
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return nil, err
	}
	return f.Listener.Accept()
}

func TestWaitsOutShortages(t *testing.T) {
	shortage := &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	ln := &failing{Listener: listen(t), errs: []error{shortage, shortage}}
	var heard atomic.Int32
	stop := start(t, &Loop{Max: 1, Handle: echoOnce, Trouble: func(error) { heard.Add(1) }}, ln)
	conn := dial(t, ln)
	conn.Write([]byte{9})
	if b, err := io.ReadAll(conn); err != nil || len(b) != 1 {
		t.Fatalf("echo: %v, %v", b, err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if heard.Load() != 2 {
		t.Fatalf("heard of %d shortages, want 2", heard.Load())
	}
}

func TestLastingFailureEndsTheLoop(t *testing.T) {
	broken := errors.New("broken")
	ln := &failing{Listener: listen(t), errs: []error{broken}}
	loop := Loop{Max: 1, Handle: echoOnce}
	if err := loop.Run(context.Background(), ln); !errors.Is(err, broken) {
		t.Fatalf("Run = %v, want the listener's failure", err)
	}
}

// TestUnwelcomeAndGreedy closes connections of addresses that are not let in, and those beyond the limit of one address; the
// places of others are not touched.
func TestUnwelcomeAndGreedy(t *testing.T) {
	ln := listen(t)
	stop := start(t, &Loop{Max: 4, Handle: echoOnce, Admit: func(netip.Addr) bool { return false }}, ln)
	for range 10 { // more than there are places
		if b, _ := io.ReadAll(dial(t, ln)); len(b) != 0 {
			t.Fatal("somebody from outside was served")
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, overflow := range []func(net.Conn){nil, func(c net.Conn) { c.Close() }} {
		ln = listen(t)
		started := make(chan struct{}, 9)
		stop = start(t, &Loop{
			Max: 4, PeerMax: 1, Overflow: overflow,
			Handle: func(conn net.Conn) { started <- struct{}{}; echoOnce(conn) },
		}, ln)
		first := dial(t, ln)
		<-started
		for range 10 {
			if b, _ := io.ReadAll(dial(t, ln)); len(b) != 0 {
				t.Fatal("one address had two at once")
			}
		}
		first.Write([]byte{1})
		if b, err := io.ReadAll(first); err != nil || len(b) != 1 {
			t.Fatalf("echo: %v, %v", b, err)
		}
		for served := false; !served; { // the place is free a moment after the connection is gone
			next := dial(t, ln)
			next.Write([]byte{1})
			b, _ := io.ReadAll(next)
			served = len(b) == 1
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
}
