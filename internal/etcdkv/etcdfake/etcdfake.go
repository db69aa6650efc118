// Package etcdfake is a key-value server that speaks etcd's protocol from inside a test: get, put and delete of single
// keys in memory, nothing else. Tests that need leases, watches or elections use the real binary.
//
//	fake, err := etcdfake.Start()
//	defer fake.Stop()
//	client, err := etcdkv.Open([]string{fake.Address()})
package etcdfake

import (
	"context"
	"net"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
)

// Server is one running fake.
type Server struct {
	pb.UnimplementedKVServer
	grpc *grpc.Server
	ln   net.Listener
	done sync.WaitGroup

	mu     sync.Mutex
	values map[string][]byte
	leases int // puts that named a lease
}

// Start listens on a free port of the loopback interface.
func Start() (*Server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{grpc: grpc.NewServer(), ln: ln, values: map[string][]byte{}}
	pb.RegisterKVServer(s.grpc, s)
	s.done.Go(func() { _ = s.grpc.Serve(ln) })
	return s, nil
}

// Stop ends the server and waits for its goroutines.
func (s *Server) Stop() {
	s.grpc.Stop()
	s.done.Wait()
}

// Address is the endpoint to open.
func (s *Server) Address() string { return s.ln.Addr().String() }

// Value returns what is stored under a key.
func (s *Server) Value(key string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, found := s.values[key]
	return string(value), found
}

// Leases is the number of puts that named a lease.
func (s *Server) Leases() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases
}

// Range serves a get of one key.
func (s *Server) Range(_ context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := &pb.RangeResponse{Header: &pb.ResponseHeader{}}
	if value, found := s.values[string(r.Key)]; found {
		answer.Kvs = []*mvccpb.KeyValue{{Key: r.Key, Value: value}}
		answer.Count = 1
	}
	return answer, nil
}

// Put serves a put.
func (s *Server) Put(_ context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[string(r.Key)] = r.Value
	if r.Lease != 0 {
		s.leases++
	}
	return &pb.PutResponse{Header: &pb.ResponseHeader{}}, nil
}

// DeleteRange serves a delete of one key.
func (s *Server) DeleteRange(_ context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := &pb.DeleteRangeResponse{Header: &pb.ResponseHeader{}}
	if _, found := s.values[string(r.Key)]; found {
		delete(s.values, string(r.Key))
		answer.Deleted = 1
	}
	return answer, nil
}
