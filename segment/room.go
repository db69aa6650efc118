package segment

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mooncake/internal/units"
)

// unlimited stands for a bound that does not exist.
const unlimited = math.MaxUint64

// room is what the host can still give, at one moment.
type room struct {
	totalBytes       uint64 // MemTotal
	availableBytes   uint64 // MemAvailable
	cgroupLimitBytes uint64 // of the group above this process with the least room left
	cgroupUsedBytes  uint64 // what is used below that limit, page cache not counted
	cgroupFile       string // where that limit stands
	shmFreeBytes     uint64 // free in the file system of the arena
	stallMicros      uint64 // how long some task has waited for memory, ever; 0 where the kernel does not say
}

// readRoom asks the kernel. root is "/" but in tests.
func readRoom(root, shmDir string) (room, error) {
	r := room{totalBytes: unlimited, availableBytes: unlimited, cgroupLimitBytes: unlimited, shmFreeBytes: unlimited}
	meminfo := filepath.Join(root, "proc/meminfo")
	if kb, ok := fieldOf(meminfo, "MemTotal:"); ok && kb < unlimited/1024 {
		r.totalBytes = kb * 1024
	}
	if kb, ok := fieldOf(meminfo, "MemAvailable:"); ok && kb < unlimited/1024 {
		r.availableBytes = kb * 1024
	}
	r.stallMicros = stalled(filepath.Join(root, "proc/pressure/memory"))
	r.readCgroup(root)
	var st unix.Statfs_t
	if err := unix.Statfs(shmDir, &st); err != nil {
		return r, fmt.Errorf("--shm_dir %s: %w", shmDir, err)
	}
	r.shmFreeBytes = st.Bavail * uint64(st.Bsize)
	return r, nil
}

// cgroupFree is what the tightest group can still take.
func (r *room) cgroupFree() uint64 {
	if r.cgroupLimitBytes == unlimited {
		return unlimited
	}
	return r.cgroupLimitBytes - min(r.cgroupUsedBytes, r.cgroupLimitBytes)
}

// free is what can be had by every measure.
func (r *room) free() uint64 { return min(r.availableBytes, r.cgroupFree(), r.shmFreeBytes) }

// check refuses need bytes that the host does not have, with the three numbers in one line. Nothing is touched. what says who
// asks for how much.
func (r *room) check(what string, need uint64, shmDir string) error {
	if need <= r.free() {
		return nil
	}
	cgroup := "cgroup limit none"
	if r.cgroupLimitBytes != unlimited {
		cgroup = fmt.Sprintf("cgroup limit %s with %s used (%s)", sizeText(r.cgroupLimitBytes), sizeText(r.cgroupUsedBytes), r.cgroupFile)
	}
	return fmt.Errorf("%s does not fit: memory available %s, %s, free in %s %s",
		what, sizeText(r.availableBytes), cgroup, shmDir, sizeText(r.shmFreeBytes))
}

// segmentSize names the size that a start asks for.
func segmentSize(size uint64) string {
	return fmt.Sprintf("--global_segment_size %d (%s)", size, sizeText(size))
}

// A scope is one of the bounds that memory in use is measured against.
type scope struct {
	name             string
	totalBytes, used uint64
}

// scopes are the host and, where a limit is set that is less than the host has, the group: the tighter one comes first.
func (r *room) scopes() (list []scope) {
	if r.cgroupLimitBytes < r.totalBytes {
		list = append(list, scope{"the cgroup", r.cgroupLimitBytes, r.cgroupUsedBytes})
	}
	if r.totalBytes != unlimited {
		list = append(list, scope{"the host", r.totalBytes, r.totalBytes - min(r.availableBytes, r.totalBytes)})
	}
	return list
}

func sizeText(n uint64) string {
	if n > math.MaxInt64 {
		return "unknown"
	}
	return units.FormatSize(n)
}

// readCgroup finds the tightest memory limit on the way from this process's cgroup to the root, for both versions.
func (r *room) readCgroup(root string) {
	f, err := os.Open(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[0] == "0" && parts[1] == "":
			for _, mount := range []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"} {
				r.walkCgroup(root, mount, parts[2], groupV2)
			}
		case hasWord(parts[1], "memory"):
			r.walkCgroup(root, "sys/fs/cgroup/memory", parts[2], groupV1)
		}
	}
}

// groupFiles are the names that a version of control groups has for limits, use and page cache. Above memory.high the kernel
// slows a group down until it gives memory back, which shared memory cannot: it is a limit as good as memory.max.
type groupFiles struct {
	limits []string
	used   string
	cache  []string
}

var (
	groupV2 = groupFiles{[]string{"memory.max", "memory.high"}, "memory.current", []string{"inactive_file", "active_file"}}
	groupV1 = groupFiles{[]string{"memory.limit_in_bytes"}, "memory.usage_in_bytes", []string{"total_inactive_file", "total_active_file"}}
)

func hasWord(list, word string) bool {
	for _, w := range strings.Split(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// walkCgroup looks at every level: inside a container the path may not exist below the mount, then only the mount's own
// files count.
func (r *room) walkCgroup(root, mount, path string, files groupFiles) {
	for at := filepath.Clean("/" + path); ; at = filepath.Dir(at) {
		dir := filepath.Join(root, mount, at)
		for _, file := range files.limits {
			// Version 1 writes "no limit" as a number next to 2^63.
			limit, err := readNumber(filepath.Join(dir, file))
			if err != nil || limit >= math.MaxInt64/2 {
				continue
			}
			if used := groupUse(dir, files); r.cgroupLimitBytes == unlimited || limit-min(used, limit) < r.cgroupFree() {
				r.cgroupLimitBytes, r.cgroupUsedBytes, r.cgroupFile = limit, used, filepath.Join("/", mount, at, file)
			}
		}
		if at == "/" {
			return
		}
	}
}

// groupUse is what a group and those below it use, without the page cache, which the kernel takes back when it must.
func groupUse(dir string, files groupFiles) uint64 {
	used, err := readNumber(filepath.Join(dir, files.used))
	if err != nil {
		return 0
	}
	for _, cache := range files.cache {
		if n, ok := fieldOf(filepath.Join(dir, "memory.stat"), cache); ok {
			used -= min(n, used)
		}
	}
	return used
}

// stalled reads the sum out of a file of pressure stall information: "some avg10=… total=<microseconds>".
func stalled(path string) uint64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	_, sum, _ := strings.Cut(first, "total=")
	n, err := strconv.ParseUint(strings.TrimSpace(sum), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func readNumber(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	s := strings.TrimSpace(string(text))
	if s == "max" {
		return 0, errors.New("no limit")
	}
	return strconv.ParseUint(s, 10, 64)
}

// fieldOf reads the number behind a name in a file of "name number" lines.
func fieldOf(path, name string) (uint64, bool) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		w := strings.Fields(lines.Text())
		if len(w) >= 2 && w[0] == name {
			n, err := strconv.ParseUint(w[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
