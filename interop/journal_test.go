package interop

import (
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// restartMaster ends the master with a signal and starts it again on the same ports and the same journal.
func restartMaster(t *testing.T, r *Rig, m *Master, o MasterOptions, sig syscall.Signal) *Master {
	t.Helper()
	if err := m.Signal(sig); err != nil {
		t.Fatal(err)
	}
	if _, err := m.ExitCode(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct {
		addr string
		port *int
	}{{m.RPC, &o.RPCPort}, {m.Admin, &o.AdminPort}} {
		_, port, err := net.SplitHostPort(p.addr)
		if err == nil {
			*p.port, err = strconv.Atoi(port)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return startMaster(t, r, o)
}

// TestMasterRestart kills a master that keeps a journal, under clients with and without segments and our daemon: after
// the start every acknowledged object is read again, byte for byte, nothing is written over one of them, and all of it goes
// when it is removed.
func TestMasterRestart(t *testing.T) {
	small, large := repeat(1000, 10_000), repeat(4, 20)
	r := newRig(t)
	options := MasterOptions{Flags: []string{"--data_dir=" + t.TempDir()}}
	m := startMaster(t, r, options)
	daemon := startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 512 * mib})
	owner := startStore(t, r, R13, StoreOptions{Master: m.RPC, SegmentBytes: 512 * mib})
	segments(t, m, 2)
	stores := []*Store{owner, startStore(t, r, R14, StoreOptions{Master: m.RPC})}
	if *soak {
		stores = append(stores, startStore(t, r, R12, StoreOptions{Master: m.RPC, Host: "127.0.0.3"}))
	}
	var items []Item
	for n, s := range stores {
		own := itemsOf("small/"+strconv.Itoa(n)+"/", small/len(stores), func(int) int64 { return 4096 })
		own = append(own, itemsOf("large/"+strconv.Itoa(n)+"/", large/len(stores), func(int) int64 { return 16 * mib })...)
		var bad []string
		if err := s.Do("write_many", map[string]any{"items": own}, &bad); err != nil || len(bad) != 0 {
			t.Fatalf("writing: %v, failed %v", err, bad)
		}
		items = append(items, own...)
	}
	put(t, owner, Item{Key: "removed", Size: mib, Seed: 1}, nil)
	for round, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		m = restartMaster(t, r, m, options, sig)
		began := time.Now()
		for n, s := range stores {
			eventually(t, 60*time.Second, "the first read after the restart", func() bool {
				got, err := s.Get(items[0])
				return err == nil && got.Same
			})
			t.Logf("%v: client %d reads %v after the start", sig, n, time.Since(began).Round(10*time.Millisecond))
		}
		readAll(t, stores, items)
		if round == 0 {
			if code, err := remove(owner, "removed"); err != nil || code != codeOK {
				t.Fatalf("remove after the restart: %d, %v", code, err)
			}
		}
		more := itemsOf("more/"+strconv.Itoa(round)+"/", small/4, func(int) int64 { return 4096 })
		var bad []string
		if err := stores[1].Do("write_many", map[string]any{"items": more}, &bad); err != nil || len(bad) != 0 {
			t.Fatalf("writing after the restart: %v, failed %v", err, bad)
		}
		items = append(items, more...)
		readAll(t, stores, items)
	}
	absent(t, owner, "removed")
	segments(t, m, 2)
	if err := daemon.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	segments(t, m, 1)
}

func remove(s *Store, k Key) (code int, err error) {
	err = s.Call(&code, "remove", k, true)
	return code, err
}

// readAll reads every item from every store, in batches.
func readAll(t *testing.T, stores []*Store, items []Item) {
	t.Helper()
	for n, s := range stores {
		for from := 0; from < len(items); {
			to, bytes := from, int64(0)
			for to < len(items) && to-from < 500 && (to == from || bytes+items[to].Size <= 32*mib) {
				bytes += items[to].Size
				to++
			}
			got, _, err := s.GetInto(items[from:to])
			if err != nil {
				t.Fatal(err)
			}
			for i, g := range got {
				if !g.Same {
					t.Fatalf("client %d: %s brought %d", n, items[from+i].Key, g.Size)
				}
			}
			from = to
		}
	}
}

// TestMasterRestartMetadata restarts a master that is the metadata server as well: a reader that starts afterwards finds
// the segments of those who started before.
func TestMasterRestartMetadata(t *testing.T) {
	r := newRig(t)
	options := MasterOptions{HTTPMetadata: true, Flags: []string{"--data_dir=" + t.TempDir()}}
	m := startMaster(t, r, options)
	s := startStore(t, r, R13, StoreOptions{Master: m.RPC, Metadata: m.MetadataURL, SegmentBytes: 64 * mib})
	item := Item{Key: "kept", Size: mib, Seed: 3}
	put(t, s, item, nil)
	_, port, err := net.SplitHostPort(m.MetadataURL[len("http://") : len(m.MetadataURL)-len("/metadata")])
	if err != nil {
		t.Fatal(err)
	}
	options.HTTPMetadata = false
	options.Flags = append(options.Flags, "--enable_http_metadata_server=true", "--http_metadata_server_host=127.0.0.1", "--http_metadata_server_port="+port)
	restarted := restartMaster(t, r, m, options, syscall.SIGKILL)
	if err := restarted.waitListening(startLimit, net.JoinHostPort("127.0.0.1", port)); err != nil {
		t.Fatal(err)
	}
	late := startStore(t, r, R13, StoreOptions{Master: restarted.RPC, Metadata: m.MetadataURL})
	eventually(t, 60*time.Second, "a new reader's first read", func() bool {
		got, err := late.Get(item)
		return err == nil && got.Same
	})
}
