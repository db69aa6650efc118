//go:build !linux || (!amd64 && !arm64) || race

package rawconn

const rawSupported = false

func (c *Conn) readStep(uintptr) bool { return true }

func (c *Conn) fillStep(uintptr) bool { return true }

func (c *Conn) writeStep(uintptr) bool { return true }
