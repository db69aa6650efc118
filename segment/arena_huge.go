package segment

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"mooncake/internal/limits"
	"mooncake/rdma"
)

// hugeBlocks finds the memory of an arena in huge pages, block by block, before the first byte is written to each. The kernel gives
// shared memory none by itself, but puts one together where it is told to (MADV_COLLAPSE, Linux 6.1): at a tenth of what
// the faults of 512 small pages cost, and every later copy finds its way in fewer steps.
type hugeBlocks struct {
	scarce func() bool // memory is: then no page is taken that was not asked for

	asked []atomic.Uint64 // a bit for each block
	got   atomic.Int64    // blocks that became huge
	tries atomic.Int32    // failures that are left; at 0 nobody asks any more
}

const hugeBytes = 2 << 20

func newHugeBlocks(mapped int) *hugeBlocks {
	h := &hugeBlocks{asked: make([]atomic.Uint64, (mapped/hugeBytes+63)/64)}
	h.tries.Store(limits.SegmentHugeFailures)
	return h
}

// spare has nothing found beyond what is written to while memory is scarce.
func (a *Arena) spare(scarce func() bool) {
	if a.huge != nil {
		a.huge.scarce = scarce
	}
}

// ready makes blocks huge that are written to for the first time. It may be called from anywhere at any time, and what is in the
// blocks stays. Whoever comes second does not wait for the first: the kernel keeps them apart.
func (a *Arena) ready(at, size uint64) {
	h := a.huge
	if h == nil || size == 0 || h.tries.Load() <= 0 {
		return
	}
	last := min((at+size-1)/hugeBytes+1, uint64(len(a.mapped)/hugeBytes))
	for block := at / hugeBytes; block < last; block++ {
		word, bit := &h.asked[block/64], uint64(1)<<(block%64)
		if word.Load()&bit != 0 {
			continue
		}
		if h.scarce != nil && h.scarce() {
			return
		}
		if word.Or(bit)&bit == 0 {
			a.collapse(block)
		}
	}
}

// collapse asks for one block, unless it has pages already: to put those together they would have to be copied. A kernel that cannot,
// or has to look for long, is not asked for ever.
func (a *Arena) collapse(block uint64) {
	began := time.Now()
	part := a.mapped[block*hugeBytes:][:hugeBytes]
	if rdma.Resident(part) > 0 {
		return
	}
	// What has no page at all the kernel does not put together either.
	err := unix.Madvise(part[:pageBytes], unix.MADV_POPULATE_WRITE)
	if err == nil {
		err = unix.Madvise(part, unix.MADV_COLLAPSE)
	}
	if err != nil || time.Since(began) > limits.SegmentHugeSlowMs*time.Millisecond {
		a.huge.tries.Add(-1)
	}
	if err == nil {
		a.huge.got.Add(1)
	}
}

// hugeResident is how much of the arena lies in huge pages that this process asked for.
func (a *Arena) hugeResident() uint64 {
	if a.huge == nil {
		return 0
	}
	return uint64(a.huge.got.Load()) * hugeBytes
}

// mapAligned maps a file so that its blocks are blocks of the address space too: only those can be huge.
func mapAligned(fd int, size int) ([]byte, error) {
	if size < hugeBytes {
		return unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	room := uintptr(size) + hugeBytes
	reserved, err := unix.MmapPtr(-1, 0, nil, room, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	head := (hugeBytes - uintptr(reserved)%hugeBytes) % hugeBytes
	mapped, err := unix.MmapPtr(fd, 0, unsafe.Add(reserved, head), uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		_ = unix.MunmapPtr(reserved, room)
		return nil, err
	}
	if head > 0 {
		_ = unix.MunmapPtr(reserved, head)
	}
	end := (uintptr(size) + pageBytes - 1) / pageBytes * pageBytes
	if tail := room - head - end; tail > 0 {
		_ = unix.MunmapPtr(unsafe.Add(mapped, end), tail)
	}
	return unsafe.Slice((*byte)(mapped), size), nil
}

// unmap undoes mapAligned.
func unmap(mapped []byte) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(mapped)), uintptr(len(mapped)))
}
