// Package etcdfake is a key-value server that speaks etcd's protocol from inside a test: keys with revisions, ranges,
// transactions that compare create revisions, leases, watches and compaction, all in memory. Leases end when the test says
// so. Behaviour of several members needs the real binary.
//
//	fake, err := etcdfake.Start()
//	defer fake.Stop()
//	client, err := etcdkv.Open([]string{fake.Address()}, etcdkv.Access{})
package etcdfake

import (
	"context"
	"net"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Server is one running fake.
type Server struct {
	pb.UnimplementedKVServer
	pb.UnimplementedWatchServer
	pb.UnimplementedLeaseServer
	grpc  *grpc.Server
	guard *guard
	ln    net.Listener
	done  sync.WaitGroup

	mu     sync.Mutex
	store  store
	fill   fill
	number uint64        // of this member in etcd
	leader uint64        // the number of etcd's leader
	leases int           // puts that named a lease
	lose   int           // answers to transactions that get lost
	frozen chan struct{} // closed when calls go on; nil when they do
	delay  time.Duration // that a transaction takes
	moved  chan struct{} // closed, and made anew, with every revision
}

// Start listens on a free port of the loopback interface.
func Start() (*Server, error) { return StartGuarded(Options{}) }

// StartGuarded is Start for a server that asks who calls.
func StartGuarded(o Options) (*Server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := newGuard(o)
	s := &Server{grpc: grpc.NewServer(g.options(o)...), guard: g, ln: ln, store: newStore(), moved: make(chan struct{})}
	pb.RegisterAuthServer(s.grpc, g)
	pb.RegisterKVServer(s.grpc, s)
	pb.RegisterWatchServer(s.grpc, s)
	pb.RegisterLeaseServer(s.grpc, s)
	pb.RegisterMaintenanceServer(s.grpc, upkeep{s: s})
	s.done.Go(func() { _ = s.grpc.Serve(ln) })
	return s, nil
}

// Stop ends the server and waits for its goroutines.
func (s *Server) Stop() {
	s.Thaw()
	s.grpc.Stop()
	s.done.Wait()
}

// Address is the endpoint to open.
func (s *Server) Address() string { return s.ln.Addr().String() }

// Value returns what is stored under a key.
func (s *Server) Value(key string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kv := s.store.keys[key]
	if kv == nil {
		return "", false
	}
	return string(kv.Value), true
}

// Keys lists the keys with a prefix, in order.
func (s *Server) Keys(prefix string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.between(prefix, prefix+"\xff")
}

// Set stores a value, as another client would.
func (s *Server) Set(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.begin()
	s.store.put(key, []byte(value), 0)
	s.commit()
}

// Drop deletes a key, as another client would.
func (s *Server) Drop(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.begin()
	s.store.drop(key)
	s.commit()
}

// Leases is the number of puts that named a lease.
func (s *Server) Leases() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases
}

// Expire ends all leases, and their keys with them.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.store.leases {
		s.endLease(id)
	}
}

// Lose lets the next transactions take effect without an answer.
func (s *Server) Lose(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = n
}

// Delay lets every transaction take so long, as the disks of several members do.
func (s *Server) Delay(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

// take waits as long as a transaction takes.
func (s *Server) take(ctx context.Context) error {
	s.mu.Lock()
	delay := s.delay
	s.mu.Unlock()
	if delay == 0 {
		return nil
	}
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// Freeze lets every call hang until Thaw.
func (s *Server) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen == nil {
		s.frozen = make(chan struct{})
	}
}

// Thaw ends Freeze.
func (s *Server) Thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen != nil {
		close(s.frozen)
		s.frozen = nil
	}
}

// enter waits until calls go on, and takes the lock.
func (s *Server) enter(ctx context.Context) error {
	for {
		s.mu.Lock()
		frozen := s.frozen
		if frozen == nil {
			return nil
		}
		s.mu.Unlock()
		select {
		case <-frozen:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// commit ends a change and wakes the watches. The caller holds the lock.
func (s *Server) commit() {
	if s.store.end() {
		close(s.moved)
		s.moved = make(chan struct{})
	}
}

func (s *Server) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{Revision: s.store.revision, MemberId: s.number}
}

// Range serves a get.
func (s *Server) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.ranged(r)
}

// Put serves a put.
func (s *Server) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	s.store.begin()
	s.putOne(r)
	s.commit()
	return &pb.PutResponse{Header: s.header()}, nil
}

// DeleteRange serves a delete.
func (s *Server) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	s.store.begin()
	n := s.deleted(r)
	s.commit()
	return &pb.DeleteRangeResponse{Header: s.header(), Deleted: n}, nil
}

// Txn serves a transaction that compares create revisions.
func (s *Server) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	answer := &pb.TxnResponse{Succeeded: true}
	for _, c := range r.Compare {
		var created int64
		if kv := s.store.keys[string(c.Key)]; kv != nil {
			created = kv.CreateRevision
		}
		if c.Target != pb.Compare_CREATE || c.Result != pb.Compare_EQUAL {
			return nil, status.Error(codes.Unimplemented, "only create revisions are compared")
		}
		answer.Succeeded = answer.Succeeded && created == c.GetCreateRevision()
	}
	ops := r.Success
	if !answer.Succeeded {
		ops = r.Failure
	}
	if s.refuses(ops) {
		return nil, errFull
	}
	s.store.begin()
	for _, op := range ops {
		one := &pb.ResponseOp{}
		switch {
		case op.GetRequestPut() != nil:
			if id := op.GetRequestPut().Lease; id != 0 && s.store.leases[id] == nil {
				return nil, status.Error(codes.NotFound, "etcdserver: requested lease not found")
			}
			s.putOne(op.GetRequestPut())
			one.Response = &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}
		case op.GetRequestDeleteRange() != nil:
			s.deleted(op.GetRequestDeleteRange())
			one.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{}}
		default:
			found, err := s.ranged(op.GetRequestRange())
			if err != nil {
				return nil, err
			}
			one.Response = &pb.ResponseOp_ResponseRange{ResponseRange: found}
		}
		answer.Responses = append(answer.Responses, one)
	}
	s.commit()
	answer.Header = s.header()
	if s.lose > 0 {
		s.lose--
		return nil, status.Error(codes.Unavailable, "the answer got lost")
	}
	return answer, nil
}

// Compact serves a compaction.
func (s *Server) Compact(ctx context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	s.store.compact(r.Revision)
	return &pb.CompactionResponse{Header: s.header()}, nil
}
