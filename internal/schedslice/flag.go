package schedslice

import (
	"fmt"
	"time"

	"mooncake/internal/limits"
)

// The flag of a daemon.
const (
	Flag      = "sched_slice_us"
	DefaultUs = limits.SchedSliceUs
	Help      = "slice of the processor to ask the kernel for, in microseconds: with a shorter one than others have, requests need not wait until busy processes have used up theirs; 0 asks for nothing"
)

// Check refuses what the kernel would not give.
func Check(us uint32) error {
	if us != 0 && (us < limits.SchedSliceMinUs || us > limits.SchedSliceMaxUs) {
		return fmt.Errorf("--%s=%d: want 0, or %d to %d", Flag, us, limits.SchedSliceMinUs, limits.SchedSliceMaxUs)
	}
	return nil
}

// Start asks for what the flag says; word, when there is one, is for the log.
func Start(us uint32) (word string, took bool) {
	if us == 0 {
		return "", false
	}
	took, err := Ask(time.Duration(us) * time.Microsecond)
	switch {
	case err != nil:
		return fmt.Sprintf("--%s=%d has no effect: %v", Flag, us, err), false
	case !took:
		return fmt.Sprintf("--%s=%d has no effect: this kernel gives no slices that can be asked for (Linux 6.12 and later do), or the process is under a policy without them", Flag, us), false
	}
	return "", true
}
