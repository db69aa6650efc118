package descriptor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"mooncake/internal/hostport"
	"mooncake/internal/limits"
)

// Client asks other processes on their handshake ports. The zero value works.
type Client struct {
	// Self is the own descriptor that goes along with FrameMetadata; a holder with several protocols answers for the one
	// it names. Nil sends an empty object, which every holder takes as tcp.
	Self func() *Segment
	// Connect bounds the connection attempt. 0 means limits.HandshakeConnectMs.
	Connect time.Duration
	// Reply bounds sending the request and receiving the answer. 0 means limits.HandshakeReplyMs.
	Reply time.Duration
	// FrameBytesMax bounds the answer. 0 means limits.HandshakeFrameBytes.
	FrameBytesMax int
}

// Fetch asks the process at the endpoint for its descriptor, as a client with no protocol of its own.
func Fetch(ctx context.Context, endpoint string) (*Segment, error) {
	var c Client
	return c.Fetch(ctx, endpoint)
}

// Probe asks whether a process answers at the endpoint.
func Probe(ctx context.Context, endpoint string) error {
	var c Client
	return c.Probe(ctx, endpoint)
}

// Fetch asks the process at the endpoint (host:port of its handshake port) for its descriptor.
func (c *Client) Fetch(ctx context.Context, endpoint string) (*Segment, error) {
	self := []byte("{}\n")
	if c.Self != nil {
		self = c.Self().Encode()
	}
	text, err := c.ask(ctx, endpoint, Frame{Type: FrameMetadata, Text: self})
	if err != nil {
		return nil, fmt.Errorf("descriptor of %s: %w", endpoint, err)
	}
	segment, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("descriptor of %s: %w", endpoint, err)
	}
	return segment, nil
}

// Probe asks whether the process at the endpoint is there.
func (c *Client) Probe(ctx context.Context, endpoint string) error {
	text, err := c.ask(ctx, endpoint, Frame{Type: FrameProbe, Text: []byte("{}\n")})
	if err != nil {
		return fmt.Errorf("probe of %s: %w", endpoint, err)
	}
	var answer probeAnswer
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("probe of %s: %w", endpoint, err)
	}
	if answer.Status != success {
		return fmt.Errorf("probe of %s: status %q", endpoint, answer.Status)
	}
	return nil
}

// Handshake carries a request to connect queue pairs to the process at the endpoint, and returns its answer. A refusal in
// the answer (ReplyMsg) is the caller's to read: it may say with which number of queue pairs to come again.
func (c *Client) Handshake(ctx context.Context, endpoint string, request *Connection) (*Connection, error) {
	text, err := c.ask(ctx, endpoint, Frame{Type: FrameConnection, Text: request.Encode()})
	if err != nil {
		return nil, fmt.Errorf("connection to %s: %w", endpoint, err)
	}
	answer, err := ParseConnection(text)
	if err != nil {
		return nil, fmt.Errorf("answer of %s: %w", endpoint, err)
	}
	return answer, nil
}

// ask carries one request to the endpoint and returns the text of the answer.
func (c *Client) ask(ctx context.Context, endpoint string, request Frame) ([]byte, error) {
	host, port, err := hostport.Parse(endpoint, limits.HandshakePortDefault)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: cmp.Or(c.Connect, limits.HandshakeConnectMs*time.Millisecond)}
	conn, err := dialer.DialContext(ctx, "tcp", hostport.Join(host, port))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	deadline := time.Now().Add(cmp.Or(c.Reply, limits.HandshakeReplyMs*time.Millisecond))
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	unhook := context.AfterFunc(ctx, func() { conn.Close() })
	defer unhook()

	answer, err := exchange(conn, request, cmp.Or(c.FrameBytesMax, limits.HandshakeFrameBytes))
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err() // the closed connection is only how the end of the context showed
		}
		return nil, err
	}
	if answer.Bare || answer.Type != request.Type {
		return nil, fmt.Errorf("answer of type %d to a request of type %d", answer.Type, request.Type)
	}
	return answer.Text, nil
}

func exchange(conn net.Conn, request Frame, frameBytesMax int) (Frame, error) {
	if _, err := conn.Write(AppendFrame(nil, request)); err != nil {
		return Frame{}, err
	}
	return ReadFrame(conn, frameBytesMax)
}
