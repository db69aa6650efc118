//go:build !amd64 && !arm64

package catalog

import "unsafe"

// prefetch does nothing where there is no way to say it.
func prefetch(unsafe.Pointer) {}
