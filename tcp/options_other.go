//go:build !linux

package tcp

import (
	"errors"
	"net"
)

// tuneSocket does nothing: the knobs are Linux's.
func (o Options) tuneSocket(uintptr) error { return nil }

// tuneLocalSocket does nothing either.
func (o Options) tuneLocalSocket(uintptr) error { return nil }

// setBuffer is not possible.
func setBuffer(*net.TCPConn, int) error { return errors.ErrUnsupported }
