//go:build !linux

package schedslice

import "time"

// Ask does nothing where there is no such scheduler.
func Ask(time.Duration) (took bool, err error) { return false, nil }
