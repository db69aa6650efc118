package tcp

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"mooncake/internal/limits"
)

// lane is one connection of an initiator. It serves one request at a time.
type lane struct {
	stream *stream
	wholes wholes
	usedAt time.Time
	header [requestBytes]byte
	status [statusBytes]byte
}

func (l *lane) close() { l.stream.close() }

// run carries out one transfer. After an error the connection is in an unknown state and must be closed.
func (l *lane) run(ctx context.Context, t transfer) error {
	if ctx.Done() == nil {
		return l.transfer(t)
	}
	unhook := context.AfterFunc(ctx, l.close)
	err := l.transfer(t)
	if !unhook() {
		// The context ended first: the connection is closed, or about to be, even if the transfer still succeeded.
		return ctx.Err()
	}
	return err
}

func (l *lane) transfer(t transfer) error {
	switch {
	case t.op == opRead:
		return l.read(t)
	case t.acknowledged:
		return l.write(t)
	}
	return l.writeAndReadBack(t)
}

func (l *lane) read(t transfer) error {
	if err := l.stream.send(appendRequest(l.header[:0], t.request), nil); err != nil {
		return err
	}
	got := 0
	if t.acknowledged {
		if err := l.stream.raiseMark(len(t.body)); err != nil {
			return err
		}
		n, err := l.readStatus(t.body)
		if err != nil {
			return err
		}
		got = n
	}
	_, err := l.stream.receive(t.body[got:])
	return err
}

// write sends header and body and waits for the status. The holder may refuse while the body is still being sent and then
// closes: sending fails, and the reason lies in the receive buffer.
func (l *lane) write(t transfer) error {
	l.wholes.begin(l.stream.conn.TCP(), len(t.body))
	defer l.wholes.end()
	sending := l.stream.send(appendRequest(l.header[:0], t.request), t.body)
	if sending == nil {
		_, err := l.readStatus(nil)
		return err
	}
	if errors.Is(sending, net.ErrClosed) {
		return sending
	}
	l.stream.progress = limits.DialerLastWordMs * time.Millisecond
	if _, err := l.readStatus(nil); errors.Is(err, ErrRefused) {
		return err
	}
	return sending
}

// writeAndReadBack makes the unacknowledged framing safe. A holder serves the requests of one connection in order, so the
// answer to a read that follows the write proves that the write is in memory.
func (l *lane) writeAndReadBack(t transfer) error {
	if err := l.stream.send(appendRequest(l.header[:0], t.request), t.body); err != nil {
		return err
	}
	var last [1]byte
	return l.read(transfer{request: request{op: opRead, addr: t.addr + t.size - 1, size: 1}, body: last[:]})
}

// readStatus waits for a status and takes along what of the body came with it; it returns how much that was.
func (l *lane) readStatus(body []byte) (int, error) {
	conn := l.stream.conn
	if err := l.stream.readBy(time.Now().Add(l.stream.progress)); err != nil {
		return 0, err
	}
	got := 0
	for got < statusBytes {
		n, err := conn.Readv(l.status[got:], body[:min(len(body), limits.DataPieceBytes)])
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && l.stream.marked {
			if err = l.stream.lowerMark(); err == nil {
				n, err = conn.Readv(l.status[got:], body[:min(len(body), limits.DataPieceBytes)])
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) && got > 0 {
				err = io.ErrUnexpectedEOF
			}
			return 0, explainSilence(err, l.stream.progress)
		}
		if got += n; got < statusBytes && l.stream.marked { // the mark may be more than what is still to come
			if err := l.stream.dropMark(); err != nil {
				return 0, err
			}
		}
	}
	if err := parseStatus(&l.status); err != nil {
		return 0, err
	}
	return got - statusBytes, nil
}

// explainSilence says in words what a bare time-out and a bare end of file mean here.
func explainSilence(err error, patience time.Duration) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &silence{patience: patience, cause: err}
	case errors.Is(err, io.EOF):
		return errHolderClosed
	}
	return err
}

var errHolderClosed = errors.New("the holder closed the connection instead of answering")

// silence is a holder that accepts and does not answer.
type silence struct {
	patience time.Duration
	cause    error
}

func (s *silence) Error() string { return "no answer within " + s.patience.String() }
func (s *silence) Unwrap() error { return s.cause }

// Timeout makes silence a net.Error, so that it is not taken for a dead connection.
func (s *silence) Timeout() bool { return true }

// Temporary completes net.Error.
func (s *silence) Temporary() bool { return false }
