package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

func TestConnectionLimit(t *testing.T) {
	r := start(t, ServerConfig{ConnsMax: 3})
	var kept []*net.TCPConn
	for range 3 {
		kept = append(kept, r.connect(t))
		<-r.opened
	}
	closedSilently(t, r.connect(t))
	if s := r.srv.Stats(); s.ConnsRefused != 1 || s.ConnsOpen != 3 {
		t.Errorf("stats %+v", s)
	}
	kept[0].Close()
	r.cause(t)
	waitFor(t, "one connection less", func() bool { return r.srv.Stats().ConnsOpen < 3 })
	r.stillServes(t)
}

func TestSlowReaderOfParkedReplies(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std, PendingBytesMax: 1 << 20})
		slow := r.connect(t)
		write(t, slow, request(1, doPark, nil))
		p := <-r.parked
		body := make([]byte, 512<<10)
		var err error
		for i := 0; err == nil; i++ { // the kernel's buffers fill, then ours
			if i > 1000 {
				t.Fatal("half a gigabyte was queued for a peer that does not read")
			}
			err = p.conn.Reply(p.seq, CodeOK, body)
		}
		if !errors.Is(err, ErrSlowReader) {
			t.Fatalf("Reply: %v", err)
		}
		if err := r.cause(t); !errors.Is(err, ErrSlowReader) {
			t.Fatalf("ended by %v", err)
		}
		if err := p.conn.Reply(p.seq, CodeOK, nil); err == nil {
			t.Fatal("a reply on an ended connection succeeded")
		}
		if got := r.srv.Stats().SlowReaders; got != 1 {
			t.Errorf("Stats.SlowReaders = %d", got)
		}
		r.stillServes(t)
	})
}

// A peer that asks and does not read is held by its own goroutine, then given up; others do not notice.
func TestSlowReaderOfReplies(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std, StallTimeout: 200 * time.Millisecond})
		slow := r.connect(t)
		ask := request(1, doSize, binary.LittleEndian.AppendUint32(nil, 4<<20))
		for range 20 {
			write(t, slow, ask)
		}
		r.stillServes(t)
		causes := []error{r.cause(t), r.cause(t)}
		if !slices.ContainsFunc(causes, func(err error) bool { return errors.Is(err, ErrSlowReader) }) {
			t.Fatalf("ended by %v", causes)
		}
	})
}

// A slow reader that does read gets everything, parked replies included.
func TestBacklogIsDelivered(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std})
		nc := r.connect(t)
		write(t, nc, request(1, doPark, nil))
		p := <-r.parked
		const replies = 30
		for i := range replies {
			if err := p.conn.Reply(uint32(i), CodeOK, bytes.Repeat([]byte{byte(i)}, 500<<10)); err != nil {
				t.Fatal(err)
			}
		}
		write(t, nc, request(99, doEcho, []byte("behind")))
		seen := 0
		for range replies + 1 {
			f := readReply(t, nc)
			if f.seq == 99 {
				continue
			}
			if int(f.seq) != seen || !bytes.Equal(f.body, bytes.Repeat([]byte{byte(seen)}, 500<<10)) {
				t.Fatalf("reply %d where %d was due", f.seq, seen)
			}
			seen++
		}
	})
}

func TestCloseWhileParked(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std})
		nc := r.connect(t)
		write(t, nc, request(1, doPark, nil))
		p := <-r.parked
		nc.Close()
		if err := r.cause(t); !errors.Is(err, io.EOF) {
			t.Fatalf("ended by %v", err)
		}
		if err := p.conn.Reply(p.seq, CodeOK, nil); !errors.Is(err, ErrClosed) {
			t.Fatalf("Reply: %v", err)
		}
	})
}

func TestServerClosesConnection(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std})
		nc := r.connect(t)
		c := <-r.opened
		if c.RemoteAddr().String() != nc.LocalAddr().String() || c.LocalAddr().String() != r.addr || c.ID() != 1 {
			t.Errorf("connection %d %v -> %v", c.ID(), c.RemoteAddr(), c.LocalAddr())
		}
		c.Close()
		c.Close()
		closedSilently(t, nc)
		if err := r.cause(t); !errors.Is(err, ErrClosed) {
			t.Fatalf("ended by %v", err)
		}
	})
}

