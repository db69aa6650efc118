package vm

import (
	"bytes"
	"fmt"
)

// cpio writes the archive format of an initramfs ("newc": text headers, everything padded to four bytes). The kernel takes
// several archives one after the other.
type cpio struct {
	buf  bytes.Buffer
	next uint32 // inode number: the kernel takes equal ones for links
}

const (
	cpioDir  = 0o040000
	cpioFile = 0o100000
)

func (c *cpio) dir(name string) { c.entry(name, cpioDir|0o755, nil) }

func (c *cpio) file(name string, mode uint32, text []byte) { c.entry(name, cpioFile|mode, text) }

func (c *cpio) entry(name string, mode uint32, text []byte) {
	c.next++
	links := 1
	fmt.Fprintf(&c.buf, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		c.next, mode, 0, 0, links, 0, len(text), 0, 0, 0, 0, len(name)+1, 0)
	c.buf.WriteString(name)
	c.buf.WriteByte(0)
	c.pad()
	c.buf.Write(text)
	c.pad()
}

func (c *cpio) pad() {
	for c.buf.Len()%4 != 0 {
		c.buf.WriteByte(0)
	}
}

// end closes the archive and answers with its bytes.
func (c *cpio) end() []byte {
	c.next = 0
	c.entry("TRAILER!!!", 0, nil)
	return c.buf.Bytes()
}
