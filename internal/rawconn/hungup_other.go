//go:build !linux

package rawconn

// HungUp is not known here: the next read finds out.
func (c *Conn) HungUp() bool { return false }
