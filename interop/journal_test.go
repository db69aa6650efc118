package interop

import (
	"fmt"
	"net"
	"net/http"
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
	if _, err := m.ExitCode(60 * time.Second); err != nil {
		t.Fatal(err)
	}
	o.RPCPort, o.AdminPort = portOf(t, m.RPC), portOf(t, m.Admin)
	return startMaster(t, r, o)
}

// portOf is the port of host:port.
func portOf(t *testing.T, addr string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMasterRestart kills a master that keeps a journal, or its log in etcd, under clients with and without segments and our
// daemon: after the start every acknowledged object is read again, byte for byte, nothing is written over one of them, and
// all of it goes when it is removed.
func TestMasterRestart(t *testing.T) {
	beside(t, works)
	t.Run("journal", func(t *testing.T) {
		r := newRig(t)
		restarts(t, r, MasterOptions{Flags: []string{"--data_dir=" + t.TempDir()}}, 3*time.Second)
	})
	t.Run("etcd", func(t *testing.T) {
		r := newRig(t)
		_, etcd := startEtcds(t, r)
		restarts(t, r, MasterOptions{Flags: memberFlags(r, etcd)}, 5*time.Second)
	})
}

// restarts does so; all objects that were there before are promised to be readable so long after the start.
func restarts(t *testing.T, r *Rig, options MasterOptions, promised time.Duration) {
	small, large := repeat(2000, 10_000), repeat(4, 20)
	if raceDetector() {
		promised *= 5
	}
	// A 0.3.12 that only reads cannot be told from its successors by a master that was just started: it has a port of its own.
	older, err := r.TakePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	options.Flags = append(options.Flags, "--rpc_port_v12="+strconv.Itoa(older[0]))
	m := startMaster(t, r, options)
	eventually(t, startLimit, "the master to be ready", func() bool { return status(m, "/readyz") == http.StatusOK })
	daemon := startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 512 * mib})
	owner := startStore(t, r, R13, StoreOptions{Master: m.RPC, SegmentBytes: 512 * mib})
	segments(t, m, 2)
	stores := []*Store{owner, startStore(t, r, R14, StoreOptions{Master: m.RPC})}
	if *soak {
		stores = append(stores, startStore(t, r, R12, StoreOptions{Master: local(older[0]), Host: "127.0.0.3"}))
	}
	var items []Item
	write := func(s *Store, own []Item, batch int) {
		t.Helper()
		var bad []string
		if err := s.Do("write_many", map[string]any{"items": own, "batch": batch}, &bad); err != nil || len(bad) != 0 {
			t.Fatalf("writing: %v, failed %v", err, bad)
		}
		items = append(items, own...)
	}
	fill := func(prefix string) {
		t.Helper()
		for n, s := range stores {
			write(s, itemsOf(fmt.Sprintf("%s/small/%d/", prefix, n), small/len(stores), func(int) int64 { return 4096 }), 100)
			write(s, itemsOf(fmt.Sprintf("%s/large/%d/", prefix, n), large/len(stores), func(int) int64 { return 16 * mib }), 1)
		}
	}
	fill("before")
	put(t, owner, Item{Key: "removed", Size: mib, Seed: 1}, nil)
	var times figures
	times.reading(t, owner, items, "before a restart: until all objects were read", time.Now())
	for round, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		began := time.Now()
		m = restartMaster(t, r, m, options, sig)
		for n, s := range stores {
			eventually(t, 60*time.Second, "the first read after the restart", func() bool {
				got, err := s.Get(items[0])
				return err == nil && got.Same
			})
			t.Logf("%v: client %d reads %v after it", sig, n, time.Since(began).Round(10*time.Millisecond))
		}
		times.reading(t, owner, items, "from "+sig.String()+" until all objects were read", began)
		readAll(t, stores[1:], items)
		if round == 0 {
			if code, err := remove(owner, "removed"); err != nil || code != codeOK {
				t.Fatalf("remove after the restart: %d, %v", code, err)
			}
			fill("again")
			readAll(t, stores, items)
		}
	}
	times.tell(t, map[string]time.Duration{"from " + syscall.SIGKILL.String() + " until all objects were read": promised})
	absent(t, owner, "removed")
	segments(t, m, 2)
	if err := daemon.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	segments(t, m, 1)
}

// reading reads and compares items, and notes how long that took since a moment: with the making of the values to compare
// with, and without it.
func (f *figures) reading(t *testing.T, s *Store, items []Item, what string, since time.Time) {
	t.Helper()
	began := time.Now()
	calls := readAll(t, []*Store{s}, items)
	f.add(what, began.Add(calls).Sub(since))
	f.add(what+" and compared", time.Since(since))
}

