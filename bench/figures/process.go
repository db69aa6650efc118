package figures

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticksPerSecond is the unit of processor time in /proc: 100 on every architecture that Go runs on.
const ticksPerSecond = 100

// Reading is what a process has used until some moment, and what else ran.
type Reading struct {
	At time.Time
	// Processor is user and system time of the process, in steps of 10 ms; Scheduled is the same of the threads that live,
	// exactly.
	Processor, Scheduled time.Duration
	// Own is the processor time of the process that measures, All that of everything on the machine.
	Own, All time.Duration
	// Switches is how often a thread that lives gave up its processor to wait for something; losing it to another does not count.
	Switches int64
	Threads  int
	RSSBytes int64
}

// Used is the difference between two readings.
type Used struct {
	Wall, Processor, Scheduled, Own time.Duration
	Others                          time.Duration // processor time of all other processes
	Switches                        int64
}

// Between is what was used between two readings.
func Between(before, after Reading) Used {
	u := Used{
		Wall: after.At.Sub(before.At), Processor: after.Processor - before.Processor, Scheduled: after.Scheduled - before.Scheduled,
		Own: after.Own - before.Own, Switches: after.Switches - before.Switches,
	}
	u.Others = after.All - before.All - u.Processor - u.Own
	return u
}

// Read reads what a process has used.
func Read(pid int) (r Reading, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	if r.Processor, err = processorOf(filepath.Join(dir, "stat")); err != nil {
		return r, fmt.Errorf("process %d: %w", pid, err)
	}
	if err := r.threads(filepath.Join(dir, "task")); err != nil {
		return r, fmt.Errorf("process %d: %w", pid, err)
	}
	status, err := statusOf(filepath.Join(dir, "status"))
	if err != nil {
		return r, fmt.Errorf("process %d: %w", pid, err)
	}
	r.RSSBytes = status["VmRSS"] << 10
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return r, err
	}
	r.Own = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	if r.All, err = machineTime(); err != nil {
		return r, err
	}
	r.At = time.Now()
	return r, nil
}

// processorOf reads user and system time from a stat file. The name of the program may contain anything, so that what
// follows its closing bracket counts.
func processorOf(path string) (time.Duration, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("%s has %d fields", path, len(fields))
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / ticksPerSecond), nil
}

// threads adds up what is counted by thread. One that ends meanwhile is left out.
func (r *Reading) threads(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name(), "schedstat"))
		if gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		ran, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(ran, 10, 64)
		if err != nil {
			return fmt.Errorf("schedstat of thread %s: %w", e.Name(), err)
		}
		status, err := statusOf(filepath.Join(dir, e.Name(), "status"))
		if gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		r.Threads++
		r.Scheduled += time.Duration(ns)
		r.Switches += status["voluntary_ctxt_switches"]
	}
	return nil
}

// gone tells that a thread ended while it was looked at.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// statusOf reads the lines of a status file that are numbers.
func statusOf(path string) (map[string]int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		if fields := strings.Fields(rest); len(fields) > 0 {
			if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
				out[name] = n
			}
		}
	}
	return out, nil
}

// machineTime is the processor time of everything: of the first line of /proc/stat all but idling and waiting, and but what
// guests used, which is counted twice there.
func machineTime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	var ticks int64
	for i, f := range strings.Fields(first) {
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / ticksPerSecond), nil
}
