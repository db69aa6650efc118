//go:build !linux || race

package catalog

import "unsafe"

// mapSpan takes one span from the Go heap. The race detector only watches that memory, so tests under it run here.
func mapSpan() unsafe.Pointer {
	return unsafe.Pointer(unsafe.SliceData(make([]uint64, spanBytes/8)))
}

// mapPair takes two spans in one piece.
func mapPair() unsafe.Pointer {
	return unsafe.Pointer(unsafe.SliceData(make([]uint64, 2*spanBytes/8)))
}

// populate has nothing to do: the Go heap clears what it gives.
func populate(unsafe.Pointer) {}

// unmapSpan leaves the span to the garbage collector.
func unmapSpan(unsafe.Pointer) {}
