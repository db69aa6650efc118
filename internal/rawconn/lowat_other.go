//go:build !linux

package rawconn

// setRcvLowat does nothing: the mark only saves wake-ups.
func setRcvLowat(uintptr, int) error { return nil }
