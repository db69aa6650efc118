package etcdfake

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// upkeep serves what operators ask for.
type upkeep struct {
	pb.UnimplementedMaintenanceServer
	s *Server
}

// fill is how full the fake says that it is.
type fill struct {
	bytes, inUse, quota int64
	full                bool
}

// Fill lets the fake say how large its database is.
func (s *Server) Fill(bytes, inUse, quota int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fill.bytes, s.fill.inUse, s.fill.quota = bytes, inUse, quota
}

// Full raises or disarms the alarm of a full database: transactions that put something, and grants of leases, are refused
// meanwhile.
func (s *Server) Full(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fill.full = full
}

// Number lets the fake be a member of a number in an etcd that another leads, or it itself.
func (s *Server) Number(own, leader uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number, s.leader = own, leader
}

var errFull = status.Error(codes.ResourceExhausted, "etcdserver: mvcc: database space exceeded")

// refuses tells whether steps need room that is not there. The caller holds the lock.
func (s *Server) refuses(steps []*pb.RequestOp) bool {
	for _, op := range steps {
		if s.fill.full && op.GetRequestPut() != nil {
			return true
		}
	}
	return false
}

// Status serves what etcdctl shows.
func (u upkeep) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	if err := u.s.enter(ctx); err != nil {
		return nil, err
	}
	defer u.s.mu.Unlock()
	f := &u.s.fill
	r := &pb.StatusResponse{Header: u.s.header(), Leader: u.s.leader, DbSize: f.bytes, DbSizeInUse: f.inUse, DbSizeQuota: f.quota}
	if f.full {
		r.Errors = append(r.Errors, "memberID:1 alarm:NOSPACE ")
	}
	return r, nil
}
