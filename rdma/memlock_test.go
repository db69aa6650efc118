package rdma

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const mib, gib = uint64(1) << 20, uint64(1) << 30

// memoryTree lays out what the kernel tells about memory.
func memoryTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func with(base, more map[string]string) map[string]string {
	out := maps.Clone(base)
	maps.Copy(out, more)
	return out
}

// Hosts as seen from inside a process.
var (
	plainHost = map[string]string{
		"proc/meminfo":      "MemTotal:       263567352 kB\nMemFree:        1234 kB\nMemAvailable:   104857600 kB\n",
		"proc/self/status":  "Name:\tx\nVmPeak:\t 1 kB\nVmPin:\t       0 kB\nCapEff:\t0000000000000000\n",
		"proc/self/uid_map": "         0          0 4294967295\n",
	}
	rootHost  = with(plainHost, map[string]string{"proc/self/status": "VmPin:\t0 kB\nCapEff:\t000001ffffffffff\n"})
	version2  = map[string]string{"proc/self/cgroup": "0::/system.slice/segment.service\n", "sys/fs/cgroup/system.slice/segment.service/memory.max": "max\n", "sys/fs/cgroup/system.slice/memory.max": "17179869184\n"}
	container = map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "8589934592\n"}
	version1  = map[string]string{
		"proc/self/cgroup":                           "12:cpu,cpuacct:/x\n9:memory:/docker/abc\n1:name=systemd:/docker/abc\n0::/init.scope\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes": "4294967296\n",
	}
)

