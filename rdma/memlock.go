package rdma

import (
	"fmt"
	"math"
	"strings"

	"golang.org/x/sys/unix"

	"mooncake/internal/units"
)

// Unlimited stands for a limit that is not there.
const Unlimited = math.MaxUint64

// MemoryLimits is what the kernel lets this process pin.
type MemoryLimits struct {
	// Memlock is RLIMIT_MEMLOCK in bytes, Unlimited without.
	Memlock uint64
	// Privileged says that RLIMIT_MEMLOCK does not count for this process (CAP_IPC_LOCK outside of user namespaces).
	Privileged bool
	// Pinned is what the process has pinned already. It counts against Memlock.
	Pinned uint64
	// Cgroup is the lowest memory limit of the process' control groups, Unlimited without; CgroupFile is where it stands.
	Cgroup     uint64
	CgroupFile string
	// Available is the kernel's MemAvailable, Unlimited where unknown.
	Available uint64
}

// Pinning is what a daemon is about to pin.
type Pinning struct {
	// Bytes is the size of the memory.
	Bytes uint64
	// Resident is how much of it the process has got already: that much needs no more memory of the host.
	Resident uint64
	// Rails is the number of devices. Each registration counts against RLIMIT_MEMLOCK anew.
	Rails int
}

// CheckMemlock reports why need bytes of memory that was not touched yet cannot be pinned for one device, or nil. root is "/"
// or a tree with proc and sys/fs/cgroup; RLIMIT_MEMLOCK is this process'.
func CheckMemlock(root string, need uint64) error {
	return ReadMemoryLimits(root, memlockLimit()).Check(Pinning{Bytes: need, Rails: 1})
}

// CheckPinning is CheckMemlock for memory that is mapped: part of it may be there already, and every rail pins it once.
func CheckPinning(root string, mem []byte, rails int) error {
	return ReadMemoryLimits(root, memlockLimit()).Check(Pinning{Bytes: uint64(len(mem)), Resident: Resident(mem), Rails: rails})
}

// CheckUnmapped is CheckPinning for one device and memory that is not mapped yet, of which so much is there already.
func CheckUnmapped(root string, bytes, resident uint64) error {
	return ReadMemoryLimits(root, memlockLimit()).Check(Pinning{Bytes: bytes, Resident: resident, Rails: 1})
}

// memlockLimit asks for the limit that registrations meet, the soft one.
func memlockLimit() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return Unlimited // not seen on any kernel; the registration will tell
	}
	return limit.Cur // RLIM_INFINITY is Unlimited
}

// Check reports why something cannot be pinned, in one line with the three limits, or nil.
func (m MemoryLimits) Check(p Pinning) error {
	lock := saturate(p.Bytes, uint64(max(p.Rails, 1)))
	fresh := p.Bytes - min(p.Resident, p.Bytes)
	var advice []string
	if !m.Privileged && m.Memlock != Unlimited && (lock > m.Memlock || m.Pinned > m.Memlock-lock) {
		advice = append(advice, "raise RLIMIT_MEMLOCK (ulimit -l unlimited, LimitMEMLOCK=infinity, docker --ulimit memlock=-1)")
	}
	if p.Bytes > m.Cgroup {
		advice = append(advice, "raise the limit of the control group or the container")
	}
	if fresh > m.Available {
		advice = append(advice, "free memory of the host")
	}
	if len(advice) == 0 {
		return nil
	}
	what := units.FormatSize(p.Bytes)
	if p.Rails > 1 {
		what += fmt.Sprintf(" on each of %d devices", p.Rails)
	}
	if p.Resident > 0 {
		what += fmt.Sprintf(" (%s resident)", units.FormatSize(min(p.Resident, p.Bytes)))
	}
	return fmt.Errorf("cannot pin %s for RDMA: %s; %s, or lower --global_segment_size", what, m, strings.Join(advice, ", "))
}

// String names the three numbers.
func (m MemoryLimits) String() string {
	lock := formatLimit(m.Memlock)
	if m.Privileged {
		lock += " (not for this privileged process)"
	} else if m.Pinned > 0 {
		lock += " (" + units.FormatSize(m.Pinned) + " of it in use)"
	}
	group := formatLimit(m.Cgroup)
	if m.CgroupFile != "" {
		group += " (" + m.CgroupFile + ")"
	}
	available := "unknown"
	if m.Available != Unlimited {
		available = units.FormatSize(m.Available)
	}
	return fmt.Sprintf("RLIMIT_MEMLOCK is %s, the cgroup memory limit %s, MemAvailable %s", lock, group, available)
}

func formatLimit(bytes uint64) string {
	if bytes == Unlimited {
		return "unlimited"
	}
	return units.FormatSize(bytes)
}

// saturate multiplies without turning around.
func saturate(a, b uint64) uint64 {
	if a != 0 && b > math.MaxUint64/a {
		return math.MaxUint64
	}
	return a * b
}