// TestReaderOf12OverARestart restarts a master, whose one port a 0.3.12 shares with a 0.3.14 of the same host, while the 0.3.12
// only reads: it is not taken for the other, which shows itself first in one round and later in the next.
func TestReaderOf12OverARestart(t *testing.T) {
	r := newRig(t)
	options := MasterOptions{Flags: []string{"--data_dir=" + t.TempDir()}}
	m := startMaster(t, r, options)
	startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 64 * mib})
	segments(t, m, 1)
	older := startStore(t, r, R12, StoreOptions{Master: m.RPC})
	item := Item{Key: "kept", Size: mib, Seed: 3}
	put(t, older, item, nil)
	later := startStore(t, r, R14, StoreOptions{Master: m.RPC})
	put(t, later, Item{Key: "later", Size: mib, Seed: 4}, nil)
	shows := func() {
		eventually(t, 60*time.Second, "a put of the later release", func() bool {
			code, err := later.Put(Item{Key: "later", Size: mib, Seed: 4}, nil)
			return err == nil && code == codeOK
		})
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		m = restartMaster(t, r, m, options, sig)
		if sig == syscall.SIGKILL {
			shows()
		}
		eventually(t, 60*time.Second, "a read of 0.3.12 after "+sig.String(), func() bool {
			got, err := older.Get(item)
			return err == nil && got.Same
		})
		shows()
		for range 20 {
			if got, err := older.Get(item); err != nil || !got.Same {
				t.Fatalf("a later read of 0.3.12: %+v, %v", got, err)
			}
		}
	}
	late := startStore(t, r, R13, StoreOptions{Master: m.RPC})
	eventually(t, 60*time.Second, "a read of a client that started after the restarts", func() bool {
		got, err := late.Get(item)
		return err == nil && got.Same
	})
}

func remove(s *Store, k Key) (code int, err error) {
	err = s.Call(&code, "remove", k, true)
	return code, err
}

// readAll reads every item from every store, in batches, and tells how long the clients' calls took together. The rest is
// spent on making the values to compare with.
func readAll(t *testing.T, stores []*Store, items []Item) (calls time.Duration) {
	t.Helper()
	for n, s := range stores {
		for from := 0; from < len(items); {
			to, bytes := from, int64(0)
			for to < len(items) && to-from < 500 && (to == from || bytes+items[to].Size <= 32*mib) {
				bytes += items[to].Size
				to++
			}
			got, ms, err := s.GetInto(items[from:to])
			if err != nil {
				t.Fatal(err)
			}
			calls += time.Duration(ms * float64(time.Millisecond))
			for i, g := range got {
				if !g.Same {
					t.Fatalf("client %d: %s brought %d", n, items[from+i].Key, g.Size)
				}
			}
			from = to
		}
	}
	return calls
}

// TestMasterRestartMetadata restarts a master that is the metadata server as well: a reader that starts afterwards finds
// the segments of those who started before, of one whose descriptor lies there and of one who is asked for it.
func TestMasterRestartMetadata(t *testing.T) {
	r := newRig(t)
	options := MasterOptions{HTTPMetadata: true, Flags: []string{"--data_dir=" + t.TempDir()}}
	m := startMaster(t, r, options)
	metadata := map[string]string{"in the master": m.MetadataURL, "by handshake": ""}
	items, known := map[string]Item{}, map[string]bool{}
	for n, home := range []string{"in the master", "by handshake"} {
		s := startStore(t, r, R13, StoreOptions{Master: m.RPC, Metadata: metadata[home], SegmentBytes: 64 * mib})
		for _, seg := range segments(t, m, n+1) {
			if known[seg.Name] {
				continue
			}
			known[seg.Name] = true
			items[home] = Item{Key: Key("kept " + home), Size: mib, Seed: int64(n + 3)}
			put(t, s, items[home], Config{"preferred_segment": seg.Name})
			if at := replicas(t, s, items[home].Key); len(at) != 1 || at[0].Endpoint != seg.Endpoint {
				t.Fatalf("%q lies at %+v, not at %s", items[home].Key, at, seg.Name)
			}
		}
	}
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
	for home, item := range items {
		late := startStore(t, r, R13, StoreOptions{Master: restarted.RPC, Metadata: metadata[home]})
		eventually(t, 60*time.Second, "the first read of a new reader whose descriptors are "+home, func() bool {
			got, err := late.Get(item)
			return err == nil && got.Same
		})
	}
}
