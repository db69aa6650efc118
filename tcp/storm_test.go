package tcp

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
)

// Thousands of clients that connect, ask once and leave, as release 12 does for every request: no descriptor and no
// connection stays behind. Most leave by a reset, so that the client's side does not run out of ports either.
func TestStormOfShortConnections(t *testing.T) {
	const clients, each = 8, 500
	h := startHolder(t, ServerConfig{Options: DefaultOptions()}, pattern(1<<16, 1))
	before := descriptors(t)
	var storm sync.WaitGroup
	for client := range clients {
		storm.Go(func() {
			for i := range each {
				if err := askOnce(h, i%20 == 0, i%7 == 0); err != nil {
					t.Errorf("client %d, connection %d: %v", client, i, err)
					return
				}
			}
		})
	}
	storm.Wait()
	waitFor(t, "all connections are gone", func() bool { return h.Stats().Active == 0 })
	if stats := h.Stats(); stats.Accepted != clients*each {
		t.Errorf("stats %+v, want %d connections", stats, clients*each)
	}
	if after := descriptors(t); after > before+16 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// askOnce reads the same range over a connection of its own, or asks for one that is refused.
func askOnce(h *holder, inOrder, outside bool) error {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", h.port))
	if err != nil {
		return err
	}
	defer conn.Close()
	if !inOrder {
		conn.(*net.TCPConn).SetLinger(0)
	}
	r, want := request{op: opRead, addr: testBase + 100, size: 256, acknowledged: true}, statusFrameOK
	if outside {
		r.addr, want = 1, statusFrameRefused
	}
	if _, err := conn.Write(appendRequest(nil, r)); err != nil {
		return err
	}
	answer := make([]byte, statusBytes+256)
	if outside {
		answer = answer[:statusBytes]
	}
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	if !bytes.Equal(answer[:statusBytes], want) || !outside && !bytes.Equal(answer[statusBytes:], h.arena[100:356]) {
		return fmt.Errorf("answered % x", answer)
	}
	return nil
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
