package rawconn

import (
	"io"
	"os"
)

// BeforeWaits has functions called whenever a Fill or a write is about to wait, which is where deadlines are renewed. An
// error of theirs ends the call. Standard mode does not call them.
func (c *Conn) BeforeWaits(fill, write func() error) { c.beforeRead, c.beforeWrite = fill, write }

// Fill reads until p is full, or returns how much of it is and the reason; an end of the stream is then
// io.ErrUnexpectedEOF. With a mark above 0 the kernel wakes the reader only when so many bytes, or the rest, are there; when
// p is full the mark is 1 again, after an error it is whatever it was. Standard mode knows no marks here.
func (c *Conn) Fill(p []byte, mark int) (int, error) {
	if c.std {
		n, err := io.ReadFull(c.tcp, p)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return n, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	t := &c.in
	t.pieces[0], t.count = p, 1
	t.done, t.errno, t.cause = 0, 0, nil
	c.mark = mark
	err := c.raw.Read(c.fillFn)
	n, errno, cause := t.done, t.errno, t.cause
	t.release()
	switch {
	case err != nil:
		return n, err
	case cause != nil:
		return n, cause
	case errno != 0:
		return n, os.NewSyscallError("read", errno)
	case n < len(p):
		return n, io.ErrUnexpectedEOF
	}
	return n, nil
}
