package segment

import (
	"bytes"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"mooncake/internal/limits"
)

// hugeBlocks finds the memory of an arena in huge pages, block by block, before the first byte is written to each. The kernel gives
// shared memory none by itself, but puts one together where it is told to (MADV_COLLAPSE, Linux 6.1): at a tenth of what
// the faults of 512 small pages cost, and every later copy finds its way in fewer steps.
type hugeBlocks struct {
	scarce  func() bool // memory is: then no page is taken that was not asked for
	givenUp func(error) // told once, when nobody asks any more

	asked []atomic.Uint64 // a bit for each block
	got   atomic.Int64    // blocks that became huge
	tries atomic.Int32    // refusals that are left; at 0 nobody asks any more
	dear  atomic.Int32    // blocks in a row that cost more than small pages do
}

const hugeBytes = 2 << 20

func newHugeBlocks(mapped int) *hugeBlocks {
	h := &hugeBlocks{
		scarce: func() bool { return false }, givenUp: func(error) {},
		asked: make([]atomic.Uint64, (mapped/hugeBytes+63)/64),
	}
	h.tries.Store(limits.SegmentHugeRefusals)
	return h
}

// heed has nothing found beyond what is written to while memory is scarce, and somebody told when the kernel is left alone.
func (a *Arena) heed(scarce func() bool, givenUp func(error)) {
	if a.huge != nil {
		a.huge.scarce, a.huge.givenUp = scarce, givenUp
	}
}

// ready makes blocks huge that are written to for the first time, unless that costs whoever writes more than small pages
// would. The range is what is about to be written and short (limits.DataReadyBytes): all of it is found before the first byte is.
func (a *Arena) ready(at, size uint64) {
	if a.huge != nil && a.huge.dear.Load() < limits.SegmentHugeDear {
		a.enlarge(at, size)
	}
}

// enlarge makes blocks huge that have no page yet. It may be called from anywhere at any time, and what is in the blocks stays.
// Whoever comes second does not wait for the first: the kernel keeps them apart.
func (a *Arena) enlarge(at, size uint64) {
	h := a.huge
	if h == nil || size == 0 {
		return
	}
	last := min((at+size-1)/hugeBytes+1, uint64(len(a.mapped)/hugeBytes))
	var from, blocks uint64 // a run of blocks that nobody asked for yet
	for block := at / hugeBytes; block < last; block++ {
		if h.claim(block) && !a.hasPages(block) {
			if blocks == 0 {
				from = block
			}
			blocks++
			continue
		}
		a.collapse(from, blocks)
		blocks = 0
	}
	a.collapse(from, blocks)
}

// claim tells whether the caller is the one to ask for a block.
func (h *hugeBlocks) claim(block uint64) bool {
	word, bit := &h.asked[block/64], uint64(1)<<(block%64)
	if word.Load()&bit != 0 || h.tries.Load() <= 0 || h.scarce() {
		return false
	}
	return word.Or(bit)&bit == 0
}

// hasPages tells whether any page of a block is there. To put those together they would have to be copied, so such a block is left
// as it is.
func (a *Arena) hasPages(block uint64) bool {
	var pages [hugeBytes / pageBytes]byte
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&a.mapped[block*hugeBytes])), hugeBytes, uintptr(unsafe.Pointer(&pages)))
	return errno != 0 || bytes.IndexByte(pages[:], 1) >= 0
}

// collapse asks for a run of blocks. A kernel that cannot, or has to look for long, is not asked for ever.
func (a *Arena) collapse(from, blocks uint64) {
	if blocks == 0 {
		return
	}
	runtime.LockOSThread() // whose processor time is looked at
	defer runtime.UnlockOSThread()
	began, used := time.Now(), threadTime()
	run := a.mapped[from*hugeBytes:][:blocks*hugeBytes]
	var err error
	for at := 0; at < len(run) && err == nil; at += hugeBytes {
		// What has no page at all the kernel does not put together either.
		err = unix.Madvise(run[at:at+pageBytes], unix.MADV_POPULATE_WRITE)
	}
	if err == nil {
		err = unix.Madvise(run, unix.MADV_COLLAPSE)
	}
	h := a.huge
	if err == nil {
		h.got.Add(int64(blocks))
		h.count(blocks, threadTime()-used)
		took := time.Since(began)
		if took <= time.Duration(blocks)*limits.SegmentHugeSlowMs*time.Millisecond {
			h.tries.Store(limits.SegmentHugeRefusals)
			return
		}
		err = fmt.Errorf("%d of 2 MiB took %v", blocks, took)
	}
	if h.tries.Add(-1) == 0 {
		h.givenUp(err)
	}
}

// count keeps in mind whether huge pages are dear. Those of a virtual machine are where the host has to find each part of them first,
// while small pages are still warm from their last use: eight milliseconds instead of one for 2 MiB were seen.
func (h *hugeBlocks) count(blocks uint64, cost time.Duration) {
	if cost <= time.Duration(blocks)*limits.SegmentHugeDearUs*time.Microsecond {
		h.dear.Store(0)
		return
	}
	h.dear.Add(int32(min(blocks, limits.SegmentHugeDear)))
}

// threadTime is the processor time of this thread.
func threadTime() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
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
