package calls

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"mooncake/bench/blocking"
	"mooncake/internal/limits"
	"mooncake/wire"
	"mooncake/wire/rpc"
)

// dialect is the layout of all calls: that of 0.3.13, which 0.3.14 understands.
const dialect = wire.V13

// conn is one connection, used by one goroutine. It writes a request in one piece and reads through a buffer.
type conn struct {
	net     io.ReadWriteCloser
	in      *bufio.Reader
	request []byte
	body    []byte
	seq     uint32
	stop    func() bool
}

// dial connects; the end of the context ends whatever the connection waits for.
func dial(ctx context.Context, address string) (*conn, error) {
	dialer := net.Dialer{Timeout: limits.BenchAnswerMs * time.Millisecond}
	nc, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &conn{net: nc, in: bufio.NewReaderSize(nc, limits.BenchReadBytes)}
	c.stop = context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	return c, nil
}

// block lets the calls of a connection wait inside the kernel.
func (c *conn) block(ctx context.Context) error {
	b, err := blocking.New(ctx, c.net.(*net.TCPConn))
	if err != nil {
		return err
	}
	c.stop() // of a deadline that has no meaning any more
	c.net, c.in = b, bufio.NewReaderSize(b, limits.BenchReadBytes)
	return nil
}

func (c *conn) close() {
	c.stop()
	_ = c.net.Close() // nothing is under way
}

// send writes one request.
func send[Req, Rep any](c *conn, call *wire.Call[Req, Rep], req *Req) error {
	c.request = rpc.AppendRequestHeader(c.request[:0], c.seq, call.ID.FunctionID(), 0)
	head := len(c.request)
	c.request = call.AppendRequest(c.request, dialect, req)
	binary.LittleEndian.PutUint32(c.request[12:], uint32(len(c.request)-head))
	c.seq++
	_, err := c.net.Write(c.request)
	return err
}

// receive reads one reply. Its body is valid until the next one.
func (c *conn) receive() ([]byte, error) {
	head, err := c.in.Peek(rpc.ReplyHeaderBytes)
	if err != nil {
		return nil, err
	}
	code, length := head[2], int64(binary.LittleEndian.Uint32(head[8:]))+int64(binary.LittleEndian.Uint32(head[12:]))
	if length > limits.RPCReplyFrameBytes {
		return nil, fmt.Errorf("a reply of %d bytes, at most %d are taken", length, limits.RPCReplyFrameBytes)
	}
	if _, err := c.in.Discard(rpc.ReplyHeaderBytes); err != nil {
		return nil, err
	}
	if int64(cap(c.body)) < length {
		c.body = make([]byte, length+length/2)
	}
	body := c.body[:length]
	if _, err := io.ReadFull(c.in, body); err != nil {
		return nil, err
	}
	if code != rpc.CodeOK {
		return nil, fmt.Errorf("the master refused the call: code %d, %s", code, rpc.ErrorText(body))
	}
	return body, nil
}

// exchange makes one call and leaves its reply undecoded.
func exchange[Req, Rep any](c *conn, call *wire.Call[Req, Rep], req *Req) ([]byte, error) {
	if err := send(c, call, req); err != nil {
		return nil, fmt.Errorf("%s: %w", call.ID.Name(), err)
	}
	body, err := c.receive()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", call.ID.Name(), err)
	}
	return body, nil
}

// ask makes one call and decodes its reply.
func ask[Req, Rep any](c *conn, call *wire.Call[Req, Rep], req *Req, rep *Rep) error {
	body, err := exchange(c, call, req)
	if err != nil {
		return err
	}
	if err := call.DecodeReply(body, dialect, rep); err != nil {
		return fmt.Errorf("%s: %w", call.ID.Name(), err)
	}
	return nil
}
