package etcdfake

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// watching is one watch of a stream.
type watching struct {
	id        int64
	from, end string
	next      int64 // revision
}

// Watch serves a stream of watches.
func (s *Server) Watch(stream pb.Watch_WatchServer) error {
	requests := make(chan *pb.WatchRequest)
	ended := make(chan error, 1)
	s.done.Go(func() {
		for {
			r, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case requests <- r:
			case <-stream.Context().Done():
			}
		}
	})
	var all []*watching
	var lastID int64
	for {
		if err := s.enter(stream.Context()); err != nil {
			return err
		}
		moved := s.moved
		answers := s.due(&all)
		s.mu.Unlock()
		for _, a := range answers {
			if err := stream.Send(a); err != nil {
				return err
			}
		}
		select {
		case <-moved:
			continue
		case err := <-ended:
			return err
		case <-stream.Context().Done():
			return stream.Context().Err()
		case r := <-requests:
			if err := s.enter(stream.Context()); err != nil {
				return err
			}
			answer := &pb.WatchResponse{Header: s.header(), WatchId: -1}
			switch {
			case r.GetCreateRequest() != nil:
				c := r.GetCreateRequest()
				lastID++
				w := &watching{lastID, string(c.Key), string(c.RangeEnd), c.StartRevision}
				if w.next == 0 {
					w.next = s.store.revision + 1
				}
				all = append(all, w)
				answer.WatchId, answer.Created = w.id, true
			case r.GetCancelRequest() != nil:
				answer.WatchId, answer.Canceled = r.GetCancelRequest().WatchId, true
				for i, w := range all {
					if w.id == answer.WatchId {
						all = append(all[:i], all[i+1:]...)
						break
					}
				}
			}
			s.mu.Unlock()
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
	}
}

// due collects what the watches have not seen. The caller holds the lock.
func (s *Server) due(all *[]*watching) (answers []*pb.WatchResponse) {
	kept := (*all)[:0]
	for _, w := range *all {
		if w.next <= s.store.compacted {
			answers = append(answers, &pb.WatchResponse{Header: s.header(), WatchId: w.id, Canceled: true, CompactRevision: s.store.compacted + 1})
			continue
		}
		kept = append(kept, w)
		var events []*mvccpb.Event
		for _, e := range s.store.changes {
			if e.Kv.ModRevision >= w.next && within(string(e.Kv.Key), w.from, w.end) {
				events = append(events, e)
			}
		}
		w.next = max(w.next, s.store.revision+1)
		if len(events) > 0 {
			answers = append(answers, &pb.WatchResponse{Header: s.header(), WatchId: w.id, Events: events})
		}
	}
	*all = kept
	return answers
}

// LeaseGrant serves the making of a lease.
func (s *Server) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if s.fill.full {
		return nil, errFull
	}
	id := r.ID
	if id == 0 {
		s.store.lastLease++
		id = s.store.lastLease
	}
	s.store.leases[id] = map[string]bool{}
	return &pb.LeaseGrantResponse{Header: s.header(), ID: id, TTL: r.TTL}, nil
}

// LeaseRevoke serves the end of a lease.
func (s *Server) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if s.store.leases[r.ID] == nil {
		return nil, status.Error(codes.NotFound, "etcdserver: requested lease not found")
	}
	s.endLease(r.ID)
	return &pb.LeaseRevokeResponse{Header: s.header()}, nil
}

func (s *Server) endLease(id int64) {
	s.store.begin()
	for key := range s.store.leases[id] {
		s.store.drop(key)
	}
	delete(s.store.leases, id)
	s.commit()
}

// LeaseKeepAlive serves the renewal of leases.
func (s *Server) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := s.enter(stream.Context()); err != nil {
			return err
		}
		answer := &pb.LeaseKeepAliveResponse{Header: s.header(), ID: r.ID}
		if s.store.leases[r.ID] != nil {
			answer.TTL = 1
		}
		s.mu.Unlock()
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}
