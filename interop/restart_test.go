package interop

import (
	"syscall"
	"testing"
	"time"
)

// TestDaemonRestart ends the segment daemon in the two ways that are no farewell, a crash and the signal for upgrades, and
// starts it again within the client TTL: the objects in its arena can be read and written as before.
func TestDaemonRestart(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"crash": syscall.SIGKILL, "upgrade": syscall.SIGUSR1} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			m := startMaster(t, r, MasterOptions{})
			ports, err := r.TakePorts(1)
			if err != nil {
				t.Fatal(err)
			}
			// The same HTTP port: it is part of what tells an unnamed daemon from its neighbours on the host.
			options := SegmentOptions{ArenaDir: t.TempDir(), SizeBytes: 64 * mib, HTTPPort: ports[0]}
			daemon := startSegment(t, r, m, 1, options)
			s := startStore(t, r, R13, StoreOptions{Master: m.RPC})
			items := itemsOf("kept/", 20, func(i int) int64 { return int64(1 + i*100_000) })
			for _, i := range items {
				put(t, s, i, nil)
			}
			before := segments(t, m, 1)[0]
			if err := daemon.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if _, err := daemon.ExitCode(60 * time.Second); err != nil {
				t.Fatal(err)
			}
			startSegment(t, r, m, 1, options)
			if after := segments(t, m, 1)[0]; after != before {
				t.Fatalf("the segment is %+v, it was %+v", after, before)
			}
			// A lane to the old process fails one request at most; a reader tries again.
			eventually(t, 60*time.Second, "the first read after the restart", func() bool {
				got, err := s.Get(items[0])
				return err == nil && got.Same
			})
			for _, i := range items {
				get(t, s, i)
			}
			put(t, s, Item{Key: "written afterwards", Size: mib, Seed: 1}, nil)
			get(t, s, Item{Key: "written afterwards", Size: mib, Seed: 1})
		})
	}
}
