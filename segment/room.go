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

// room is what the host can still give.
type room struct {
	availableBytes   uint64 // MemAvailable
	cgroupLimitBytes uint64 // the tightest limit above this process
	cgroupUsedBytes  uint64 // what is used below that limit, page cache not counted
	shmFreeBytes     uint64 // free in the file system of the arena
}

// readRoom asks the kernel. root is "/" but in tests.
func readRoom(root, shmDir string) (room, error) {
	r := room{availableBytes: unlimited, cgroupLimitBytes: unlimited, shmFreeBytes: unlimited}
	if kb, ok := fieldOf(filepath.Join(root, "proc/meminfo"), "MemAvailable:"); ok && kb < unlimited/1024 {
		r.availableBytes = kb * 1024
	}
	r.readCgroup(root)
	var st unix.Statfs_t
	if err := unix.Statfs(shmDir, &st); err != nil {
		return r, fmt.Errorf("--shm_dir %s: %w", shmDir, err)
	}
	r.shmFreeBytes = st.Bavail * uint64(st.Bsize)
	return r, nil
}

// check refuses need bytes that the host does not have, with the three numbers in one line. Nothing is touched.
func (r *room) check(size, need uint64, shmDir string) error {
	cgroupFree := uint64(unlimited)
	if r.cgroupLimitBytes != unlimited {
		cgroupFree = r.cgroupLimitBytes - min(r.cgroupUsedBytes, r.cgroupLimitBytes)
	}
	if need <= r.availableBytes && need <= cgroupFree && need <= r.shmFreeBytes {
		return nil
	}
	cgroup := "cgroup limit none"
	if r.cgroupLimitBytes != unlimited {
		cgroup = fmt.Sprintf("cgroup limit %s with %s used", sizeText(r.cgroupLimitBytes), sizeText(r.cgroupUsedBytes))
	}
	return fmt.Errorf("--global_segment_size %d (%s) does not fit: memory available %s, %s, free in %s %s",
		size, sizeText(size), sizeText(r.availableBytes), cgroup, shmDir, sizeText(r.shmFreeBytes))
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
			r.walkCgroup(filepath.Join(root, "sys/fs/cgroup"), parts[2], "memory.max", "memory.current")
		case hasWord(parts[1], "memory"):
			r.walkCgroup(filepath.Join(root, "sys/fs/cgroup/memory"), parts[2], "memory.limit_in_bytes", "memory.usage_in_bytes")
		}
	}
}

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
func (r *room) walkCgroup(mount, path, limitFile, usedFile string) {
	for at := filepath.Clean("/" + path); ; at = filepath.Dir(at) {
		dir := filepath.Join(mount, at)
		limit, err := readNumber(filepath.Join(dir, limitFile))
		// Version 1 writes "no limit" as a number next to 2^63.
		if err == nil && limit < math.MaxInt64/2 {
			used, err := readNumber(filepath.Join(dir, usedFile))
			if err != nil {
				used = 0
			}
			for _, cache := range []string{"inactive_file", "active_file"} {
				if n, ok := fieldOf(filepath.Join(dir, "memory.stat"), cache); ok {
					used -= min(n, used)
				}
			}
			if r.cgroupLimitBytes == unlimited || limit-min(used, limit) < r.cgroupLimitBytes-min(r.cgroupUsedBytes, r.cgroupLimitBytes) {
				r.cgroupLimitBytes, r.cgroupUsedBytes = limit, used
			}
		}
		if at == "/" {
			return
		}
	}
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
