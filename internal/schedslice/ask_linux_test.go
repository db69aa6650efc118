package schedslice

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// slices are those of this process.
func slices(t *testing.T) map[int]time.Duration {
	t.Helper()
	of, err := Of(os.Getpid())
	if err != nil || len(of) == 0 {
		t.Fatalf("%d threads, %v", len(of), err)
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
			if has == slice {
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
		if has := slices(t)[tid]; has != slice {
			t.Errorf("thread %d made or taken afterwards has a slice of %v, not %v", tid, has, slice)
		}
	}
	close(done)
	for tid, has := range slices(t) {
		if has != slice {
			t.Errorf("thread %d has a slice of %v, not %v", tid, has, slice)
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
