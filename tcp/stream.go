package tcp

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"mooncake/internal/limits"
	"mooncake/internal/rawconn"
)

// stream moves bodies over one connection and bounds how long they may stand still. A reader and a writer may run at the
// same time, each only once.
type stream struct {
	conn       *rawconn.Conn
	lowatBytes int
	progress   time.Duration
	readUntil  time.Time // the read deadline that the connection has
	writeUntil time.Time // and its write deadline
	marked     bool      // raiseMark has raised the low-water mark
}

func newStream(conn *net.TCPConn, o Options, progress time.Duration) (*stream, error) {
	if err := o.tuneConn(conn); err != nil {
		return nil, err
	}
	raw, err := rawconn.New(conn, o.std())
	if err != nil {
		return nil, err
	}
	s := &stream{conn: raw, lowatBytes: o.RcvLowatBytes, progress: progress}
	raw.BeforeFillWaits(s.armRead)
	if o.YieldForBody {
		raw.YieldForRest()
	}
	return s, nil
}

// receive fills dst and returns how much of it was filled. The wait for each piece is bounded by progress; the low-water mark
// is as before when it returns without an error. The read deadline stays: whoever waits for longer than that lifts it.
func (s *stream) receive(dst []byte) (int, error) {
	s.marked = false // what follows has a mark of its own
	if len(dst) == 0 {
		return 0, s.conn.SetRcvLowat(1)
	}
	mark := 0
	if len(dst) >= limits.DataRcvLowatFromBytes {
		mark = s.lowatBytes
	}
	if err := s.armRead(); err != nil {
		return 0, err
	}
	got, err := s.conn.Fill(dst, mark)
	if err == nil || mark == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return got, err
	}
	n, err := s.glance(dst[got:])
	if got += n; err != nil {
		return got, err
	}
	if err := s.armRead(); err != nil {
		return got, err
	}
	n, err = s.conn.Fill(dst[got:], 0)
	return got + n, err
}

// armRead renews the read deadline when a good part of it has passed. A small body then costs a look at the clock and no timer.
func (s *stream) armRead() error {
	now := time.Now()
	if s.readUntil.Sub(now) >= s.progress/2 {
		return nil
	}
	return s.readBy(now.Add(s.progress))
}

// readBy sets the read deadline; the zero time is none.
func (s *stream) readBy(until time.Time) error {
	s.readUntil = until
	return s.conn.SetReadDeadline(until)
}

// raiseMark lets whoever waits for the status of a large body sleep until a good part of the body is there as well. A holder that
// refuses hangs up after the status, which ends the wait.
func (s *stream) raiseMark(body int) error {
	if s.lowatBytes == 0 || body < limits.DataRcvLowatFromBytes {
		return nil
	}
	s.marked = true
	return s.conn.SetRcvLowat(min(s.lowatBytes, statusBytes+body))
}

// lowerMark prepares for a look at what the low-water mark was hiding.
func (s *stream) lowerMark() error {
	if err := s.dropMark(); err != nil {
		return err
	}
	return s.readBy(time.Now().Add(limits.DataGlanceMs * time.Millisecond))
}

// dropMark has the reader woken by every byte.
func (s *stream) dropMark() error {
	s.marked = false
	return s.conn.SetRcvLowat(1)
}

// glance reads what the low-water mark was hiding: a peer that sends less than the mark in all that time is slow, one
// that sends nothing is stuck.
func (s *stream) glance(dst []byte) (int, error) {
	if err := s.lowerMark(); err != nil {
		return 0, err
	}
	n, err := s.conn.Read(dst)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// send writes head and body, the first piece of the body together with the head. The wait for each piece is bounded by
// progress.
func (s *stream) send(head, body []byte) error {
	for len(head)+len(body) > 0 {
		if err := s.armWrite(); err != nil {
			return err
		}
		n, err := s.sendSome(head, body[:min(len(body), limits.DataPieceBytes)])
		fromHead := min(n, len(head))
		head, body = head[fromHead:], body[n-fromHead:]
		if err != nil && (n == 0 || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return err
		}
	}
	return nil
}

func (s *stream) sendSome(head, piece []byte) (int, error) {
	if len(head) == 0 {
		return s.conn.Write(piece)
	}
	if len(piece) == 0 {
		return s.conn.Write(head)
	}
	return s.conn.Writev(head, piece)
}

// armWrite renews the write deadline when a good part of it has passed. A deadline that runs out between two writes harms
// nobody, and most writes then pay for a look at the clock only.
func (s *stream) armWrite() error {
	now := time.Now()
	if s.writeUntil.Sub(now) > s.progress/2 {
		return nil
	}
	s.writeUntil = now.Add(s.progress)
	return s.conn.SetWriteDeadline(s.writeUntil)
}

func (s *stream) close() { s.conn.Close() }
