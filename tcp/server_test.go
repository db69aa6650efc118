package tcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func send(t testing.TB, conn net.Conn, r request, body []byte) {
	t.Helper()
	if _, err := conn.Write(append(appendRequest(nil, r), body...)); err != nil {
		t.Fatal(err)
	}
}

func receive(t testing.TB, conn net.Conn, n int) []byte {
	t.Helper()
	buf := make([]byte, n)
	if _, err := io.ReadFull(conn, buf); err != nil {
		t.Fatalf("reading %d bytes: %v", n, err)
	}
	return buf
}

func wantClosed(t testing.TB, conn net.Conn) {
	t.Helper()
	if rest, err := io.ReadAll(conn); err != nil || len(rest) != 0 {
		t.Fatalf("want a closed connection, got %d bytes, %v", len(rest), err)
	}
}

// Sizes around every boundary: what arrives with the header, the low-water mark, its threshold, and a piece.
var edgeSizes = []int{
	1, 2, 7, 24, 4096, 8191, 8192, 8193, 65536, 256<<10 - 1, 256 << 10, 256<<10 + 1, 256<<10 + 8192,
	1<<20 - 1, 1 << 20, 1<<20 + 1, 1<<20 + 8192, 1<<20 + 8193, 2<<20 + 1, 3 << 20, 4<<20 + 8193, 5<<20 - 1,
}

// One connection carries writes and reads of all sizes in both framings, one right after the other.
func TestWritesAndReadsOfAllSizes(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		h := startHolder(t, ServerConfig{Options: o}, make([]byte, 8<<20))
		conn := h.dial(t)
		for i, size := range edgeSizes {
			for _, acknowledged := range []bool{true, false} {
				body := pattern(size, uint64(i))
				addr := uint64(testBase + i)
				send(t, conn, request{op: opWrite, addr: addr, size: uint64(size), acknowledged: acknowledged}, body)
				if acknowledged {
					if status := receive(t, conn, statusBytes); !bytes.Equal(status, statusFrameOK) {
						t.Fatalf("write of %d bytes: status % x", size, status)
					}
				}
				send(t, conn, request{op: opRead, addr: addr, size: uint64(size), acknowledged: acknowledged}, nil)
				if acknowledged {
					if status := receive(t, conn, statusBytes); !bytes.Equal(status, statusFrameOK) {
						t.Fatalf("read of %d bytes: status % x", size, status)
					}
				}
				if got := receive(t, conn, size); !bytes.Equal(got, body) {
					t.Fatalf("read of %d bytes (acknowledged %v) differs from what was written", size, acknowledged)
				}
			}
		}
		want := uint64(2 * len(edgeSizes))
		waitFor(t, "the last read is counted", func() bool { return h.Stats().Reads == want })
		if stats := h.Stats(); stats.Writes != want || stats.Accepted != 1 || stats.Refused != 0 {
			t.Fatalf("stats %+v, want %d writes", stats, want)
		}
	})
}

