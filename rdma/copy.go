package rdma

import (
	"context"
	"errors"

	"mooncake/descriptor"
)

// Target is a process whose memory is copied from or to.
type Target struct {
	// Self is what nic paths call our own process: its server name.
	Self string
	// Segment is the target's descriptor, of protocol rdma.
	Segment *descriptor.Segment
	// Handshake carries a request to connect queue pairs to the target and returns its answer.
	Handshake func(ctx context.Context, req *descriptor.Connection) (*descriptor.Connection, error)
}

// ErrUnreachable is the cause when no path to a target could do a copy: the caller takes another transport.
var ErrUnreachable = errors.New("not reachable by RDMA")

// Read copies from the target's memory at addr into buf. After an error nothing is written to buf any more.
func (f *Fabric) Read(ctx context.Context, peer Target, addr uint64, buf []byte) error {
	return ErrUnreachable
}

// Write copies buf into the target's memory at addr. After an error buf is not read any more.
func (f *Fabric) Write(ctx context.Context, peer Target, addr uint64, buf []byte) error {
	return ErrUnreachable
}
