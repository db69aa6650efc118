package interop

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestP17LeavingWithoutLoss ends a daemon that has time for a drain: its objects, pinned ones and leased ones among them, are
// read from two others afterwards. Then those two leave one after the other, the last with nowhere to go.
func TestP17LeavingWithoutLoss(t *testing.T) {
	beside(t, works)
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{LeaseMs: 1000})
	leaver := startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 256 * mib, Flags: []string{"--drain_timeout=120"}})
	s := startStore(t, r, R13, StoreOptions{Master: m.RPC})
	items := itemsOf("drained/", 200, func(int) int64 { return mib })
	for n, i := range items {
		var c Config
		if n%50 == 0 {
			c = Config{"with_hard_pin": true}
		}
		put(t, s, i, c)
	}
	second := startSegment(t, r, m, 2, SegmentOptions{SizeBytes: 192 * mib, Flags: []string{"--drain_timeout=3"}})
	startSegment(t, r, m, 3, SegmentOptions{SizeBytes: 32 * mib})
	get(t, s, items[0]) // leased
	began := time.Now()
	endsWith(t, leaver, 0)
	t.Logf("200 objects of 1 MiB were moved within %v", time.Since(began).Round(10*time.Millisecond))
	segments(t, m, 2)
	for _, i := range items {
		get(t, s, i)
	}
	endsWith(t, second, 3)
	if log := second.Log(); !strings.Contains(log, "objects were left on the segment after --drain_timeout=3s") {
		t.Errorf("the daemon does not say what was left: %s", log)
	}
	segments(t, m, 1)
}

// endsWith ends a daemon as a supervisor does and looks at its exit code.
func endsWith(t *testing.T, s *Segment, want int) {
	t.Helper()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := s.ExitCode(150 * time.Second); err != nil || code != want {
		t.Fatalf("exit code %d, want %d: %v", code, want, err)
	}
}
