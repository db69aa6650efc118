package blocking

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair are the two ends of a connection.
func pair(ctx context.Context, t *testing.T) (a, b *Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, c := range []**Conn{&a, &b} {
		var nc net.Conn
		if c == &a {
			nc, err = net.Dial("tcp", ln.Addr().String())
		} else {
			nc, err = ln.Accept()
		}
		if err != nil {
			t.Fatal(err)
		}
		if *c, err = New(ctx, nc.(*net.TCPConn)); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

func TestThereAndBack(t *testing.T) {
	a, b := pair(t.Context(), t)
	defer a.Close()
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	echoed := make(chan error, 1)
	go func() {
		defer b.Close()
		_, err := io.Copy(struct{ io.Writer }{b}, io.LimitReader(b, int64(len(sent))))
		echoed <- err
	}()
	written := make(chan error, 1)
	go func() {
		_, err := a.Write(sent)
		written <- err
	}()
	got, err := io.ReadAll(a)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d came back: %v", len(got), len(sent), err)
	}
	for _, ended := range []chan error{echoed, written} {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestEndOfContext: who waits is woken.
func TestEndOfContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a, b := pair(ctx, t)
	defer a.Close()
	defer b.Close()
	woken := make(chan error, 1)
	go func() {
		_, err := a.Read(make([]byte, 1))
		woken <- err
	}()
	cancel()
	if err := <-woken; err == nil {
		t.Error("a read that had nothing to read was good")
	}
}

func TestPause(t *testing.T) {
	began := time.Now()
	Pause(time.Millisecond)
	if time.Since(began) < time.Millisecond {
		t.Error("a pause was too short")
	}
}