func TestShutdown(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std})
		idle, parked := r.connect(t), r.connect(t)
		write(t, parked, request(1, doPark, nil))
		p := <-r.parked
		<-r.opened
		<-r.opened
		if err := r.srv.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		closedSilently(t, idle)
		closedSilently(t, parked)
		if err := p.conn.Reply(1, CodeOK, nil); !errors.Is(err, ErrClosed) {
			t.Fatalf("Reply: %v", err)
		}
		if s := r.srv.Stats(); s.ConnsOpen != 0 {
			t.Errorf("%d connections left", s.ConnsOpen)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.srv.Serve(t.Context(), ln); !errors.Is(err, ErrClosed) {
			t.Fatalf("Serve after Shutdown: %v", err)
		}
		r.stop()
	})
}

// A request that is being served when the server stops gets its reply.
func TestShutdownLetsRequestsFinish(t *testing.T) {
	h := &gate{entered: make(chan struct{}), leave: make(chan struct{})}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := NewServer(ServerConfig{ShutdownGrace: patience}, h)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx, ln) }()
	r := &rig{addr: ln.Addr().String()}
	nc := r.connect(t)
	write(t, nc, request(3, 0, nil))
	<-h.entered
	cancel()
	close(h.leave)
	if f := readReply(t, nc); f.seq != 3 || string(f.body) != "finished" {
		t.Fatalf("reply %+v", f)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	closedSilently(t, nc)
}

// gate holds its one request until told.
type gate struct{ entered, leave chan struct{} }

func (*gate) Opened(*Conn) {}
func (*gate) Closed(*Conn) {}
func (g *gate) Serve(_ *Conn, _ Request, dst []byte) ([]byte, uint8, bool) {
	close(g.entered)
	<-g.leave
	return append(dst, "finished"...), CodeOK, false
}

// Two listeners, one server: each connection tells where it came in, and one context may end alone.
func TestTwoListeners(t *testing.T) {
	r := start(t, ServerConfig{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.srv.Serve(ctx, ln) }()
	first := r.connect(t)
	if c := <-r.opened; c.LocalAddr().String() != r.addr {
		t.Errorf("first came in at %v", c.LocalAddr())
	}
	second := (&rig{addr: ln.Addr().String()}).connect(t)
	if c := <-r.opened; c.LocalAddr().String() != ln.Addr().String() {
		t.Errorf("second came in at %v", c.LocalAddr())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	closedSilently(t, second)
	write(t, first, request(1, doEcho, nil))
	readReply(t, first)
}

func TestListenerOfAnotherKind(t *testing.T) {
	ln, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- NewServer(ServerConfig{}, newTestHandler()).Serve(t.Context(), ln) }()
	nc, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := <-ended; err == nil {
		t.Fatal("a unix listener was served")
	}
}

// Half frames of many peers together take no more than the server's share, and those of one address no more than its own;
// whoever would need more goes, and what the others held is free again when they go.
func TestLargeFramesOfManyPeers(t *testing.T) {
	const share = 4 << 20
	for _, cfg := range []ServerConfig{{LargeBytesMax: share}, {PeerLargeBytesMax: share}} {
		r := start(t, cfg)
		frame := request(1, doEcho, make([]byte, 3<<20))
		for round := range 2 {
			first := r.connect(t)
			write(t, first, frame[:len(frame)-1])
			waitFor(t, "the first half frame is held", func() bool { return r.srv.largeBytes.Load() >= 3<<20 })
			second := r.connect(t)
			_, _ = second.Write(frame[:len(frame)-1]) // it may be cut while it writes
			waitFor(t, "the second is cut", func() bool { return r.srv.Stats().BusyClosed == uint64(round+1) })
			r.stillServes(t)
			write(t, first, frame[len(frame)-1:])
			if f := readReply(t, first); len(f.body) != 3<<20 {
				t.Fatalf("the first frame came back with %d bytes", len(f.body))
			}
			first.Close()
			waitFor(t, "nothing is held", func() bool { return r.srv.largeBytes.Load() == 0 })
		}
	}
}
