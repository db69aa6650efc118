package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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
		for tid, has := range slicesOf(t, d.cmd.Process.Pid) {
			if asked := has == 300_000; asked != (us == 300 && !refused) {
				t.Errorf("--sched_slice_us=%d, refused %v: thread %d has a slice of %d ns", us, refused, tid, has)
			}
		}
		d.end(t, syscall.SIGTERM)
	}
}

func slicesOf(t *testing.T, pid int) map[int]uint64 {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	of := map[int]uint64{}
	for _, e := range threads {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		attr, err := unix.SchedGetAttr(tid, 0)
		if errors.Is(err, unix.ESRCH) { // it has ended
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		of[tid] = attr.Runtime
	}
	if len(of) == 0 {
		t.Fatalf("process %d has no threads", pid)
	}
	return of
}
