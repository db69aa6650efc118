//go:build !linux

package tcp

// tuneSocket does nothing: the knobs are Linux's.
func (o Options) tuneSocket(uintptr) error { return nil }

// tuneLocalSocket does nothing either.
func (o Options) tuneLocalSocket(uintptr) error { return nil }
