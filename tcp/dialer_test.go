package tcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"mooncake/descriptor"
)

// versions runs a test with the framings a descriptor can ask for.
func versions(t *testing.T, h *holder, test func(t *testing.T, target *descriptor.Target)) {
	for _, version := range []int{descriptor.TCPUnacknowledged, descriptor.TCPAcknowledged, 3} {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) { test(t, targetFor(h.port, version)) })
	}
}

func TestReadsWhatItWrote(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		h := startHolder(t, ServerConfig{Options: o}, make([]byte, 8<<20))
		dialer := startDialer(t, DialerConfig{Options: o})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		versions(t, h, func(t *testing.T, target *descriptor.Target) {
			for i, size := range edgeSizes {
				body := pattern(size, uint64(i))
				if err := dialer.Write(ctx, target, testBase+uint64(i), body); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, size)
				if err := dialer.Read(ctx, target, testBase+uint64(i), got); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, body) {
					t.Fatalf("%d bytes read differ from those written", size)
				}
			}
		})
		if stats := dialer.Stats(); stats.Dialed != 1 || stats.Retried != 0 || stats.Failed != 0 {
			t.Errorf("stats %+v, want one connection for all", stats)
		}
	})
}

func TestSizeZeroIsCompleteAtOnce(t *testing.T) {
	dialer := startDialer(t, DialerConfig{})
	target := targetFor(1, descriptor.TCPAcknowledged) // nobody listens there
	if err := dialer.Read(context.Background(), target, testBase, nil); err != nil {
		t.Error(err)
	}
	if err := dialer.Write(context.Background(), target, testBase, nil); err != nil {
		t.Error(err)
	}
}

func TestRefusedRangesAreNotRetried(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		h := startHolder(t, ServerConfig{Options: o}, make([]byte, 4096))
		dialer := startDialer(t, DialerConfig{Options: o})
		ctx := context.Background()
		for range 3 { // fresh connections and kept ones
			if err := dialer.Read(ctx, h.target, testBase, make([]byte, 16)); err != nil {
				t.Fatal(err)
			}
			err := dialer.Read(ctx, h.target, testBase+4000, make([]byte, 4<<20))
			if !errors.Is(err, ErrRefused) {
				t.Fatalf("large read outside: %v", err)
			}
			err = dialer.Read(ctx, h.target, testBase+4000, make([]byte, 200))
			if !errors.Is(err, ErrRefused) {
				t.Fatalf("read outside: %v", err)
			}
			mustContain(t, err, "200 bytes", "0x5a0000000fa0", fmt.Sprint(h.port))
			// The body is far larger than what any buffer takes: the refusal comes while it is being sent.
			if err := dialer.Write(ctx, h.target, testBase+1, make([]byte, 64<<20)); !errors.Is(err, ErrRefused) {
				t.Fatalf("write outside: %v", err)
			}
		}
		if stats := dialer.Stats(); stats.Retried != 0 || stats.Failed != 9 {
			t.Errorf("stats %+v, want 9 failed and none retried", stats)
		}
		unacknowledged := targetFor(h.port, descriptor.TCPUnacknowledged)
		if err := dialer.Write(ctx, unacknowledged, testBase+4000, make([]byte, 200)); err == nil {
			t.Error("an unacknowledged write outside succeeded")
		}
		if err := dialer.Read(ctx, unacknowledged, testBase+4000, make([]byte, 200)); err == nil {
			t.Error("an unacknowledged read outside succeeded")
		}
	})
}

// After a restart of the holder all kept connections are dead. The first request still succeeds, and none of the dead
// sockets is tried by a second one.
func TestRestartOfTheHolder(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		arena := pattern(1<<20, 7)
		h := startHolder(t, ServerConfig{Options: o}, arena)
		dialer := startDialer(t, DialerConfig{Options: o})
		ctx, want := context.Background(), bytes.Clone(arena[:1000])
		fillLanes(t, dialer, h)

		h.stop()
		again := NewServer(ServerConfig{Options: o})
		if err := again.AddRegion(testBase, arena, nil); err != nil {
			t.Fatal(err)
		}
		serveOn(t, again, arena, listen(t, fmt.Sprintf("127.0.0.1:%d", h.port)))
		for i := range 10 {
			got := make([]byte, 1000)
			if err := dialer.Read(ctx, h.target, testBase, got); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("read %d after the restart: %v", i, err)
			}
			if err := dialer.Write(ctx, h.target, testBase, want); err != nil {
				t.Fatalf("write %d after the restart: %v", i, err)
			}
		}
		if stats := dialer.Stats(); stats.Retried != 1 || stats.Failed != 0 {
			t.Errorf("stats %+v, want one retry: all dead connections go with the first", stats)
		}
	})
}

// fillLanes makes the dialer keep as many connections as it may.
func fillLanes(t *testing.T, dialer *Dialer, h *holder) {
	t.Helper()
	address := dataAddress{host: "127.0.0.1", port: uint16(h.port)}
	p, err := dialer.peer(address)
	if err != nil {
		t.Fatal(err)
	}
	for range cap(p.slots) {
		l, err := dialer.dial(context.Background(), address)
		if err != nil {
			t.Fatal(err)
		}
		p.give(l, time.Now())
	}
	waitFor(t, "all are accepted", func() bool { return h.Stats().Active == int64(cap(p.slots)) })
}

