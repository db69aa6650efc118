package segment

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"mooncake/internal/hostport"
)

// patience is far above what closing a connection takes.
const patience = 2 * time.Minute

// TestP36Peers lets nobody connect to the handshake port and the data port from an address that is not listed.
func TestP36Peers(t *testing.T) {
	m := newFakeMaster(t)
	c := daemonConfig(t, m)
	c.PeerAllowFrom = "10.0.0.0/8, ::1"
	d := run(t, c)
	m.wait(t, "MountSegment")
	m.wait(t, "Ping") // the answer to the mount has come
	ports := d.Ports()
	for name, port := range map[string]int{"handshake": ports.TE, "data": ports.Data} {
		conn, err := net.Dial("tcp", hostport.Join("127.0.0.1", port))
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s port: %d bytes, %v", name, n, err)
		}
		_ = conn.Close()
	}
	if h, data := d.handshake.Stats(), d.data.Stats(); h.Active != 0 || data.Accepted != 0 {
		t.Errorf("%+v, %+v", h, data)
	}
	// The daemon tries once whether it reaches itself, and is not on the list either.
	if status, body := d.get(t, "/health"); status != 200 || d.peerNetworks.Refused() < 2 {
		t.Errorf("%d %s, %d refused", status, body, d.peerNetworks.Refused())
	}
	if err := d.AllowPeers("nonsense"); err == nil || !strings.Contains(err.Error(), "--peer_allow_from") {
		t.Errorf("nonsense: %v", err)
	}
	if err := d.AllowPeers("127.0.0.0/8"); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", hostport.Join("127.0.0.1", ports.Data))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); d.data.Stats().Accepted != 1; {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("nobody is let in after the list has changed")
		}
	}
}

func TestLimitsPage(t *testing.T) {
	m := newFakeMaster(t)
	d := run(t, daemonConfig(t, m))
	_, body := d.get(t, "/limits")
	var page struct {
		Limits []limitRow `json:"limits"`
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		t.Fatal(err)
	}
	if len(page.Limits) < 10 {
		t.Errorf("%d limits", len(page.Limits))
	}
	for _, row := range page.Limits {
		if row.Name == "" || row.Unit == "" || row.Per == "" || row.Limit == 0 && row.Refused == nil {
			t.Errorf("%+v", row)
		}
	}
}

// TestP02ManyAtOnce starts fifty daemons on one host that are told no port: all come up, each with ports of its own.
func TestP02ManyAtOnce(t *testing.T) {
	const many = 50
	m := newFakeMaster(t)
	shm := t.TempDir()
	for range many {
		c := daemonConfig(t, m)
		c.ShmDir, c.SegmentBytes, c.PingEvery, c.FetchEvery = shm, 1<<20, time.Second, time.Second
		run(t, c)
	}
	endpoints := map[string]bool{}
	for end := time.Now().Add(2 * patience); len(endpoints) < many; {
		m.lock(func() {
			for _, s := range m.segments {
				endpoints[s.TeEndpoint] = true
			}
		})
		if time.Now().After(end) {
			t.Fatalf("%d endpoints of %d daemons", len(endpoints), many)
		}
		m.wait(t, "Ping")
	}
}
