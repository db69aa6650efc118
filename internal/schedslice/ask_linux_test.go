package schedslice

import (
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// slices reads what the kernel has for each thread.
func slices(t *testing.T) map[int]uint64 {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
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
		if err == unix.ESRCH {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		of[tid] = attr.Runtime
	}
	return of
}

// TestAsk looks at all threads, and at one that is made afterwards. On a kernel before 6.12 it holds that Ask says so.
func TestAsk(t *testing.T) {
	const slice = 300 * time.Microsecond
	took, err := Ask(slice)
	if err != nil {
		t.Fatal(err)
	}
	if !took {
		for tid, has := range slices(t) {
			if has == uint64(slice) {
				t.Errorf("thread %d has the slice that Ask says nobody got", tid)
			}
		}
		return
	}
	locked, done := make(chan int), make(chan struct{})
	for range 4 { // of which some need a thread of their own
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			locked <- unix.Gettid()
			<-done
		}()
	}
	for range 4 {
		tid := <-locked
		if has := slices(t)[tid]; has != uint64(slice) {
			t.Errorf("thread %d made or taken afterwards has a slice of %d ns, not %d", tid, has, slice)
		}
	}
	close(done)
	for tid, has := range slices(t) {
		if has != uint64(slice) {
			t.Errorf("thread %d has a slice of %d ns, not %d", tid, has, slice)
		}
	}
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	if took, err = Ask(2 * slice); err != nil || !took {
		t.Fatalf("asking again: %v, %v", took, err)
	}
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err != nil || now != nice {
		t.Errorf("priority %d became %d (%v)", nice, now, err)
	}
}
