package schedslice

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"mooncake/internal/limits"
)

// Ask asks for slices of so long for all threads of this process. took is false, without an error, where the kernel has no slices
// that can be asked for, or where the process runs under a policy without any.
func Ask(slice time.Duration) (took bool, err error) {
	asked := map[int]bool{}
	for range limits.SchedSlicePasses {
		before := len(asked)
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return false, fmt.Errorf("threads of this process: %w", err)
		}
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil || asked[tid] {
				continue
			}
			took, err := askThread(tid, slice)
			if errors.Is(err, unix.ESRCH) { // it has ended
				continue
			}
			if err != nil || !took {
				return false, err
			}
			asked[tid] = true
		}
		if len(asked) == before { // whoever was made meanwhile was made by a thread that had been asked
			break
		}
	}
	return true, nil
}

// askThread leaves everything but the slice as it is.
func askThread(tid int, slice time.Duration) (took bool, err error) {
	attr, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		return false, fmt.Errorf("scheduling of thread %d: %w", tid, err)
	}
	if attr.Policy != unix.SCHED_NORMAL && attr.Policy != unix.SCHED_BATCH {
		return false, nil
	}
	attr.Flags &= unix.SCHED_FLAG_RESET_ON_FORK
	attr.Runtime = uint64(slice)
	if err := unix.SchedSetAttr(tid, attr, 0); err != nil {
		return false, fmt.Errorf("slice of %v for thread %d: %w", slice, tid, err)
	}
	if attr, err = unix.SchedGetAttr(tid, 0); err != nil {
		return false, fmt.Errorf("scheduling of thread %d: %w", tid, err)
	}
	return attr.Runtime == uint64(slice), nil
}
