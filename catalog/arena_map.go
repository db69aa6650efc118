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

func unmapSpan(base unsafe.Pointer) {
	// The address came from mapSpan, so the call has no reason to fail, and nobody could act on it.
	_ = unix.MunmapPtr(base, spanBytes)
}