// A client may send its next request before it has read the last answer; nothing of it may get lost or mixed up.
func TestRequestsBackToBack(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		h := startHolder(t, ServerConfig{Options: o}, make([]byte, 4<<20))
		for _, size := range []int{1, 100, 8192, 9000, 300 << 10, 1<<20 + 1} {
			conn := h.dial(t)
			first, second := pattern(size, 1), pattern(size, 2)
			all := append(appendRequest(nil, request{op: opWrite, addr: testBase, size: uint64(size), acknowledged: true}), first...)
			all = append(appendRequest(all, request{op: opWrite, addr: testBase + uint64(size), size: uint64(size)}), second...)
			all = appendRequest(all, request{op: opRead, addr: testBase, size: uint64(size)})
			all = appendRequest(all, request{op: opRead, addr: testBase + uint64(size), size: uint64(size), acknowledged: true})
			sent := make(chan error, 1)
			go func() { _, err := conn.Write(all); sent <- err }()
			want := append(append(append(append([]byte{}, statusFrameOK...), first...), statusFrameOK...), second...)
			if got := receive(t, conn, len(want)); !bytes.Equal(got, want) {
				t.Fatalf("size %d: the answers are not those of the four requests", size)
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Headers and bodies arrive in single bytes and odd pieces.
func TestPiecemealRequests(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		h := startHolder(t, ServerConfig{Options: o}, make([]byte, 1<<20))
		conn := h.dial(t)
		body := pattern(300<<10, 3)
		all := append(appendRequest(nil, request{op: opWrite, addr: testBase + 5, size: uint64(len(body)), acknowledged: true}), body...)
		for i, piece := range [][]byte{all[:1], all[1:23], all[23:24], all[24:25], all[25:9000], all[9000 : 300<<10], all[300<<10:]} {
			if _, err := conn.Write(piece); err != nil {
				t.Fatalf("piece %d: %v", i, err)
			}
		}
		if status := receive(t, conn, statusBytes); !bytes.Equal(status, statusFrameOK) {
			t.Fatalf("status % x", status)
		}
		if !bytes.Equal(h.arena[5:5+len(body)], body) {
			t.Fatal("memory differs from what was sent")
		}
	})
}

// Ranges that are not wholly inside one region, sizes that wrap, unknown codes: refused, and the connection closed,
// without a byte of the body being read and without a byte of memory being touched.
func TestRefusals(t *testing.T) {
	const size = 1 << 16
	cases := map[string]request{
		"size 0":              {addr: testBase, size: 0},
		"below":               {addr: testBase - 1, size: 1},
		"below and into":      {addr: testBase - 1, size: 2},
		"address 0":           {addr: 0, size: 16},
		"at the end":          {addr: testBase + size, size: 1},
		"over the end":        {addr: testBase + size - 1, size: 2},
		"whole and one":       {addr: testBase, size: size + 1},
		"into the neighbour":  {addr: testBase + size - 8, size: 16},
		"1 TiB":               {addr: testBase, size: 1 << 40},
		"wraps to the start":  {addr: testBase, size: 1<<64 - 1},
		"wraps into":          {addr: testBase + 8, size: 1<<64 - 4},
		"wraps to inside":     {addr: 1<<64 - 8, size: testBase + 16},
		"address at the top":  {addr: 1<<64 - 1, size: 1},
		"everything possible": {addr: 1<<64 - 1, size: 1<<64 - 1},
		"code 2":              {addr: testBase, size: 1, op: 2},
		"code 0x7f":           {addr: testBase, size: 1, op: 0x7f},
	}
	bothIO(t, func(t *testing.T, o Options) {
		arena := make([]byte, 2*size)
		server := NewServer(ServerConfig{Options: o})
		for i := range 2 { // two neighbours: no request may cross from one to the other
			if err := server.AddRegion(testBase+uint64(i*size), arena[i*size:(i+1)*size], nil); err != nil {
				t.Fatal(err)
			}
		}
		h := serveOn(t, server, arena, listen(t, "127.0.0.1:0"))
		refused := uint64(0)
		for name, r := range cases {
			if name == "at the end" || name == "over the end" {
				r.addr += size
			}
			for _, op := range []opcode{opRead, opWrite} {
				for _, acknowledged := range []bool{true, false} {
					r := r
					if r.op == opRead {
						r.op = op
					}
					r.acknowledged = acknowledged
					conn := h.dial(t)
					send(t, conn, r, bytes.Repeat([]byte{0xee}, 100))
					if acknowledged {
						if status := receive(t, conn, statusBytes); !bytes.Equal(status, statusFrameRefused) {
							t.Errorf("%s: status % x", name, status)
						}
						wantClosed(t, conn)
					} else if rest, _ := io.ReadAll(conn); len(rest) != 0 { // closed with unread bytes: may be a reset
						t.Errorf("%s: answered %d bytes", name, len(rest))
					}
					refused++
				}
			}
		}
		if stats := h.Stats(); stats.Refused != refused || stats.Reads+stats.Writes+stats.Broken+stats.Stalled != 0 {
			t.Errorf("stats %+v, want %d refused and nothing else", stats, refused)
		}
		if !bytes.Equal(arena, make([]byte, len(arena))) {
			t.Error("memory was touched")
		}
	})
}

func TestGarbageIsRefused(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		h := startHolder(t, ServerConfig{Options: o}, make([]byte, 4096))
		for i, garbage := range []string{
			"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + string(make([]byte, 64)),
			string(bytes.Repeat([]byte{0xff}, 5000)), string(make([]byte, 24)),
		} {
			conn := h.dial(t)
			io.WriteString(conn, garbage)
			rest, _ := io.ReadAll(conn)
			if len(rest) > statusBytes {
				t.Errorf("garbage %d was answered with %d bytes", i, len(rest))
			}
		}
		// A neighbour notices nothing.
		conn := h.dial(t)
		send(t, conn, request{op: opRead, addr: testBase, size: 4096}, nil)
		receive(t, conn, 4096)
	})
}

