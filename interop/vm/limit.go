package vm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// A limit is about hanging, not about a host that is busy with other things: the time in which a machine wanted a processor and got
// none does not count, as long as the whole does not take longer than maxStretch limits.
const (
	maxStretch = 3
	limitEvery = time.Second
)

// keepLimit ends the run when its time is over.
func keepLimit(ctx context.Context, cancel context.CancelCauseFunc, pid int, limit time.Duration) {
	began, tick := time.Now(), time.NewTicker(limitEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if elapsed, starved := time.Since(began), starvation(pid); over(elapsed, starved, limit) {
			cancel(fmt.Errorf("%w: limit %v; it ran for %v, %v of that without a processor", ErrLimit, limit,
				elapsed.Round(time.Second), starved.Round(time.Second)))
			return
		}
	}
}

func over(elapsed, starved, limit time.Duration) bool {
	return elapsed >= maxStretch*limit || elapsed-starved >= limit
}

// starvation is how long the thread of a process that fared worst was ready to run and did not. Kernels that do not count it say
// nothing.
func starvation(pid int) time.Duration {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	var worst time.Duration
	for _, path := range files {
		if text, err := os.ReadFile(path); err == nil {
			worst = max(worst, queued(text))
		}
	}
	return worst
}

// queued reads the second of three numbers: nanoseconds on the processor, nanoseconds in the queue for one, turns.
func queued(schedstat []byte) time.Duration {
	fields := bytes.Fields(schedstat)
	if len(fields) < 2 {
		return 0
	}
	n, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n)
}
