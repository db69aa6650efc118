package interop

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// TestP04Addresses has clients in two processes, one that writes and one that reads, under every kind of address, at a master
// that listens on all of them. The memory is at an IPv4 address: clients of this release do not find peers at others.
func TestP04Addresses(t *testing.T) {
	beside(t, works)
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{Flags: []string{"--rpc_address=::"}})
	_, port, err := net.SplitHostPort(m.RPC)
	if err != nil {
		t.Fatal(err)
	}
	startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 64 * mib})
	own, err := r.TakePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	writer, err := r.StartClient(R13)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := r.StartClient(R13)
	if err != nil {
		t.Fatal(err)
	}
	for n, host := range []string{"127.0.0.1", "::1", fmt.Sprintf("[::1]:%d", own[0]), "localhost"} {
		at := net.JoinHostPort("127.0.0.1", port)
		if strings.Contains(host, "::1") {
			at = net.JoinHostPort("::1", port)
		}
		w := setup(t, writer, StoreOptions{Name: fmt.Sprint("w", n), Master: at, Host: host})
		plain, _, _ := strings.Cut(strings.TrimPrefix(host, "["), "]")
		s := setup(t, reader, StoreOptions{Name: fmt.Sprint("r", n), Master: at, Host: plain})
		for i := range 4 {
			item := Item{Key: key("%s/%d", host, i), Size: 100_000, Seed: int64(i + 1)}
			put(t, w, item, nil)
			get(t, s, item)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}
