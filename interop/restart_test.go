package interop

import (
	"syscall"
	"testing"
	"time"
)

// staleLanes is how many reads of a client may fail once the daemon is back: a 0.3.13 keeps up to four connections to it and
// finds out about each by a failure, the others look before they use one.
var staleLanes = map[Release]int{R12: 0, R13: 4, R14: 0}

// TestDaemonRestart ends the segment daemon over and over while clients of three releases read: by a crash, and once by the
// signal for upgrades. It is the same segment that comes back, with all its bytes, and no client is started again.
func TestDaemonRestart(t *testing.T) {
	r := newRig(t)
	// Clients of 0.3.12 and of later releases that only read cannot be told apart at one address: the former have their own port.
	m := startMaster(t, r, MasterOptions{V12Port: *against == 0})
	ports, err := r.TakePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	// The same HTTP port: it is part of what tells an unnamed daemon from its neighbours on the host.
	options := SegmentOptions{ArenaDir: t.TempDir(), SizeBytes: 64 * mib, HTTPPort: ports[0]}
	daemon := startSegment(t, r, m, 1, options)
	reader := Reader{Name: "reader", Items: itemsOf("kept/", 20, func(i int) int64 { return int64(1 + i*50_000) }), Threads: 4, PaceMs: 5}
	var stores []*Store
	for _, release := range Releases {
		if *against == 0 || Release(*against) == release {
			at := m.RPC
			if release == R12 && m.RPCv12 != "" {
				at = m.RPCv12
			}
			stores = append(stores, startStore(t, r, release, StoreOptions{Master: at}))
		}
	}
	for n, i := range reader.Items {
		put(t, stores[n%len(stores)], i, nil)
	}
	for _, s := range stores {
		if err := s.StartReader(reader); err != nil {
			t.Fatal(err)
		}
	}
	before := segments(t, m, 1)[0]
	goOn(t, stores, reader, time.Now())
	var gaps figures
	for round := range repeat(5, 50) {
		sig := syscall.SIGKILL
		if round == 0 {
			sig = syscall.SIGUSR1
		}
		gone := time.Now()
		if err := daemon.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if _, err := daemon.ExitCode(30 * time.Second); err != nil {
			t.Fatal(err)
		}
		daemon = startSegment(t, r, m, 1, options)
		back := time.Now()
		gaps.add("the daemon is back", back.Sub(gone))
		if after := segments(t, m, 1)[0]; after != before {
			t.Fatalf("the segment is %+v, it was %+v", after, before)
		}
		goOn(t, stores, reader, back)
		gaps.add("every thread of every client has read", time.Since(gone))
		put(t, stores[round%len(stores)], Item{Key: key("written/%d", round), Size: mib / 2, Seed: 1}, nil)
		get(t, stores[(round+1)%len(stores)], Item{Key: key("written/%d", round), Size: mib / 2, Seed: 1})
		before = segments(t, m, 1)[0]
	}
	for _, s := range stores {
		saw, err := s.StopReader(reader)
		if err != nil || len(saw.Wrong) > 0 {
			t.Errorf("%v: wrong bytes %q, %v", s.Client.Release, saw.Wrong, err)
		}
		t.Logf("%v: %d reads, %d failed", s.Client.Release, saw.Good, len(saw.Failed))
		for _, i := range reader.Items {
			get(t, s, i)
		}
	}
	gaps.tell(t, nil)
}

// goOn waits until every thread of every reader has read since a moment, and counts what failed since then.
func goOn(t *testing.T, stores []*Store, r Reader, since time.Time) {
	t.Helper()
	for _, s := range stores {
		var saw Reading
		eventually(t, 60*time.Second, s.Client.Release.String()+" reads again with every thread", func() (yes bool) {
			var err error
			if saw, err = s.LookAtReader(r); err != nil {
				t.Fatal(err)
			}
			return saw.Oldest.After(since)
		})
		late := 0
		for _, at := range saw.Failed {
			if at.After(since) {
				late++
			}
		}
		if most := staleLanes[s.Client.Release]; late > most {
			t.Errorf("%v: %d reads failed after the daemon was back, at most %d are to", s.Client.Release, late, most)
		}
		if len(saw.Wrong) > 0 {
			t.Fatalf("%v: wrong bytes: %q", s.Client.Release, saw.Wrong)
		}
	}
}