func TestHolderThatIsGone(t *testing.T) {
	h := startHolder(t, ServerConfig{}, make([]byte, 64))
	dialer := startDialer(t, DialerConfig{})
	if err := dialer.Read(context.Background(), h.target, testBase, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	h.stop()
	err := dialer.Read(context.Background(), h.target, testBase, make([]byte, 8))
	mustContain(t, err, "read of 8 bytes", "refused")
}

func TestSilentHolder(t *testing.T) {
	ln := listen(t, "127.0.0.1:0")
	defer ln.Close()
	target := targetFor(ln.Addr().(*net.TCPAddr).Port, descriptor.TCPAcknowledged)
	dialer := startDialer(t, DialerConfig{Options: DefaultOptions(), Progress: 50 * time.Millisecond})
	mustContain(t, dialer.Read(context.Background(), target, testBase, make([]byte, 8)), "no answer within 50ms")
	mustContain(t, dialer.Write(context.Background(), target, testBase, make([]byte, 8)), "no answer within 50ms")

	dialer = startDialer(t, DialerConfig{Options: DefaultOptions()})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := dialer.Read(ctx, target, testBase, make([]byte, 8)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read with a deadline: %v", err)
	}
	if err := dialer.Read(ctx, target, testBase, make([]byte, 8)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read after the deadline: %v", err)
	}
}

// Holders that answer nonsense, half an answer, or nothing.
func TestBrokenHolders(t *testing.T) {
	for name, c := range map[string]struct {
		answer []byte
		want   error
	}{
		"closes":        {nil, errHolderClosed},
		"half a status": {statusFrameOK[:5], io.ErrUnexpectedEOF},
		"half a body":   {append(append([]byte{}, statusFrameOK...), 1, 2, 3), io.ErrUnexpectedEOF},
		"nonsense":      {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), ErrProtocol},
		"unknown code":  {appendStatus(nil, 77), ErrRefused},
	} {
		for _, size := range []int{16, 1 << 20} { // without and with a low-water mark
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				ln := listen(t, "127.0.0.1:0")
				defer ln.Close()
				done := make(chan struct{})
				go func() { playHolder(ln, requestBytes, c.answer); close(done) }()
				dialer := startDialer(t, DialerConfig{Options: DefaultOptions()})
				target := targetFor(ln.Addr().(*net.TCPAddr).Port, descriptor.TCPAcknowledged)
				err := dialer.Read(context.Background(), target, testBase, make([]byte, size))
				if !errors.Is(err, c.want) {
					t.Errorf("read: %v, want %v", err, c.want)
				}
				<-done
			})
		}
	}
}

func TestTargetsThatAreNotTCP(t *testing.T) {
	dialer := startDialer(t, DialerConfig{})
	target := targetFor(0, descriptor.TCPAcknowledged)
	target.Segment.Protocol = descriptor.ProtocolRDMA
	mustContain(t, dialer.Read(context.Background(), target, testBase, make([]byte, 8)), "not reachable over tcp", "rdma")
}

// However many callers there are, a holder sees at most Lanes connections.
func TestLanesAreBounded(t *testing.T) {
	h := startHolder(t, ServerConfig{Options: DefaultOptions()}, make([]byte, 32*4096))
	dialer := startDialer(t, DialerConfig{Options: DefaultOptions(), Lanes: 3})
	var callers sync.WaitGroup
	for i := range 32 {
		callers.Go(func() {
			addr, body, got := uint64(testBase+i*4096), pattern(4096, uint64(i)), make([]byte, 4096)
			for range 5 {
				if err := errors.Join(dialer.Write(context.Background(), h.target, addr, body),
					dialer.Read(context.Background(), h.target, addr, got)); err != nil {
					t.Error(err)
				}
				if !bytes.Equal(got, body) {
					t.Errorf("caller %d read what it did not write", i)
				}
			}
		})
	}
	callers.Wait()
	if accepted := h.Stats().Accepted; accepted > 3 {
		t.Errorf("%d connections, want at most 3", accepted)
	}
}

func TestUnusedConnectionsAreLetGo(t *testing.T) {
	h := startHolder(t, ServerConfig{}, make([]byte, 64))
	other := startHolder(t, ServerConfig{}, make([]byte, 64))
	dialer := startDialer(t, DialerConfig{Idle: time.Nanosecond})
	for _, target := range []*descriptor.Target{h.target, other.target} {
		if err := dialer.Read(context.Background(), target, testBase, make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "the first connection is gone", func() bool { return h.Stats().Active == 0 })
	if err := dialer.Read(context.Background(), h.target, testBase, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	if stats := dialer.Stats(); stats.Dialed != 3 || stats.Retried != 0 {
		t.Errorf("stats %+v", stats)
	}
	dialer.Close()
	if err := dialer.Read(context.Background(), h.target, testBase, make([]byte, 8)); !errors.Is(err, errDialerClosed) {
		t.Errorf("read after Close: %v", err)
	}
}
