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
		threads, err := threadsOf(os.Getpid())
		if err != nil {
			return false, err
		}
		for _, tid := range threads {
			if asked[tid] {
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

// Of tells what slice the kernel has for each thread of a process.
func Of(pid int) (map[int]time.Duration, error) {
	threads, err := threadsOf(pid)
	if err != nil {
		return nil, err
	}
	of := map[int]time.Duration{}
	for _, tid := range threads {
		attr, err := unix.SchedGetAttr(tid, 0)
		switch {
		case errors.Is(err, unix.ESRCH): // it has ended
		case err != nil:
			return nil, fmt.Errorf("scheduling of thread %d: %w", tid, err)
		default:
			of[tid] = time.Duration(attr.Runtime)
		}
	}
	return of, nil
}

func threadsOf(pid int) ([]int, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, fmt.Errorf("threads of process %d: %w", pid, err)
	}
	threads := make([]int, len(entries))
	for i, e := range entries {
		if threads[i], err = strconv.Atoi(e.Name()); err != nil {
			return nil, fmt.Errorf("threads of process %d: %w", pid, err)
		}
	}
	return threads, nil
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
