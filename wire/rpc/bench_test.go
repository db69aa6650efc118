package rpc

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// emptyHandler answers every request with an empty body.
type emptyHandler struct{}

func (emptyHandler) Opened(*Conn) {}
func (emptyHandler) Closed(*Conn) {}
func (emptyHandler) Serve(_ *Conn, _ Request, dst []byte) ([]byte, uint8, bool) {
	return dst, CodeOK, false
}

// serveEmpty starts a server of empty calls and returns its address.
func serveEmpty(tb testing.TB, cfg ServerConfig) string {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	srv := NewServer(cfg, emptyHandler{})
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(tb.Context(), ln) }()
	tb.Cleanup(func() {
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
	return ln.Addr().String()
}

// caller is a peer that allocates nothing: what a benchmark counts is the server's.
type caller struct {
	nc      net.Conn
	out, in []byte
}

func newCaller(tb testing.TB, addr string, inFlight int) *caller {
	tb.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { nc.Close() })
	c := &caller{nc: nc, in: make([]byte, inFlight*ReplyHeaderBytes)}
	for i := range inFlight {
		c.out = append(c.out, request(uint32(i), 1, make([]byte, 100))...)
	}
	return c
}

func (c *caller) round(tb testing.TB) {
	if _, err := c.nc.Write(c.out); err != nil {
		tb.Error(err)
	}
	if _, err := io.ReadFull(c.nc, c.in); err != nil {
		tb.Error(err)
	}
}

// The server makes nothing per call, neither buffers nor closures.
func TestServerAllocatesNothingPerCall(t *testing.T) {
	c := newCaller(t, serveEmpty(t, ServerConfig{}), 16)
	c.round(t)
	if n := testing.AllocsPerRun(200, func() { c.round(t) }); n >= 1 {
		t.Errorf("%v allocations per round of 16 calls, want 0", n)
	}
}

// A call is one request with a 100-byte body and one empty reply. The peer's work is in the time.
func BenchmarkEmptyCall(b *testing.B) {
	for _, bc := range []struct{ conns, inFlight int }{{1, 1}, {8, 1}, {1, 16}, {8, 16}} {
		for _, mode := range []struct {
			name string
			std  bool
		}{{"raw", false}, {"std", true}} {
			b.Run(fmt.Sprintf("conns=%d/inflight=%d/io=%s", bc.conns, bc.inFlight, mode.name), func(b *testing.B) {
				addr := serveEmpty(b, ServerConfig{Std: mode.std})
				callers := make([]*caller, bc.conns)
				for i := range callers {
					callers[i] = newCaller(b, addr, bc.inFlight)
					callers[i].round(b)
				}
				b.ReportAllocs()
				b.ResetTimer()
				rounds := b.N/(bc.conns*bc.inFlight) + 1
				var wg sync.WaitGroup
				for _, c := range callers {
					wg.Go(func() {
						for range rounds {
							c.round(b)
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// Our own client against the same server: one goroutine, then sixteen sharing the connection.
func BenchmarkClientCall(b *testing.B) {
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			c, err := Dial(b.Context(), serveEmpty(b, ServerConfig{}), ClientConfig{})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			body := make([]byte, 100)
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for range b.N/callers + 1 {
						if _, _, err := c.Call(b.Context(), 1, body); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// A parked reply from another goroutine while the peer reads.
func BenchmarkParkedReply(b *testing.B) {
	r := start(b, ServerConfig{})
	c := r.dial(b, ClientConfig{})
	b.ReportAllocs()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p := range r.parked {
			if err := p.conn.Reply(p.seq, CodeOK, nil); err != nil {
				b.Error(err)
			}
		}
	}()
	for b.Loop() {
		if _, _, err := c.Call(b.Context(), doPark, nil); err != nil {
			b.Fatal(err)
		}
	}
	close(r.parked)
	<-done
}