func TestReadMemoryLimits(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  MemoryLimits
	}{
		"nothing there": {nil, MemoryLimits{Memlock: mib, Cgroup: Unlimited, Available: Unlimited}},
		"plain host":    {plainHost, MemoryLimits{Memlock: mib, Cgroup: Unlimited, Available: 100 * gib}},
		"root":          {rootHost, MemoryLimits{Memlock: mib, Privileged: true, Cgroup: Unlimited, Available: 100 * gib}},
		"root of a user namespace": {
			with(rootHost, map[string]string{"proc/self/uid_map": "0 1000 1\n"}),
			MemoryLimits{Memlock: mib, Cgroup: Unlimited, Available: 100 * gib},
		},
		"pinned already": {
			with(plainHost, map[string]string{"proc/self/status": "VmPin:\t 512 kB\n"}),
			MemoryLimits{Memlock: mib, Pinned: 512 << 10, Cgroup: Unlimited, Available: 100 * gib},
		},
		"cgroup 2, limit above": {
			with(plainHost, version2),
			MemoryLimits{Memlock: mib, Cgroup: 16 * gib, CgroupFile: "/sys/fs/cgroup/system.slice/memory.max", Available: 100 * gib},
		},
		"cgroup 2, container": {
			with(plainHost, container),
			MemoryLimits{Memlock: mib, Cgroup: 8 * gib, CgroupFile: "/sys/fs/cgroup/memory.max", Available: 100 * gib},
		},
		"cgroup 1, path of the host": {
			with(plainHost, version1),
			MemoryLimits{Memlock: mib, Cgroup: 4 * gib, CgroupFile: "/sys/fs/cgroup/memory/memory.limit_in_bytes", Available: 100 * gib},
		},
		"cgroup 1, no limit": {
			with(plainHost, with(version1, map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"})),
			MemoryLimits{Memlock: mib, Cgroup: Unlimited, Available: 100 * gib},
		},
		"above the namespace": {
			with(container, map[string]string{"proc/self/cgroup": "0::/../../etc\n"}),
			MemoryLimits{Memlock: mib, Cgroup: 8 * gib, CgroupFile: "/sys/fs/cgroup/memory.max", Available: Unlimited},
		},
		"garbage": {
			map[string]string{
				"proc/meminfo": "MemAvailable: many kB\n", "proc/self/status": "VmPin: -1 kB\nCapEff: all\n", "proc/self/uid_map": "x",
				"proc/self/cgroup": "0::/\n:::\nx", "sys/fs/cgroup/memory.max": "lots\n",
			},
			MemoryLimits{Memlock: mib, Cgroup: Unlimited, Available: Unlimited},
		},
		"endless": {
			map[string]string{"proc/meminfo": strings.Repeat("MemAvailable: 1 kB\n", 10000), "proc/self/cgroup": "0::" + strings.Repeat("/a", 30000)},
			MemoryLimits{Memlock: mib, Cgroup: Unlimited, Available: Unlimited},
		},
	} {
		if got := ReadMemoryLimits(memoryTree(t, c.files), mib); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if got := ReadMemoryLimits(filepath.Join(t.TempDir(), "none"), mib); got.Available != Unlimited {
		t.Errorf("without a root: %+v", got)
	}
}

func TestCheckPinning(t *testing.T) {
	free := MemoryLimits{Memlock: Unlimited, Cgroup: Unlimited, Available: 100 * gib}
	for name, c := range map[string]struct {
		limits  MemoryLimits
		pinning Pinning
		want    string // all of it, empty for none
	}{
		"all there":       {free, Pinning{Bytes: 100 * gib, Rails: 8}, ""},
		"nothing to pin":  {MemoryLimits{}, Pinning{}, ""},
		"exactly":         {MemoryLimits{Memlock: 8 * gib, Cgroup: 8 * gib, Available: 8 * gib}, Pinning{Bytes: 8 * gib, Rails: 1}, ""},
		"privileged":      {MemoryLimits{Memlock: mib, Privileged: true, Cgroup: Unlimited, Available: gib}, Pinning{Bytes: gib, Rails: 1}, ""},
		"resident":        {MemoryLimits{Memlock: Unlimited, Cgroup: Unlimited, Available: mib}, Pinning{Bytes: gib, Resident: gib, Rails: 1}, ""},
		"all unknown":     {MemoryLimits{Memlock: Unlimited, Cgroup: Unlimited, Available: Unlimited}, Pinning{Bytes: math.MaxUint64, Rails: 32}, ""},
		"zero rails is 1": {MemoryLimits{Memlock: gib, Cgroup: Unlimited, Available: gib}, Pinning{Bytes: gib}, ""},
		"memlock": {
			MemoryLimits{Memlock: 8 * mib, Cgroup: 128 * gib, CgroupFile: "/sys/fs/cgroup/memory.max", Available: 100 * gib},
			Pinning{Bytes: 64 * gib, Rails: 1},
			"cannot pin 64.00 GB for RDMA: RLIMIT_MEMLOCK is 8.00 MB, the cgroup memory limit 128.00 GB (/sys/fs/cgroup/memory.max), MemAvailable 100.00 GB; " +
				"raise RLIMIT_MEMLOCK (ulimit -l unlimited, LimitMEMLOCK=infinity, docker --ulimit memlock=-1), or lower --global_segment_size",
		},
		"memlock by rails": {
			MemoryLimits{Memlock: 64 * gib, Cgroup: Unlimited, Available: 100 * gib},
			Pinning{Bytes: 64 * gib, Rails: 2},
			"cannot pin 64.00 GB on each of 2 devices for RDMA: RLIMIT_MEMLOCK is 64.00 GB, the cgroup memory limit unlimited, MemAvailable 100.00 GB; " +
				"raise RLIMIT_MEMLOCK (ulimit -l unlimited, LimitMEMLOCK=infinity, docker --ulimit memlock=-1), or lower --global_segment_size",
		},
		"memlock in use": {
			MemoryLimits{Memlock: gib, Pinned: mib, Cgroup: Unlimited, Available: Unlimited},
			Pinning{Bytes: gib, Rails: 1},
			"cannot pin 1.00 GB for RDMA: RLIMIT_MEMLOCK is 1.00 GB (1.00 MB of it in use), the cgroup memory limit unlimited, MemAvailable unknown; " +
				"raise RLIMIT_MEMLOCK (ulimit -l unlimited, LimitMEMLOCK=infinity, docker --ulimit memlock=-1), or lower --global_segment_size",
		},
		"cgroup": {
			MemoryLimits{Memlock: Unlimited, Cgroup: 8 * gib, CgroupFile: "/x", Available: 100 * gib},
			Pinning{Bytes: 8*gib + 1, Resident: 8*gib + 1, Rails: 1},
			"cannot pin 8.00 GB (8.00 GB resident) for RDMA: RLIMIT_MEMLOCK is unlimited, the cgroup memory limit 8.00 GB (/x), MemAvailable 100.00 GB; " +
				"raise the limit of the control group or the container, or lower --global_segment_size",
		},
		"host and cgroup": {
			MemoryLimits{Memlock: mib, Privileged: true, Cgroup: gib, Available: gib},
			Pinning{Bytes: 4 * gib, Resident: gib, Rails: 1},
			"cannot pin 4.00 GB (1.00 GB resident) for RDMA: RLIMIT_MEMLOCK is 1.00 MB (not for this privileged process), the cgroup memory limit 1.00 GB, MemAvailable 1.00 GB; " +
				"raise the limit of the control group or the container, free memory of the host, or lower --global_segment_size",
		},
		"no turning around": {
			MemoryLimits{Memlock: gib, Cgroup: Unlimited, Available: Unlimited},
			Pinning{Bytes: 1 << 63, Rails: 2},
			"cannot pin 8388608.00 TB on each of 2 devices for RDMA: RLIMIT_MEMLOCK is 1.00 GB, the cgroup memory limit unlimited, MemAvailable unknown; " +
				"raise RLIMIT_MEMLOCK (ulimit -l unlimited, LimitMEMLOCK=infinity, docker --ulimit memlock=-1), or lower --global_segment_size",
		},
	} {
		got := ""
		if err := c.limits.Check(c.pinning); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestCheckMemlock(t *testing.T) {
	root := memoryTree(t, with(rootHost, container))
	if err := CheckMemlock(root, 8*gib); err != nil {
		t.Errorf("what fits: %v", err)
	}
	err := CheckMemlock(root, 9*gib)
	if err == nil {
		t.Fatal("more than the container may have was accepted")
	}
	for _, part := range []string{"9.00 GB", "RLIMIT_MEMLOCK is ", "cgroup memory limit 8.00 GB (/sys/fs/cgroup/memory.max)", "MemAvailable 100.00 GB", "--global_segment_size"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err, part)
		}
	}
}

func FuzzMemoryFiles(f *testing.F) {
	f.Add("VmPin:\t 512 kB\nCapEff:\t000001ffffffffff\n", "0::/a/b\n9:memory:/docker/abc\n", "max\n", "0 0 4294967295\n")
	f.Add("MemAvailable: 18446744073709551615 kB\n", "0::/../..\n", "9223372036854771712\n", "0 1000 1\n")
	f.Fuzz(func(t *testing.T, status, groups, limit, ids string) {
		if n, ok := parseKilobytes(status, "VmPin:"); !ok && n != 0 {
			t.Errorf("pinned %d from %q", n, status)
		}
		parseMayLock(status)
		parseWholeMap(ids)
		if n, ok := parseCgroupLimit(limit); !ok && n != Unlimited {
			t.Errorf("limit %d from %q", n, limit)
		}
		for _, g := range parseCgroups(groups) {
			if !filepath.IsAbs(g.dir) || strings.Contains(g.dir, "..") && slices.Contains(strings.Split(g.dir, "/"), "..") {
				t.Errorf("group %q", g.dir)
			}
		}
	})
}

func TestNodes(t *testing.T) {
	for name, c := range map[string]struct {
		status []int32
		node   int
		found  bool
	}{
		"nobody knows":    {nil, -1, false},
		"none there":      {[]int32{-2, -2, -14}, -1, false},
		"one node":        {[]int32{1, 1, 1}, 1, true},
		"some there":      {[]int32{-2, 1, -2, -2}, 1, true},
		"most":            {[]int32{0, 1, 1, 0, 1}, 1, true},
		"half":            {[]int32{0, 1, 1, 0}, -1, true},
		"spread":          {[]int32{0, 1, 2, 3}, -1, true},
		"impossible node": {[]int32{math.MaxInt32}, -1, false},
	} {
		if node, found := majority(c.status); node != c.node || found != c.found {
			t.Errorf("%s: %d, %v", name, node, found)
		}
	}
	for _, c := range []struct {
		mask []uint64
		want int
	}{
		{nil, -1},
		{[]uint64{0, 0}, -1},
		{[]uint64{1}, 0},
		{[]uint64{0, 4}, 66},
		{[]uint64{3}, -1},
		{[]uint64{1, 1}, -1},
	} {
		if got := onlyNode(c.mask); got != c.want {
			t.Errorf("%v: node %d, want %d", c.mask, got, c.want)
		}
	}
}

// TestArenaMemory asks the kernel about real memory. A sandbox may not answer; what it answers has to make sense.
func TestArenaMemory(t *testing.T) {
	if got := ArenaNUMA(nil); got != -1 {
		t.Errorf("no memory lies on node %d", got)
	}
	page := unix.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	}()
	if got := Resident(mem); got != 0 {
		t.Errorf("%d bytes are resident before the first touch", got)
	}
	before := ArenaNUMA(mem)
	if got := Resident(mem); got != 0 {
		t.Errorf("asking made %d bytes resident", got)
	}
	for i := 0; i < len(mem); i += page {
		mem[i] = 1
	}
	if got := Resident(mem); got != uint64(len(mem)) {
		t.Errorf("%d bytes are resident after touching %d", got, len(mem))
	}
	after := ArenaNUMA(mem)
	for _, node := range []int{before, after} {
		if _, err := os.Stat(fmt.Sprintf("/sys/devices/system/node/node%d", node)); node != -1 && err != nil {
			t.Errorf("node %d: %v", node, err)
		}
	}
	if before >= 0 && after != before {
		t.Errorf("promised on node %d, made on %d", before, after)
	}
	if err := CheckPinning("/", mem[:1], 1); err != nil {
		t.Errorf("one byte: %v", err)
	}
}

func TestSamples(t *testing.T) {
	page := unix.Getpagesize()
	for _, pages := range []int{1, 2, 1024, 1025, 5000} {
		mem, err := unix.Mmap(-1, 0, pages*page, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			t.Fatal(err)
		}
		at := samples(mem)
		if len(at) != min(pages, 1024) || at[0] != 0 || at[len(at)-1] >= len(mem) || !slices.IsSorted(at) || len(slices.Compact(at)) != min(pages, 1024) {
			t.Errorf("%d pages: %d samples to %d", pages, len(at), at[len(at)-1])
		}
		if err := unix.Munmap(mem); err != nil {
			t.Fatal(err)
		}
	}
}
