package rdma

import (
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"mooncake/internal/limits"
)

// ReadMemoryLimits reads the limits below root, which is "/" or a tree that looks like it; memlock is RLIMIT_MEMLOCK. What
// cannot be read limits nothing: the registration itself will tell, with fewer words.
func ReadMemoryLimits(root string, memlock uint64) MemoryLimits {
	m := MemoryLimits{Memlock: memlock, Cgroup: Unlimited, Available: Unlimited}
	tree, err := os.OpenRoot(root)
	if err != nil {
		return m
	}
	defer tree.Close()
	if text, err := content(tree, "proc/meminfo", limits.RDMAProcFileBytes); err == nil {
		if bytes, ok := parseKilobytes(text, "MemAvailable:"); ok {
			m.Available = bytes
		}
	}
	if text, err := content(tree, "proc/self/status", limits.RDMAProcFileBytes); err == nil {
		m.Pinned, _ = parseKilobytes(text, "VmPin:")
		m.Privileged = parseMayLock(text)
	}
	if text, err := content(tree, "proc/self/uid_map", limits.RDMAProcFileBytes); err == nil {
		m.Privileged = m.Privileged && parseWholeMap(text)
	}
	m.Cgroup, m.CgroupFile = readCgroup(tree)
	return m
}

// readCgroup finds the lowest limit of the groups that the process is in and of those above. The path in proc/self/cgroup is
// the host's where the container has no namespace of its own for groups; then its folders are not there, and the mounted one,
// which the way up ends at, is the container's.
func readCgroup(tree *os.Root) (limit uint64, file string) {
	limit = Unlimited
	text, err := content(tree, "proc/self/cgroup", limits.RDMAProcFileBytes)
	if err != nil {
		return limit, ""
	}
	for _, group := range parseCgroups(text) {
		dir := group.dir
		for range limits.RDMACgroupLevels {
			name := path.Join(group.mount, dir, group.file)
			if text, err := content(tree, name, limits.RDMAProcFileBytes); err == nil {
				if bytes, ok := parseCgroupLimit(text); ok && bytes < limit {
					limit, file = bytes, "/"+name
				}
			}
			if dir == "/" {
				break
			}
			dir = path.Dir(dir)
		}
	}
	return limit, file
}

// cgroup is one group of the process that may limit memory.
type cgroup struct{ mount, dir, file string }

// parseCgroups reads proc/self/cgroup: lines of hierarchy, controllers and path. Version 2 has one hierarchy, 0, without a
// list of controllers; in version 1 memory is one of them.
func parseCgroups(text string) []cgroup {
	var out []cgroup
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		dir := path.Clean("/" + parts[2]) // "/../.." is how a group above the namespace shows
		switch {
		case parts[0] == "0" && parts[1] == "":
			out = append(out, cgroup{"sys/fs/cgroup", dir, "memory.max"})
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			out = append(out, cgroup{"sys/fs/cgroup/memory", dir, "memory.limit_in_bytes"})
		}
	}
	return out
}

// parseCgroupLimit reads memory.max ("max" or bytes) and memory.limit_in_bytes, where no limit is the largest number of whole
// pages.
func parseCgroupLimit(text string) (bytes uint64, ok bool) {
	const noLimitFrom = math.MaxInt64 &^ (1<<16 - 1) // pages are 64 KiB at most
	bytes, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil || bytes >= noLimitFrom {
		return Unlimited, false
	}
	return bytes, true
}

// parseKilobytes finds a line like "MemAvailable:  1024 kB" and gives bytes.
func parseKilobytes(text, key string) (bytes uint64, ok bool) {
	const kilobyte = 1 << 10
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(line, key)
		if !found {
			continue
		}
		words := strings.Fields(rest)
		if len(words) != 2 || words[1] != "kB" {
			return 0, false
		}
		n, err := strconv.ParseUint(words[0], 10, 64)
		if err != nil || n > math.MaxUint64/kilobyte {
			return 0, false
		}
		return n * kilobyte, true
	}
	return 0, false
}

// parseMayLock looks for CAP_IPC_LOCK among the effective capabilities in proc/self/status.
func parseMayLock(text string) bool {
	const capIPCLock = 14
	for line := range strings.Lines(text) {
		if digits, found := strings.CutPrefix(line, "CapEff:"); found {
			bits, err := strconv.ParseUint(strings.TrimSpace(digits), 16, 64)
			return err == nil && bits>>capIPCLock&1 != 0
		}
	}
	return false
}

// parseWholeMap reads proc/self/uid_map: outside of user namespaces every id is itself. Inside of one a capability is worth
// nothing to the kernel's check of pinned memory.
func parseWholeMap(text string) bool {
	words := strings.Fields(text)
	return len(words) == 3 && words[0] == "0" && words[1] == "0" && words[2] == "4294967295"
}
