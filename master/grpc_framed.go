package master

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"mooncake/api/framed"
	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/limits"
	"mooncake/wire/rpc"
)

// framedServer answers calls of api/framed: by the handlers of gRPC, behind the same doors, with the same record of the
// connection. A connection of it has shown no token and has no metadata.
type framedServer struct {
	g     *grpcServer
	ctx   context.Context
	waits bool // replies may wait for a log: the calls of a connection must not wait for each other's
	calls map[string]framedCall

	running sync.WaitGroup // calls that do not run on their connection's goroutine
}

// framedCall is a handler of gRPC with what it belongs to.
type framedCall struct {
	service any
	handler grpc.MethodHandler
}

func newFramedServer(ctx context.Context, g *grpcServer, waits bool) *framedServer {
	f := &framedServer{g: g, ctx: ctx, waits: waits, calls: map[string]framedCall{}}
	add := func(desc grpc.ServiceDesc, service any) {
		for _, m := range desc.Methods {
			f.calls["/"+desc.ServiceName+"/"+m.MethodName] = framedCall{service, m.Handler}
		}
	}
	add(mooncakev1.Objects_ServiceDesc, objectsServer{g: g})
	add(mooncakev1.Bundles_ServiceDesc, bundlesServer{g: g})
	add(mooncakev1.Segments_ServiceDesc, segmentsServer{g: g})
	return f
}

// serve answers on connections of a listener until its context ends.
func (f *framedServer) serve(ln net.Listener) error {
	srv := rpc.NewServer(rpc.ServerConfig{
		FrameBytesMax: limits.GRPCMessageBytes, ConnsMax: limits.GRPCConnections, PendingBytesMax: limits.FramedPendingBytes,
	}, f)
	err := srv.Serve(f.ctx, ln)
	f.running.Wait()
	if err != nil {
		return fmt.Errorf("serve frames on the gRPC port: %w", err)
	}
	return nil
}

// framedConn is the tag of a connection.
type framedConn struct {
	*grpcConn
	ctx context.Context
}

// Opened implements rpc.Handler.
func (f *framedServer) Opened(c *rpc.Conn) {
	conn := &grpcConn{peer: c.RemoteAddr().Addr()}
	ctx := context.WithValue(f.ctx, grpcConnKey{}, conn)
	c.Tag = framedConn{conn, grpcpeer.NewContext(ctx, &grpcpeer.Peer{Addr: net.TCPAddrFromAddrPort(c.RemoteAddr())})}
}

// Closed implements rpc.Handler.
func (f *framedServer) Closed(c *rpc.Conn) { c.Tag.(framedConn).end(f.g.source, leftByPeer(c.Cause())) }

// Serve implements rpc.Handler.
func (f *framedServer) Serve(c *rpc.Conn, r rpc.Request, dst []byte) (body []byte, code uint8, parked bool) {
	ctx := c.Tag.(framedConn).ctx
	switch {
	case r.FunctionID == framed.Hello:
		return append(dst, framed.Message, framed.Version), rpc.CodeOK, false
	case !f.waits && len(r.Body) <= limits.FramedAtOnceBytes:
		return f.answer(ctx, r.FunctionID, r.Body, dst), rpc.CodeOK, false
	}
	asked := bytes.Clone(r.Body)
	f.running.Go(func() {
		_ = c.Reply(r.Seq, rpc.CodeOK, f.answer(ctx, r.FunctionID, asked, nil)) // an error: the caller has gone
	})
	return dst, rpc.CodeOK, true
}

// answer makes one call and appends its answer.
func (f *framedServer) answer(ctx context.Context, number uint32, asked, dst []byte) []byte {
	method := framed.Method(number)
	call, known := f.calls[method]
	if !known {
		return appendStatus(dst, status.Errorf(codes.Unimplemented, "no call has the number %#x here", number))
	}
	reply, err := call.handler(call.service, ctx, func(q any) error {
		if err := proto.Unmarshal(asked, q.(proto.Message)); err != nil {
			return status.Errorf(codes.Internal, "the request of %s cannot be read: %v", method, err)
		}
		return nil
	}, f.g.admitUnary)
	if err != nil {
		return appendStatus(dst, err)
	}
	at := len(dst)
	dst, err = proto.MarshalOptions{}.MarshalAppend(append(dst, framed.Message), reply.(proto.Message))
	switch {
	case err != nil:
		return appendStatus(dst[:at], status.Error(codes.Internal, err.Error()))
	case len(dst)-at > limits.GRPCMessageBytes:
		return appendStatus(dst[:at], status.Errorf(codes.ResourceExhausted, "the answer has %d bytes, at most %d", len(dst)-at, limits.GRPCMessageBytes))
	}
	return dst
}

func appendStatus(dst []byte, err error) []byte {
	st := status.Convert(err).Proto()
	st.Message = strings.ToValidUTF8(st.GetMessage(), "?")
	out, err := proto.MarshalOptions{}.MarshalAppend(append(dst, framed.Status), st)
	if err != nil { // what is behind the text cannot be sent
		out, _ = proto.MarshalOptions{}.MarshalAppend(append(dst, framed.Status), status.New(codes.Internal, st.Message).Proto())
	}
	return out
}

// logs tells whether answers may have to wait for a log.
func (c *Config) logs() bool { return c.DataDir != "" || c.HA }