// A client that stops inside a body or a header is dropped after a time without progress; one that is merely slow, or
// idle between requests, is not.
func TestStalledRequestsAreDropped(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		h := startHolder(t, ServerConfig{Options: o, Progress: 100 * time.Millisecond}, make([]byte, 4<<20))
		idle := h.dial(t)
		send(t, idle, request{op: opRead, addr: testBase, size: 1}, nil)
		receive(t, idle, 1)
		for i, sent := range []int{0, 8192, 8193, 300 << 10, 2 << 20} {
			conn := h.dial(t)
			send(t, conn, request{op: opWrite, addr: testBase, size: 3 << 20, acknowledged: true}, make([]byte, sent))
			rest, _ := io.ReadAll(conn) // nothing but the end, perhaps a reset
			if len(rest) != 0 {
				t.Errorf("after %d bytes: answered % x", sent, rest)
			}
			waitFor(t, "the stall is counted", func() bool { return h.Stats().Stalled == uint64(i+1) })
		}
		half := h.dial(t)
		half.Write(make([]byte, 10))
		wantClosed(t, half)
		waitFor(t, "the half header is counted", func() bool { return h.Stats().Stalled == 6 })

		send(t, idle, request{op: opRead, addr: testBase, size: 1}, nil)
		receive(t, idle, 1)
	})
}

// The time limit of a body is not taken back when the body is there. It runs out while the connection rests, and that is the end
// of nothing.
func TestLimitOfTheLastBody(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		t.Parallel() // it waits for the limit
		h := startHolder(t, ServerConfig{Options: o, Progress: 3 * time.Second}, make([]byte, 1<<20))
		write := request{op: opWrite, addr: testBase, size: 100 << 10, acknowledged: true}
		resting, stuck := h.dial(t), h.dial(t)
		send(t, resting, write, pattern(100<<10, 1))
		receive(t, resting, statusBytes)
		// This one begins later, so when it is dropped the other's limit is over.
		send(t, stuck, write, make([]byte, 50<<10))
		waitFor(t, "the stall is counted", func() bool { return h.Stats().Stalled == 1 })
		for range 2 {
			send(t, resting, write, pattern(100<<10, 2))
			receive(t, resting, statusBytes)
		}
		if stats := h.Stats(); stats.Stalled != 1 || stats.Writes != 3 {
			t.Errorf("stats %+v", stats)
		}
	})
}

// A body that comes in pieces smaller than the low-water mark, each just inside the time limit, is taken.
func TestSlowBodyIsTaken(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		t.Parallel() // it has to be slow: the pauses are a fifth of the limit, all of them together are above it
		h := startHolder(t, ServerConfig{Options: o, Progress: 2 * time.Second}, make([]byte, 1<<20))
		conn := h.dial(t)
		body := pattern(600<<10, 4)
		send(t, conn, request{op: opWrite, addr: testBase, size: uint64(len(body)), acknowledged: true}, nil)
		tick := time.NewTicker(400 * time.Millisecond)
		defer tick.Stop()
		for rest := body; len(rest) > 0; <-tick.C {
			n := min(len(rest), 100<<10)
			if _, err := conn.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if status := receive(t, conn, statusBytes); !bytes.Equal(status, statusFrameOK) {
			t.Fatalf("status % x", status)
		}
		if !bytes.Equal(h.arena[:len(body)], body) {
			t.Fatal("memory differs from what was sent")
		}
		// The connection is as good as new: the mark and the deadline are gone.
		send(t, conn, request{op: opRead, addr: testBase, size: 3, acknowledged: true}, nil)
		receive(t, conn, statusBytes+3)
	})
}

// A peer that asks and does not read is dropped, too.
func TestReaderThatStopsIsDropped(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		o.SndbufBytes = 64 << 10
		h := startHolder(t, ServerConfig{Options: o, Progress: 100 * time.Millisecond}, make([]byte, 64<<20))
		conn := h.dial(t)
		conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		send(t, conn, request{op: opRead, addr: testBase, size: 64 << 20}, nil)
		waitFor(t, "the stall is counted", func() bool { return h.Stats().Stalled == 1 })
	})
}

