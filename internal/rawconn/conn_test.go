package rawconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mooncake/internal/limits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds waits that end at once when all is well.
const patience = 2 * time.Minute

// modes runs a test once per way of moving bytes.
func modes(t *testing.T, f func(t *testing.T, std bool)) {
	t.Helper()
	for _, m := range []struct {
		name string
		std  bool
	}{{"raw", false}, {"std", true}} {
		t.Run(m.name, func(t *testing.T) { f(t, m.std) })
	}
}

// pair returns the connection under test and an ordinary peer.
func pair(t testing.TB, std bool) (*Conn, *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	peer, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(accepted.(*net.TCPConn), std)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		peer.Close()
	})
	if err := peer.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c, peer.(*net.TCPConn)
}

// pattern is n bytes that tell their own position.
func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + i>>8 + i>>16)
	}
	return p
}

// readAll reads until it has n bytes, whatever the pieces.
func readAll(t *testing.T, c *Conn, n int) []byte {
	t.Helper()
	got := make([]byte, n)
	for at := 0; at < n; {
		k, err := c.Read(got[at:])
		if err != nil {
			t.Fatalf("read after %d of %d bytes: %v", at, n, err)
		}
		at += k
	}
	return got
}

func TestModes(t *testing.T) {
	c, _ := pair(t, false)
	if c.Std() == rawSupported {
		t.Errorf("Std() = %v although the raw path is supported: %v", c.Std(), rawSupported)
	}
	c, peer := pair(t, true)
	if !c.Std() {
		t.Error("standard mode was asked for")
	}
	if got, want := c.RemoteAddr().String(), peer.LocalAddr().String(); got != want {
		t.Errorf("RemoteAddr = %s, want %s", got, want)
	}
	if got, want := c.LocalAddr().String(), peer.RemoteAddr().String(); got != want {
		t.Errorf("LocalAddr = %s, want %s", got, want)
	}
	if c.TCP() == nil {
		t.Error("TCP() is nil")
	}
}

func TestReadTakesWhatIsThere(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		c, peer := pair(t, std)
		if _, err := peer.Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 100)
		n, err := c.Read(p[:1])
		if n != 1 || err != nil || p[0] != 'a' {
			t.Fatalf("Read = %d, %v, %q", n, err, p[:n])
		}
		n, err = c.Read(p)
		if err != nil || string(p[:n]) != "bc" {
			t.Fatalf("Read = %d, %v, %q", n, err, p[:n])
		}
		if n, err := c.Read(nil); n != 0 || err != nil {
			t.Fatalf("Read(nil) = %d, %v", n, err)
		}
		peer.CloseWrite()
		if n, err := c.Read(p); n != 0 || err != io.EOF {
			t.Fatalf("Read at the end = %d, %v", n, err)
		}
	})
}

func TestReadWaits(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		c, peer := pair(t, std)
		got := make(chan string)
		go func() {
			p := make([]byte, 16)
			n, err := c.Read(p)
			if err != nil {
				got <- err.Error()
				return
			}
			got <- string(p[:n])
		}()
		if _, err := peer.Write([]byte("late")); err != nil {
			t.Fatal(err)
		}
		if s := <-got; s != "late" {
			t.Fatalf("got %q", s)
		}
	})
}

func TestReadvFillsInOrder(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		for _, sizes := range [][2]int{{20, 8192}, {0, 10}, {10, 0}, {20, 200 << 10}} {
			c, peer := pair(t, std)
			want := pattern(sizes[0] + sizes[1])
			go peer.Write(want)
			a, b := make([]byte, sizes[0]), make([]byte, sizes[1])
			ra, rb := a, b
			for len(ra)+len(rb) > 0 {
				n, err := c.Readv(ra, rb)
				if err != nil {
					t.Fatal(err)
				}
				inA := min(n, len(ra))
				ra, rb = ra[inA:], rb[n-inA:]
			}
			if !bytes.Equal(append(a, b...), want) {
				t.Fatalf("%v: bytes differ", sizes)
			}
		}
	})
}

