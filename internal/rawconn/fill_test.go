package rawconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"mooncake/internal/limits"
)

func TestFillTakesAllOfIt(t *testing.T) {
	const mark = 1 << 20
	sizes := []int{0, 1, 24, limits.RawCallBytes - 1, limits.RawCallBytes, limits.RawCallBytes + 1, mark, mark + 1, 3*mark + 5}
	modes(t, func(t *testing.T, std bool) {
		for _, m := range []int{0, 1, mark, 64 << 20} {
			c, peer := pair(t, std)
			for _, size := range sizes {
				want := pattern(size + 3)
				go func() {
					peer.Write(want[:size/2])
					peer.Write(want[size/2:])
				}()
				got := make([]byte, size)
				if n, err := c.Fill(got, m); n != size || err != nil {
					t.Fatalf("mark %d, %d bytes: Fill = %d, %v", m, size, n, err)
				}
				// What follows is fewer bytes than the mark: it must be gone by now.
				rest := readAll(t, c, 3)
				if !bytes.Equal(append(got, rest...), want) {
					t.Fatalf("mark %d, %d bytes: differ", m, size)
				}
			}
		}
	})
}

// TestYieldForRest reads heads whose bodies come later. The reader gives way once for a small body, where the head was all there was.
func TestYieldForRest(t *testing.T) {
	const head = 8
	modes(t, func(t *testing.T, std bool) {
		c, peer := pair(t, std)
		c.YieldForRest()
		for _, size := range []int{1, 24, 4096, limits.DataRcvLowatFromBytes - 1, limits.DataRcvLowatFromBytes} {
			for _, room := range []int{head, head + 1} { // a read that was filled knows nothing of what is left
				want, goOn := pattern(head+size), make(chan struct{})
				go func() {
					peer.Write(want[:head])
					<-goOn
					peer.Write(want[head:])
				}()
				before, buffer := c.yielded, make([]byte, room)
				if n, err := c.Read(buffer); n != head || err != nil {
					t.Fatalf("%d bytes: head of %d, %v", size, n, err)
				}
				close(goOn)
				got := make([]byte, size)
				if n, err := c.Fill(got, 1<<20); n != size || err != nil {
					t.Fatalf("%d bytes, room for %d: Fill = %d, %v", size, room, n, err)
				}
				if !bytes.Equal(append(buffer[:head], got...), want) {
					t.Fatalf("%d bytes, room for %d: differ", size, room)
				}
				times := uint64(0)
				if !c.Std() && room > head && size < limits.DataRcvLowatFromBytes {
					times = 1
				}
				if c.yielded != before+times {
					t.Errorf("%d bytes, room for %d: gave way %d times, want %d", size, room, c.yielded-before, times)
				}
			}
		}
	})
}

func TestFillTellsWhatItGot(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		c, peer := pair(t, std)
		peer.Write([]byte("half"))
		peer.CloseWrite()
		got := make([]byte, 10)
		if n, err := c.Fill(got, 0); n != 4 || !errors.Is(err, io.ErrUnexpectedEOF) || string(got[:n]) != "half" {
			t.Fatalf("a stream that ends: %d, %v", n, err)
		}
		if n, err := c.Fill(got, 0); n != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("a stream that has ended: %d, %v", n, err)
		}

		c, peer = pair(t, std)
		peer.Write([]byte("half"))
		if _, err := c.Read(got[:1]); err != nil { // all of it is there now
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := c.Fill(got, 8); n != 3 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a stream that stands still: %d, %v", n, err)
		}
		c.Close()
		if n, err := c.Fill(got, 8); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Fatalf("a closed connection: %d, %v", n, err)
		}
	})
}

func TestBeforeFillWaits(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		c, peer := pair(t, std)
		waits := make(chan struct{})
		var once sync.Once
		c.BeforeFillWaits(func() error { once.Do(func() { close(waits) }); return nil })
		got := make([]byte, 3)
		if !c.Std() {
			peer.Write([]byte("abc"))
			if _, err := c.Read(got[:1]); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Fill(got[1:], 0); err != nil {
				t.Fatal(err)
			}
			select {
			case <-waits:
				t.Fatal("waited for what is there")
			default:
			}
		}
		go func() { // the peer sends only after the reader has had to wait
			<-waits
			peer.Write([]byte("def"))
		}()
		if _, err := c.Fill(got, 3); err != nil || string(got) != "def" {
			t.Fatalf("Fill: %q, %v", got, err)
		}
		refusal := errors.New("no more waiting")
		c.BeforeFillWaits(func() error { return refusal })
		if _, err := c.Fill(got, 0); !errors.Is(err, refusal) {
			t.Fatalf("Fill: %v", err)
		}
	})
}

func BenchmarkFill(b *testing.B) {
	const size = 1 << 20
	c, peer := pair(b, false)
	want := pattern(size)
	go func() {
		for {
			if _, err := peer.Write(want); err != nil {
				return
			}
		}
	}()
	got := make([]byte, size)
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Fill(got, size/4); err != nil {
			b.Fatal(err)
		}
	}
}
