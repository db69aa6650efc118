package segment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostTree is a file tree that looks like a host to readRoom.
func hostTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const meminfo = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    4194304 kB\n"

func TestRoomReadsTheTightestCgroup(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		files       map[string]string
		limit, used uint64
	}{
		"none": {map[string]string{"proc/self/cgroup": "0::/\n"}, unlimited, 0},
		"v2, own": {map[string]string{
			"proc/self/cgroup":                   "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max":       "536870912\n",
			"sys/fs/cgroup/a/b/memory.current":   "104857600\n",
			"sys/fs/cgroup/a/b/memory.stat":      "anon 1\ninactive_file 52428800\nactive_file 0\n",
			"sys/fs/cgroup/a/memory.max":         "max\n",
			"sys/fs/cgroup/memory.max":           "8589934592\n",
			"sys/fs/cgroup/memory.current":       "0\n",
			"sys/fs/cgroup/elsewhere/memory.max": "1\n",
		}, 512 * mib, 50 * mib},
		"v2, parent is tighter": {map[string]string{
			"proc/self/cgroup":                 "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max":     "536870912\n",
			"sys/fs/cgroup/a/b/memory.current": "0\n",
			"sys/fs/cgroup/a/memory.max":       "1073741824\n",
			"sys/fs/cgroup/a/memory.current":   "943718400\n",
		}, 1024 * mib, 900 * mib},
		"v2, inside a container": {map[string]string{
			"proc/self/cgroup":             "0::/../../x\n",
			"sys/fs/cgroup/memory.max":     "268435456\n",
			"sys/fs/cgroup/memory.current": "1048576\n",
		}, 256 * mib, mib},
		"v1": {map[string]string{
			"proc/self/cgroup": "5:cpu,memory:/job\n4:pids:/job\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "134217728\n",
			"sys/fs/cgroup/memory/job/memory.usage_in_bytes": "1048576\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes":     "0\n",
		}, 128 * mib, mib},
	} {
		t.Run(name, func(t *testing.T) {
			c.files["proc/meminfo"] = meminfo
			r, err := readRoom(hostTree(t, c.files), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if r.cgroupLimitBytes != c.limit || r.cgroupUsedBytes != c.used {
				t.Errorf("limit %d used %d, want %d and %d", r.cgroupLimitBytes, r.cgroupUsedBytes, c.limit, c.used)
			}
			if r.availableBytes != 4<<30 {
				t.Errorf("available %d", r.availableBytes)
			}
		})
	}
}

func TestRoomRefusesWithTheThreeNumbers(t *testing.T) {
	good := room{availableBytes: 4 * gib, cgroupLimitBytes: unlimited, shmFreeBytes: 4 * gib}
	if err := good.check(segmentSize(4*gib), 4*gib, "/dev/shm"); err != nil {
		t.Error(err)
	}
	for name, r := range map[string]room{
		"memory": {availableBytes: gib / 2, cgroupLimitBytes: 8 * gib, shmFreeBytes: 8 * gib},
		"cgroup": {availableBytes: 8 * gib, cgroupLimitBytes: gib / 2, shmFreeBytes: 8 * gib},
		"used":   {availableBytes: 8 * gib, cgroupLimitBytes: 2 * gib, cgroupUsedBytes: 3 * gib / 2, shmFreeBytes: 8 * gib},
		"shm":    {availableBytes: 8 * gib, cgroupLimitBytes: 8 * gib, shmFreeBytes: gib / 2},
	} {
		err := r.check(segmentSize(gib), gib, "/dev/shm")
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		for _, want := range []string{"--global_segment_size 1073741824", "memory available", "cgroup limit", "free in /dev/shm"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q lacks %q", name, err, want)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one line", name)
		}
	}
}

func TestRoomOfThisHost(t *testing.T) {
	r, err := readRoom("/", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if r.shmFreeBytes == 0 || r.shmFreeBytes == unlimited {
		t.Errorf("free space %d", r.shmFreeBytes)
	}
	if _, err := readRoom("/", filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "--shm_dir") {
		t.Errorf("a directory that does not exist: %v", err)
	}
}