func TestWriteSizes(t *testing.T) {
	sizes := []int{1, 20, 4096, limits.RawCallBytes - 1, limits.RawCallBytes, limits.RawCallBytes + 1, 5<<20 + 3}
	modes(t, func(t *testing.T, std bool) {
		for _, size := range sizes {
			c, peer := pair(t, std)
			want := pattern(size)
			done := make(chan error, 1)
			go func() {
				n, err := c.Write(want)
				if err == nil && n != size {
					err = errors.New("short write without an error")
				}
				done <- err
			}()
			got := make([]byte, size)
			if _, err := io.ReadFull(peer, got); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%d bytes: differ", size)
			}
		}
	})
}

func TestWritevGathers(t *testing.T) {
	cases := [][]int{{}, {0}, {5}, {20, 3000}, {20, 0, 7}, {1, 2, 3, 4}, {20, 3 << 20}, {100, 200 << 10, 1, 300 << 10}}
	modes(t, func(t *testing.T, std bool) {
		for _, sizes := range cases {
			c, peer := pair(t, std)
			total := 0
			for _, s := range sizes {
				total += s
			}
			want := pattern(total)
			var pieces [][]byte
			rest := want
			for _, s := range sizes {
				pieces = append(pieces, rest[:s])
				rest = rest[s:]
			}
			done := make(chan error, 1)
			go func() {
				n, err := c.Writev(pieces...)
				if err == nil && n != total {
					err = errors.New("short write without an error")
				}
				done <- err
			}()
			got := make([]byte, total)
			if _, err := io.ReadFull(peer, got); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%v: bytes differ", sizes)
			}
		}
		c, _ := pair(t, std)
		if _, err := c.Writev(make([][]byte, limits.RawPieces+1)...); err == nil {
			t.Fatal("too many pieces were accepted")
		}
	})
}

func TestAdvance(t *testing.T) {
	whole := []int{3, 1, 4, 2}
	for step := 1; step <= 10; step++ {
		var tr transfer
		for i, n := range whole {
			tr.pieces[i] = pattern(n)
		}
		tr.count = len(whole)
		left := 10
		for {
			n := min(step, left)
			left -= n
			done := tr.advance(n)
			if done != (left == 0) || sizeOf(&tr) != left || tr.done != 10-left {
				t.Fatalf("step %d: done=%v size=%d left=%d", step, done, sizeOf(&tr), left)
			}
			if done {
				break
			}
		}
	}
}

// sizeOf is the number of bytes in all pieces.
func sizeOf(t *transfer) (n int) {
	for _, p := range t.pieces[:t.count] {
		n += len(p)
	}
	return n
}

func TestTryWriteNeverWaits(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		c, peer := pair(t, std)
		want := pattern(64 << 20)
		n, err := c.TryWrite(want)
		if err != nil {
			t.Fatal(err)
		}
		if c.Std() {
			if n != 0 {
				t.Fatalf("standard mode took %d bytes", n)
			}
			return
		}
		if n == 0 || n == len(want) {
			t.Fatalf("the kernel took %d of %d bytes", n, len(want))
		}
		got := make([]byte, n)
		if _, err := io.ReadFull(peer, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want[:n]) {
			t.Fatal("bytes differ")
		}
	})
}

func TestCloseWakesReader(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		c, _ := pair(t, std)
		done := make(chan error)
		started := make(chan struct{})
		go func() {
			close(started)
			_, err := c.Read(make([]byte, 10))
			done <- err
		}()
		<-started
		c.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Fatalf("read: %v", err)
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("write: %v", err)
		}
	})
}

func TestCloseWakesWriter(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		c, peer := pair(t, std)
		type result struct {
			n   int
			err error
		}
		done := make(chan result)
		go func() {
			n, err := c.Write(pattern(64 << 20))
			done <- result{n, err}
		}()
		if _, err := io.ReadFull(peer, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		c.Close()
		r := <-done
		if !errors.Is(r.err, net.ErrClosed) || r.n < 1000 || r.n >= 64<<20 {
			t.Fatalf("write: %d, %v", r.n, r.err)
		}
	})
}

