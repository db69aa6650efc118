package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"mooncake/api/framed"
	"mooncake/internal/limits"
	"mooncake/wire/rpc"
)

// road is how one master is spoken to: by gRPC, and in frames on the same port for the calls that api/framed lists, as long as
// the master knows them. What comes back is the same either way.
type road struct {
	address string
	plain   *grpc.ClientConn // connects when it is used
	frames  *frames          // nil: never
	inFrame *atomic.Uint64   // counts calls in frames
}

// Invoke implements grpc.ClientConnInterface.
func (r *road) Invoke(ctx context.Context, method string, q, reply any, options ...grpc.CallOption) error {
	number, ok := framed.Number(method)
	if ok && r.frames != nil && len(options) <= 1 && !hasMetadata(ctx) && isShort(q) { // the one option says that method is a constant
		if conn := r.frames.open(ctx); conn != nil {
			r.inFrame.Add(1)
			return r.inFrames(ctx, conn, number, q.(proto.Message), reply.(proto.Message))
		}
	}
	return r.plain.Invoke(ctx, method, q, reply, options...)
}

// NewStream implements grpc.ClientConnInterface.
func (r *road) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	return r.plain.NewStream(ctx, desc, method, options...)
}

// isShort tells whether a call keeps nobody waiting who shares the connection, and whether its answer can be expected to fit beside
// others. gRPC divides the others, and knows what is too large.
func isShort(q any) bool { return proto.Size(q.(proto.Message)) <= limits.FramedAtOnceBytes }

// hasMetadata tells whether the caller sends along what frames have no place for.
func hasMetadata(ctx context.Context) bool {
	md, ok := metadata.FromOutgoingContext(ctx)
	return ok && len(md) > 0
}

func (r *road) inFrames(ctx context.Context, conn *rpc.Client, number uint32, q, reply proto.Message) error {
	asked, err := proto.Marshal(q)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	answer, err := callFrame(ctx, conn, number, asked)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(answer, reply); err != nil {
		return status.Errorf(codes.Internal, "the answer of master %s cannot be read: %v", r.address, err)
	}
	return nil
}

// callFrame makes one call; its errors are statuses, as those of gRPC are.
func callFrame(ctx context.Context, conn *rpc.Client, number uint32, asked []byte) ([]byte, error) {
	code, answer, err := conn.Call(ctx, number, asked)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, rpc.ErrFrameTooLarge):
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	case err != nil:
		return nil, status.Error(codes.Unavailable, err.Error())
	case code != rpc.CodeOK:
		return nil, status.Errorf(codes.Unavailable, "the master refuses a frame: %s (%d)", rpc.ErrorText(answer), code)
	case len(answer) == 0:
		return nil, status.Error(codes.Internal, "the answer has no bytes")
	case answer[0] == framed.Message:
		return answer[1:], nil
	}
	refused := status.New(codes.OK, "").Proto()
	if err := proto.Unmarshal(answer[1:], refused); err != nil || refused.GetCode() == int32(codes.OK) {
		return nil, status.Errorf(codes.Internal, "the refusal cannot be read: %v", err)
	}
	return nil, status.ErrorProto(refused)
}

// frames keeps one connection to a master. Calls that are under way at the same time share it.
type frames struct {
	address string

	mu       sync.Mutex
	conn     *rpc.Client
	opening  chan struct{} // closed when the attempt under way has ended
	notUntil time.Time     // when the next attempt may be made
	closed   bool
}

// open gives the connection, and makes it if there is none. nil: gRPC is to be used.
func (f *frames) open(ctx context.Context) *rpc.Client {
	for {
		f.mu.Lock()
		if f.conn != nil {
			if !f.conn.Ended() {
				defer f.mu.Unlock()
				return f.conn
			}
			_ = f.conn.Close() // it has ended already
			f.conn = nil
		}
		if f.closed || time.Now().Before(f.notUntil) {
			f.mu.Unlock()
			return nil
		}
		if other := f.opening; other != nil {
			f.mu.Unlock()
			select {
			case <-other:
				continue
			case <-ctx.Done():
				return nil // gRPC finds the same
			}
		}
		done := make(chan struct{})
		f.opening = done
		f.mu.Unlock()
		conn, err := greet(ctx, f.address)
		f.mu.Lock()
		f.opened(ctx, conn, err)
		conn = f.conn
		f.mu.Unlock()
		close(done)
		return conn
	}
}

// opened notes how an attempt ended.
func (f *frames) opened(ctx context.Context, conn *rpc.Client, err error) {
	f.opening = nil
	switch {
	case f.closed && conn != nil:
		_ = conn.Close() // nobody has used it
	case err == nil:
		f.conn = conn
	case ctx.Err() != nil: // it says nothing about the master
	case errors.Is(err, errNoFrames):
		f.notUntil = time.Now().Add(limits.ClientFramesAgainMs * time.Millisecond)
	default:
		f.notUntil = time.Now().Add(limits.ClientFramesSoonMs * time.Millisecond)
	}
}

func (f *frames) close() {
	f.mu.Lock()
	conn := f.conn
	f.conn, f.closed = nil, true
	f.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // it always succeeds
	}
}

// errNoFrames says that somebody is there who does not know frames.
var errNoFrames = errors.New("frames are not known there")

// greet connects, and asks whether frames are known.
func greet(ctx context.Context, address string) (*rpc.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.PeerDialMs*time.Millisecond)
	defer cancel()
	conn, err := rpc.Dial(ctx, address, rpc.ClientConfig{FrameBytesMax: limits.GRPCMessageBytes + limits.FramedAtOnceBytes})
	if err != nil {
		return nil, err
	}
	answer, err := callFrame(ctx, conn, framed.Hello, nil)
	if err == nil && (len(answer) < 1 || answer[0] < framed.Version) {
		err = errors.New("no version")
	}
	if err != nil {
		_ = conn.Close() // it always succeeds
		return nil, fmt.Errorf("%w: %w", errNoFrames, err)
	}
	return conn, nil
}
