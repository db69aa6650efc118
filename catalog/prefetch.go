//go:build amd64 || arm64

package catalog

import "unsafe"

// prefetch asks the processor for the line of memory at an address. It waits for nothing, and no address is wrong.
//
//go:noescape
func prefetch(at unsafe.Pointer)
