package tcp

import (
	"bytes"
	"net"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"mooncake/internal/limits"
)

// sndbuf is the send buffer that the kernel has made, twice of what was asked for.
func sndbuf(t *testing.T, conn *net.TCPConn) (bytes int) {
	t.Helper()
	err := onSocket(conn, func(fd uintptr) (err error) {
		bytes, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes / 2
}

// TestWholeBodies gives a body room while it is the only one and fits, and takes the room back otherwise.
func TestWholeBodies(t *testing.T) {
	h := startHolder(t, ServerConfig{}, make([]byte, 4<<20))
	o := DefaultOptions()
	o.SndbufWholeBytes = 1 << 20
	d := startDialer(t, DialerConfig{Options: o})
	l, err := d.dial(t.Context(), dataAddress{"127.0.0.1", uint16(h.port)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if l.wholes.most == 0 { // the system does not allow it: then nothing has changed
		if d.TakesWhole(1) || sndbuf(t, l.stream.conn.TCP()) > o.SndbufLocalBytes {
			t.Error("there is no room for whole bodies, and yet there is")
		}
		return
	}
	write := func(size, want int) {
		t.Helper()
		body := pattern(size, 1)
		if err := l.transfer(transfer{request{uint64(size), testBase, opWrite, true}, body}); err != nil {
			t.Fatal(err)
		}
		if got := sndbuf(t, l.stream.conn.TCP()); got != want {
			t.Errorf("after a body of %d bytes the send buffer is %d, want %d", size, got, want)
		}
		if !bytes.Equal(h.arena[:size], body) {
			t.Error("something else was written")
		}
	}
	roomy, usual := roomFor(1<<20), o.SndbufLocalBytes
	apart.Store(0)
	write(100, usual)
	write(1<<20, roomy)
	write(100, roomy) // a change would bring nothing
	write(1<<20+1, usual)
	write(512<<10, roomy)
	if !d.TakesWhole(1<<20) || d.TakesWhole(1<<20+1) {
		t.Error("TakesWhole tells something else")
	}
	bodies.Add(1) // another one is being written
	write(1<<20, usual)
	bodies.Add(-1)
	if d.TakesWhole(1) {
		t.Error("TakesWhole just after two bodies at the same time")
	}
	for range limits.DataWholeApart {
		write(1<<20, usual)
	}
	write(1<<20, roomy)
	if n := bodies.Load(); n != 0 {
		t.Errorf("%d bodies are being written", n)
	}
}

// TestWholeBodiesOfMany writes at the same time over connections that get room and lose it.
func TestWholeBodiesOfMany(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		const size = 1 << 20
		h := startHolder(t, ServerConfig{Options: o}, make([]byte, 3*size))
		o.SndbufWholeBytes = size
		d := startDialer(t, DialerConfig{Options: o})
		var writers sync.WaitGroup
		for w := range uint64(3) {
			writers.Go(func() {
				for n := range uint64(20) {
					data, back := pattern(size, w<<8|n), make([]byte, size)
					if err := d.Write(t.Context(), h.target, testBase+w*size, data); err != nil {
						t.Error(err)
						return
					}
					if err := d.Read(t.Context(), h.target, testBase+w*size, back); err != nil || !bytes.Equal(back, data) {
						t.Errorf("read back: %v", err)
						return
					}
				}
			})
		}
		writers.Wait()
		if n := bodies.Load(); n != 0 {
			t.Errorf("%d bodies are being written", n)
		}
	})
}
