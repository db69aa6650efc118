package rawconn

import (
	"io"
	"os"

	"mooncake/internal/limits"
)

// BeforeFillWaits has a function called whenever a Fill is about to wait, which is where a deadline is renewed. An error of its ends
// the Fill. Standard mode cannot tell and calls it before every read.
func (c *Conn) BeforeFillWaits(f func() error) { c.beforeWait = f }

// YieldForRest makes a Fill of less than limits.DataRcvLowatFromBytes give up the processor once when the Read before it left nothing:
// whoever interrupts the sender, because its slice is the shorter one (package schedslice), was woken by a header and waits
// for what the sender is about to hand over. Standard mode does not do it.
func (c *Conn) YieldForRest() { c.yields = true }

// Fill reads until p is full, or returns how much of it is and the reason; an end of the stream is then
// io.ErrUnexpectedEOF. With a mark above 0 the kernel wakes the reader only when so many bytes, or the rest, are there; when
// p is full the mark is 1 again, after an error it is whatever it was.
func (c *Conn) Fill(p []byte, mark int) (int, error) {
	if c.std {
		return c.fillStd(p, mark)
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

func (c *Conn) fillStd(p []byte, mark int) (got int, err error) {
	for got < len(p) {
		if c.beforeWait != nil {
			if err := c.beforeWait(); err != nil {
				return got, err
			}
		}
		if err := c.SetRcvLowat(min(len(p)-got, mark)); err != nil {
			return got, err
		}
		n, err := c.tcp.Read(p[got:min(len(p), got+limits.RawCallBytes)])
		got += n
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return got, err
		}
	}
	return got, c.SetRcvLowat(1)
}
