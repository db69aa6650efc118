package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"mooncake/internal/schedslice"
)

// TestShortTurns looks at every thread of a daemon that serves: all have the slice that was asked for, or the log has said that the
// kernel gives none.
func TestShortTurns(t *testing.T) {
	for _, us := range []uint64{0, 300} {
		d := startDaemon(t, "--shm_dir="+t.TempDir(), fmt.Sprintf("--sched_slice_us=%d", us))
		refused := false
		for d.lines.Scan() && !strings.Contains(d.lines.Text(), "serving") {
			refused = refused || strings.Contains(d.lines.Text(), "--sched_slice_us=300 has no effect")
		}
		slices, err := schedslice.Of(d.cmd.Process.Pid)
		if err != nil || len(slices) == 0 {
			t.Fatalf("%d threads, %v", len(slices), err)
		}
		for tid, has := range slices {
			if asked := has == 300*time.Microsecond; asked != (us == 300 && !refused) {
				t.Errorf("--sched_slice_us=%d, refused %v: thread %d has a slice of %v", us, refused, tid, has)
			}
		}
		d.end(t, syscall.SIGTERM)
	}
}
