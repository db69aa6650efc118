package tcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"mooncake/internal/limits"
)

func TestRegionsMustBeSoundAndApart(t *testing.T) {
	s := NewServer(ServerConfig{})
	mem := make([]byte, 100)
	for _, base := range []uint64{1000, 1100, 1<<64 - 100} {
		if err := s.AddRegion(base, mem, nil); err != nil {
			t.Fatalf("region at %d: %v", base, err)
		}
	}
	for _, c := range []struct {
		base uint64
		mem  []byte
	}{{0, mem}, {5000, nil}, {1<<64 - 99, mem}, {1000, mem}, {901, mem}, {1199, mem}, {1050, mem[:10]}, {1<<64 - 1, mem[:1]}} {
		if err := s.AddRegion(c.base, c.mem, nil); err == nil {
			t.Errorf("region at %d of %d bytes was accepted", c.base, len(c.mem))
		}
	}
	if err := s.RemoveRegion(context.Background(), 4321); err == nil {
		t.Error("a region that is not there was removed")
	}
	if err := s.RemoveRegion(context.Background(), 1000); err != nil {
		t.Error(err)
	}
	if err := s.AddRegion(990, mem, nil); err != nil {
		t.Errorf("the place of a removed region is not free: %v", err)
	}
}

// The topmost region ends at the last address there is; requests for its last bytes must not wrap.
func TestRegionAtTheTopOfTheAddressSpace(t *testing.T) {
	server := NewServer(ServerConfig{Options: DefaultOptions()})
	arena := pattern(64, 9)
	if err := server.AddRegion(1<<64-64, arena, nil); err != nil {
		t.Fatal(err)
	}
	h := serveOn(t, server, arena, listen(t, "127.0.0.1:0"))
	conn := h.dial(t)
	send(t, conn, request{op: opRead, addr: 1<<64 - 8, size: 8}, nil)
	if got := receive(t, conn, 8); !bytes.Equal(got, arena[56:]) {
		t.Fatalf("read % x", got)
	}
	send(t, conn, request{op: opRead, addr: 1<<64 - 8, size: 9}, nil)
	wantClosed(t, conn)
}

func TestRegionsComeAndGoUnderOneConnection(t *testing.T) {
	h := startHolder(t, ServerConfig{Options: DefaultOptions()}, pattern(64, 1))
	conn := h.dial(t)
	const second = testBase + 1<<20
	mem := pattern(64, 2)
	if err := h.AddRegion(second, mem, nil); err != nil {
		t.Fatal(err)
	}
	send(t, conn, request{op: opRead, addr: second, size: 64}, nil)
	if got := receive(t, conn, 64); !bytes.Equal(got, mem) {
		t.Fatal("the second region's bytes differ")
	}
	if err := h.RemoveRegion(context.Background(), second); err != nil {
		t.Fatal(err)
	}
	send(t, conn, request{op: opRead, addr: testBase, size: 64}, nil)
	receive(t, conn, 64)
	send(t, conn, request{op: opRead, addr: second, size: 1, acknowledged: true}, nil)
	if status := receive(t, conn, statusBytes); !bytes.Equal(status, statusFrameRefused) {
		t.Fatalf("read of a removed region: status % x", status)
	}
}

// RemoveRegion waits for a request in progress, and cuts it when told not to wait longer.
func TestRemovalOfARegionInUse(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		for _, patient := range []bool{true, false} {
			h := startHolder(t, ServerConfig{Options: o}, make([]byte, 1<<20))
			conn := h.dial(t)
			body := pattern(1<<20, 5)
			send(t, conn, request{op: opWrite, addr: testBase, size: 1 << 20, acknowledged: true}, body[:1000])
			waitFor(t, "the request is at work", func() bool { return h.regionsInUse() == 1 })

			ctx, cancel := context.WithCancel(context.Background())
			removed := make(chan error, 1)
			go func() { removed <- h.RemoveRegion(ctx, testBase) }()
			waitFor(t, "the region is out of the table", func() bool { return len(*h.regions.Load()) == 0 })
			if patient {
				if _, err := conn.Write(body[1000:]); err != nil {
					t.Fatal(err)
				}
				receive(t, conn, statusBytes)
			} else {
				cancel()
				io.Copy(io.Discard, conn)
			}
			if err := <-removed; err != nil {
				t.Fatal(err)
			}
			if patient && !bytes.Equal(h.arena, body) {
				t.Error("the request in progress was not finished")
			}
			cancel()
		}
	})
}