func TestDeadlines(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		c, _ := pair(t, std)
		past := time.Now().Add(-time.Second)
		if err := c.SetReadDeadline(past); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read: %v", err)
		}
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatalf("write under a read deadline: %v", err)
		}
		if err := c.SetWriteDeadline(past); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("write: %v", err)
		}
		if err := c.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := c.Read(make([]byte, 1))
			done <- err
		}()
		if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read in progress: %v", err)
		}
		if err := c.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatalf("write after the deadline was lifted: %v", err)
		}
	})
}

func TestPeerGone(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		c, peer := pair(t, std)
		peer.SetLinger(0)
		peer.Close()
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, net.ErrClosed) {
			t.Fatalf("read: %v", err)
		}
		if _, err := c.Write([]byte("x")); err == nil || errors.Is(err, net.ErrClosed) {
			t.Fatalf("write: %v", err)
		}
	})
}

// Bodies around the mark, the peer in two halves: the mark is lowered to the rest before each wait, so nothing hangs.
func TestRcvLowat(t *testing.T) {
	const mark = 1 << 20
	sizes := []int{1, 256<<10 - 1, 256 << 10, 256<<10 + 1, mark - 1, mark, mark + 1, 3*mark + 5}
	modes(t, func(t *testing.T, std bool) {
		c, peer := pair(t, std)
		for _, size := range sizes {
			want := pattern(size)
			go func() {
				peer.Write(want[:size/2])
				peer.Write(want[size/2:])
			}()
			got := make([]byte, size)
			for at := 0; at < size; {
				if err := c.SetRcvLowat(min(size-at, mark)); err != nil {
					t.Fatal(err)
				}
				n, err := c.Read(got[at:])
				if err != nil {
					t.Fatal(err)
				}
				at += n
			}
			if err := c.SetRcvLowat(0); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%d bytes: differ", size)
			}
		}
		// A peer that leaves below the mark is still noticed.
		if err := c.SetRcvLowat(mark); err != nil {
			t.Fatal(err)
		}
		peer.Write([]byte("half"))
		peer.CloseWrite()
		if got := readAll(t, c, 4); string(got) != "half" {
			t.Fatalf("got %q", got)
		}
		c.Close()
		if err := c.SetRcvLowat(2); err == nil {
			t.Fatal("a closed connection took a mark")
		}
	})
}

func TestBuffersAreForgotten(t *testing.T) {
	c, peer := pair(t, false)
	go peer.Write([]byte("abcdefgh"))
	if _, err := c.Readv(make([]byte, 2), make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Fill(make([]byte, 4), 2); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Writev([]byte("ab"), []byte("cd")); err != nil {
		t.Fatal(err)
	}
	for _, tr := range []*transfer{&c.in, &c.out} {
		if slices.ContainsFunc(tr.pieces[:], func(p []byte) bool { return p != nil }) {
			t.Fatal("a buffer is kept after the call")
		}
	}
}

func TestNoAllocation(t *testing.T) {
	c, peer := pair(t, false)
	if c.Std() {
		return // the standard library's own allocations are not ours to bound
	}
	msg, reply := pattern(120), make([]byte, 16)
	in, scratch := make([]byte, 20), make([]byte, 8192)
	n := testing.AllocsPerRun(200, func() {
		peer.Write(msg)
		for got := 0; got < len(msg); {
			k, err := c.Readv(in, scratch)
			if err != nil {
				t.Fatal(err)
			}
			got += k
		}
		if _, err := c.Writev(in[:8], scratch[:4]); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(in[:4]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(peer, reply); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations per call, want 0", n)
	}
}

func BenchmarkEcho(b *testing.B) {
	for _, m := range []struct {
		name string
		std  bool
	}{{"raw", false}, {"std", true}} {
		b.Run(m.name, func(b *testing.B) {
			c, peer := pair(b, m.std)
			peer.SetDeadline(time.Time{})
			done := make(chan struct{})
			go func() {
				defer close(done)
				p := make([]byte, 4096)
				for {
					n, err := c.Read(p)
					if err != nil {
						return
					}
					if _, err := c.Write(p[:n]); err != nil {
						return
					}
				}
			}()
			p := make([]byte, 64)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := peer.Write(p); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(peer, p); err != nil {
					b.Fatal(err)
				}
			}
			c.Close()
			<-done
		})
	}
}