func TestPeerThatLeavesInsideABody(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		h := startHolder(t, ServerConfig{Options: o}, make([]byte, 4<<20))
		for _, sent := range []int{0, 100, 300 << 10, 2 << 20} {
			conn := h.dial(t)
			send(t, conn, request{op: opWrite, addr: testBase, size: 3 << 20, acknowledged: true}, make([]byte, sent))
			conn.(*net.TCPConn).CloseWrite()
			wantClosed(t, conn)
		}
		waitFor(t, "all are counted", func() bool { return h.Stats().Broken == 4 && h.Stats().Active == 0 })
	})
}

func TestTooManyConnections(t *testing.T) {
	h := startHolder(t, ServerConfig{Options: DefaultOptions(), Conns: 2}, make([]byte, 64))
	kept := []net.Conn{h.dial(t), h.dial(t)}
	for _, conn := range kept {
		send(t, conn, request{op: opRead, addr: testBase, size: 1}, nil)
		receive(t, conn, 1)
	}
	wantClosed(t, h.dial(t))
	if stats := h.Stats(); stats.TurnedAway != 1 || stats.Active != 2 {
		t.Fatalf("stats %+v", stats)
	}
	kept[0].Close()
	waitFor(t, "a place is free", func() bool { return h.Stats().Active == 1 })
	send(t, kept[1], request{op: opRead, addr: testBase, size: 1}, nil)
	receive(t, kept[1], 1)
}

func TestUnknownCongestionControlIsRefused(t *testing.T) {
	o := DefaultOptions()
	o.CongestionControl = "nosuchalgorithm"
	mustContain(t, o.Validate(), "tcp_congestion_control", "nosuchalgorithm")
	server := NewServer(ServerConfig{Options: o})
	mustContain(t, server.Serve(context.Background(), listen(t, "127.0.0.1:0")), "nosuchalgorithm")
	for _, o := range []Options{{IO: "epoll"}, {RcvLowatBytes: -1}, {RcvLowatBytes: 1 << 30}, {SndbufBytes: -1}, {SndbufBytes: 1 << 30}, {SndbufLocalBytes: -1}, {SndbufLocalBytes: 1 << 30}} {
		if o.Validate() == nil {
			t.Errorf("options %+v are accepted", o)
		}
	}
	for _, o := range []Options{{}, DefaultOptions(), {IO: IOStd}} {
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// The bounds check agrees with arithmetic that cannot overflow.
func TestWindowBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.Uint64Range(1, 4096).Draw(t, "length")
		base := rapid.OneOf(rapid.Uint64Range(1, 1<<20), rapid.Uint64Range(1<<64-8192, 1<<64-4097), rapid.Just(uint64(testBase))).Draw(t, "base")
		near := func(x uint64) *rapid.Generator[uint64] {
			return rapid.Map(rapid.IntRange(-20, 20), func(d int) uint64 { return x + uint64(d) })
		}
		addr := rapid.OneOf(near(base), near(base+length), near(0), rapid.Uint64()).Draw(t, "addr")
		size := rapid.OneOf(near(length), near(0), near(-addr), near(base-addr), rapid.Uint64()).Draw(t, "size")
		r := &region{base: base, mem: make([]byte, length)}
		inside := size > 0 && addr >= base && addr-base < length && addr-base+size <= length && size <= length
		if window := r.window(addr, size); (window != nil) != inside {
			t.Fatalf("region [%#x, +%d), range %#x +%d: window of %d, inside %v", base, length, addr, size, len(window), inside)
		}
	})
}

func TestManyConnectionsAtOnce(t *testing.T) {
	bothIO(t, func(t *testing.T, o Options) {
		const conns, each = 8, 64 << 10
		h := startHolder(t, ServerConfig{Options: o}, make([]byte, conns*each))
		failed := make(chan error, conns)
		for i := range conns {
			conn := h.dial(t)
			go func() { failed <- writeAndReadBack(conn, testBase+uint64(i*each), pattern(each, uint64(i))) }()
		}
		for range conns {
			if err := <-failed; err != nil {
				t.Error(err)
			}
		}
	})
}

func writeAndReadBack(conn net.Conn, addr uint64, body []byte) error {
	for range 10 {
		conn.Write(append(appendRequest(nil, request{op: opWrite, addr: addr, size: uint64(len(body)), acknowledged: true}), body...))
		conn.Write(appendRequest(nil, request{op: opRead, addr: addr, size: uint64(len(body)), acknowledged: true}))
		got := make([]byte, 2*statusBytes+len(body))
		if _, err := io.ReadFull(conn, got); err != nil {
			return err
		}
		if !bytes.Equal(got[2*statusBytes:], body) {
			return fmt.Errorf("bytes at %#x differ", addr)
		}
	}
	return nil
}