func (s *Server) regionsInUse() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.region.Load() != nil {
			n++
		}
	}
	return n
}

// The end of Serve closes what rests at once, lets work finish, and cuts what does not.
func TestShutdown(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		h := startHolder(t, ServerConfig{Options: o, Grace: 500 * time.Millisecond}, make([]byte, 1<<20))
		resting, working, stuck := h.dial(t), h.dial(t), h.dial(t)
		send(t, resting, request{op: opRead, addr: testBase + 5000, size: 1}, nil)
		receive(t, resting, 1)
		body := pattern(1000, 5)
		send(t, working, request{op: opWrite, addr: testBase, size: 1000, acknowledged: true}, body[:10])
		send(t, stuck, request{op: opWrite, addr: testBase + 1000, size: 1000, acknowledged: true}, body[:10])
		waitFor(t, "both are at work", func() bool { return h.regionsInUse() == 2 })

		stopped := make(chan struct{})
		go func() { h.stop(); close(stopped) }()
		wantClosed(t, resting)
		if _, err := working.Write(body[10:]); err != nil {
			t.Fatal(err)
		}
		if status := receive(t, working, statusBytes); !bytes.Equal(status, statusFrameOK) {
			t.Fatalf("status % x", status)
		}
		wantClosed(t, working)
		<-stopped
		io.Copy(io.Discard, stuck)
		if !bytes.Equal(h.arena[:1000], body) {
			t.Error("the write that was let finish is not in memory")
		}
		if active := h.Stats().Active; active != 0 {
			t.Errorf("%d connections after the end", active)
		}
	})
}

// TestBeforeWrite: what is about to be written is told piece by piece, in offsets of its own region, and reads are not.
func TestBeforeWrite(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		const second, large = testBase + 1<<30, 2*limits.DataReadyBytes + 100
		server := NewServer(ServerConfig{Options: o})
		arena, other := make([]byte, large+50), make([]byte, 100)
		var told []string // one connection, one goroutine
		tell := func(name string) func(offset, size uint64) {
			return func(offset, size uint64) { told = append(told, fmt.Sprintf("%s %d+%d", name, offset, size)) }
		}
		if err := server.AddRegion(testBase, arena, tell("first")); err != nil {
			t.Fatal(err)
		}
		if err := server.AddRegion(second, other, tell("second")); err != nil {
			t.Fatal(err)
		}
		conn := serveOn(t, server, arena, listen(t, "127.0.0.1:0")).dial(t)
		body := pattern(large, 3)
		for _, w := range []request{{op: opWrite, addr: second + 90, size: 10}, {op: opWrite, addr: testBase + 50, size: large}} {
			send(t, conn, w, body[:w.size])
			send(t, conn, request{op: opRead, addr: w.addr, size: w.size}, nil)
			if !bytes.Equal(receive(t, conn, int(w.size)), body[:w.size]) {
				t.Errorf("%d bytes at %#x differ", w.size, w.addr)
			}
		}
		want := []string{
			"second 90+10", fmt.Sprintf("first 50+%d", limits.DataReadyBytes),
			fmt.Sprintf("first %d+%d", 50+limits.DataReadyBytes, limits.DataReadyBytes), fmt.Sprintf("first %d+100", 50+2*limits.DataReadyBytes),
		}
		if !slices.Equal(told, want) {
			t.Errorf("told of %q, want %q", told, want)
		}
	})
}
