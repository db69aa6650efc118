//go:build linux && !race

package catalog

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapSpan takes one span from the system; nil when it refuses.
func mapSpan() unsafe.Pointer {
	base, err := unix.MmapPtr(-1, 0, nil, spanBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil
	}
	return base
}

// mapPair takes two spans that lie in one huge page, if the system has any: one step of the processor leads to all of it, and one
// fault brings it; nil when the system refuses.
func mapPair() unsafe.Pointer {
	const pair, all = 2 * spanBytes, 4 * spanBytes
	base, err := unix.MmapPtr(-1, 0, nil, all, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil
	}
	head := -uintptr(base) & (pair - 1)
	if head > 0 {
		_ = unix.MunmapPtr(base, head) // see unmapSpan
	}
	base = unsafe.Add(base, head)
	if tail := all - pair - head; tail > 0 {
		_ = unix.MunmapPtr(unsafe.Add(base, pair), tail)
	}
	_ = unix.Madvise(unsafe.Slice((*byte)(base), pair), unix.MADV_HUGEPAGE) // a wish: without it the pages are small
	return base
}

// populate lets the system bring the memory of a pair now instead of when it is first touched.
func populate(pair unsafe.Pointer) {
	_ = unix.Madvise(unsafe.Slice((*byte)(pair), 2*spanBytes), unix.MADV_POPULATE_WRITE) // a wish: older systems have no such advice
}

func unmapSpan(base unsafe.Pointer) {
	// The address came from mapSpan, so the call has no reason to fail, and nobody could act on it.
	_ = unix.MunmapPtr(base, spanBytes)
}
