package rdma

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/unix"

	"mooncake/internal/limits"
)

// ArenaNUMA is the NUMA node that the memory lies on, -1 where that is unknown or no node holds more than half of it. Pages
// that are there are asked where they are; if none is there yet, the memory policy tells where they will be.
//
// mem must be a whole mapping or a part of one; its pages are neither touched nor made.
func ArenaNUMA(mem []byte) int {
	if len(mem) == 0 {
		return -1
	}
	if node, found := majority(pageNodes(mem)); found {
		return node
	}
	return policyNode(mem)
}

// samples are pages spread evenly over the memory, by offset.
func samples(mem []byte) []int {
	page := unix.Getpagesize()
	pages := (len(mem) + page - 1) / page
	count := min(pages, limits.RDMAPagesAsked)
	out := make([]int, count)
	for i := range out {
		out[i] = int(uint64(i)*uint64(pages)/uint64(count)) * page
	}
	return out
}

// pageNodes asks the kernel where some pages are: the node, or a negative error number for a page that is not there.
func pageNodes(mem []byte) []int32 {
	offsets := samples(mem)
	pages := make([]unsafe.Pointer, len(offsets))
	status := make([]int32, len(offsets))
	for i, at := range offsets {
		pages[i] = unsafe.Pointer(&mem[at])
		status[i] = -1
	}
	const self, query, flags = 0, 0, 0 // without target nodes nothing is moved
	_, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, self, uintptr(len(pages)),
		uintptr(unsafe.Pointer(&pages[0])), query, uintptr(unsafe.Pointer(&status[0])), flags)
	if errno != 0 {
		return nil // a kernel without NUMA, or a sandbox
	}
	return status
}

// majority is the node of more than half of the pages that are there. It is found, as -1, also where they are spread: then
// there is no node, whatever the policy says.
func majority(status []int32) (node int, found bool) {
	counts, present := map[int32]int{}, 0
	for _, s := range status {
		if s >= 0 && s < limits.RDMANodes {
			counts[s]++
			present++
		}
	}
	for n, count := range counts {
		if 2*count > present {
			return int(n), true
		}
	}
	return -1, present > 0
}

// The memory policies that name nodes, and the questions that can be asked about policies.
const (
	mpolPreferred = 1
	mpolBind      = 2

	mpolOfThread    = 0
	mpolByAddress   = 1 << 1
	mpolMemsAllowed = 1 << 2
)

// policyNode asks for the memory policy of the range, then for that of the process, and where both are the usual one for the
// nodes that the process may use at all. More than one is no answer: where its threads happen to run decides then.
func policyNode(mem []byte) int {
	addr := uintptr(unsafe.Pointer(&mem[0]))
	if mode, nodes, ok := getMempolicy(addr, mpolByAddress); ok && namesNodes(mode) {
		return onlyNode(nodes)
	}
	if mode, nodes, ok := getMempolicy(0, mpolOfThread); ok && namesNodes(mode) {
		return onlyNode(nodes)
	}
	if _, nodes, ok := getMempolicy(0, mpolMemsAllowed); ok {
		return onlyNode(nodes)
	}
	return -1
}

func namesNodes(mode int) bool { return mode == mpolBind || mode == mpolPreferred }

// getMempolicy is the system call. mode is without its flags.
func getMempolicy(addr uintptr, question uintptr) (mode int, nodes []uint64, ok bool) {
	const modeMask = 0xff
	var raw int32
	mask := make([]uint64, limits.RDMANodes/64)
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&raw)), uintptr(unsafe.Pointer(&mask[0])),
		limits.RDMANodes, addr, question, 0)
	return int(raw & modeMask), mask, errno == 0
}

// onlyNode is the one node of a mask, -1 if there are none or several.
func onlyNode(mask []uint64) int {
	node := -1
	for i, word := range mask {
		switch {
		case word == 0:
		case node >= 0 || bits.OnesCount64(word) > 1:
			return -1
		default:
			node = 64*i + bits.TrailingZeros64(word)
		}
	}
	return node
}

// Resident is about how many bytes of the memory are in RAM, from an even sample.
func Resident(mem []byte) uint64 {
	if len(mem) == 0 {
		return 0
	}
	page := unix.Getpagesize()
	offsets := samples(mem)
	there := 0
	for _, at := range offsets {
		var in byte
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[at]))&^uintptr(page-1), 1, uintptr(unsafe.Pointer(&in)))
		if errno == 0 && in&1 != 0 {
			there++
		}
	}
	return uint64(float64(len(mem)) * float64(there) / float64(len(offsets)))
}
