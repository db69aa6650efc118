package master

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/metrics"
	"mooncake/wire"
)

// objectsServer implements mooncake.v1.Objects.
type objectsServer struct {
	mooncakev1.UnimplementedObjectsServer
	g *grpcServer
}

// Start implements the call.
func (o objectsServer) Start(ctx context.Context, q *mooncakev1.StartRequest) (*mooncakev1.StartReply, error) {
	objects := q.GetObjects()
	if err := few("objects", len(objects)); err != nil {
		return nil, err
	}
	client, err := writerIn(q.GetClient())
	if err != nil {
		return nil, err
	}
	keys, sizes := make([]string, len(objects)), make([]uint64, len(objects))
	for i, x := range objects {
		keys[i], sizes[i] = x.GetKey(), x.GetSize()
	}
	reply := &mooncakev1.StartReply{Results: make([]*mooncakev1.StartResult, len(keys))}
	err = o.g.decide(ctx, wire.CallBatchPutStart, func(s *Service, p *peerConn) error {
		start := catalog.Turn.PutStart
		if q.GetUpsert() {
			start = catalog.Turn.UpsertStart
		}
		for i, r := range s.startBatch(p, s.clock.Now(), nil, new(bag), start, client, keys, sizes, q.GetTenant(), policyIn(q.GetPolicy(), len(keys))) {
			reply.Results[i] = &mooncakev1.StartResult{Outcome: outcomeOut(r.Err), Placements: placementsOut(r.Value)}
		}
		return nil
	})
	return reply, err
}

// End implements the call.
func (o objectsServer) End(ctx context.Context, q *mooncakev1.EndRequest) (*mooncakev1.EndReply, error) {
	reply := &mooncakev1.EndReply{}
	err := o.g.onKeys(ctx, wire.CallBatchPutEnd, q.GetClient(), q.GetKeys(), func(s *Service, p *peerConn, client wire.UUID) {
		s.families.bind(p, client)
		end := catalog.Turn.PutEnd
		if q.GetUpsert() {
			end = catalog.Turn.UpsertEnd
		}
		reply.Outcomes = s.endPlain(end, client, q.GetKeys(), q.GetTenant())
	})
	return reply, err
}

// endPlain ends writes of callers that write no files.
func (s *Service) endPlain(end endFunc, client wire.UUID, keys []string, tenant string) []*mooncakev1.Outcome {
	objects := make([]wire.ObjectMeta, len(keys))
	for i, key := range keys {
		objects[i].Key = key
	}
	if s.cfg.RootFSDir != "" {
		s.revokeBatch(s.cat.PutRevoke, client, keys, wire.ReplicaTypeDisk, tenant)
	}
	out := make([]*mooncakev1.Outcome, len(keys))
	for i, r := range s.endBatch(s.clock.Now(), nil, new(bag), end, client, objects, wire.ReplicaTypeMemory, tenant) {
		out[i] = outcomeOut(r.Err)
	}
	return out
}

// Revoke implements the call.
func (o objectsServer) Revoke(ctx context.Context, q *mooncakev1.RevokeRequest) (*mooncakev1.RevokeReply, error) {
	reply := &mooncakev1.RevokeReply{}
	err := o.g.onKeys(ctx, wire.CallBatchPutRevoke, q.GetClient(), q.GetKeys(), func(s *Service, p *peerConn, client wire.UUID) {
		s.families.bind(p, client)
		revoke := s.cat.PutRevoke
		if q.GetUpsert() {
			revoke = s.cat.UpsertRevoke
		}
		for _, r := range s.revokeBatch(revoke, client, q.GetKeys(), wire.ReplicaTypeAll, q.GetTenant()) {
			reply.Outcomes = append(reply.Outcomes, outcomeOut(r.Err))
		}
	})
	return reply, err
}

// onKeys is decide for a writer's call about keys.
func (g *grpcServer) onKeys(ctx context.Context, id wire.CallID, writer *mooncakev1.Uuid, keys []string, do func(s *Service, p *peerConn, client wire.UUID)) error {
	if err := few("keys", len(keys)); err != nil {
		return err
	}
	client, err := writerIn(writer)
	if err != nil {
		return err
	}
	return g.decide(ctx, id, func(s *Service, p *peerConn) error {
		do(s, p, client)
		return nil
	})
}

// Placements implements the call.
func (o objectsServer) Placements(ctx context.Context, q *mooncakev1.PlacementsRequest) (*mooncakev1.PlacementsReply, error) {
	if err := few("keys", len(q.GetKeys())); err != nil {
		return nil, err
	}
	reply := &mooncakev1.PlacementsReply{Results: make([]*mooncakev1.PlacementsResult, len(q.GetKeys()))}
	err := o.g.decide(ctx, wire.CallBatchGetReplicaList, func(s *Service, p *peerConn) error {
		failed := 0
		for i, key := range q.GetKeys() {
			if q.GetPeek() {
				reply.Results[i] = s.peek(q.GetTenant(), key)
				continue
			}
			reply.Results[i] = s.placements(p, q.GetTenant(), key)
			if reply.Results[i].GetOutcome().GetCode() != 0 {
				failed++
			}
		}
		if !q.GetPeek() {
			s.countBatch(wire.BatchGetReplicaList.ID, len(q.GetKeys()), failed)
		}
		return nil
	})
	return reply, err
}

// placements looks one object up, as a published client does.
func (s *Service) placements(p *peerConn, tenant, key string) *mooncakev1.PlacementsResult {
	var r wire.Exp[wire.GetReplicaListResponse, wire.ErrorCode]
	var looked metrics.Lookups
	s.get(p, s.clock.Now(), tenant, key, &r, nil, &looked)
	s.calls.CountLookups(&looked)
	out := &mooncakev1.PlacementsResult{Outcome: outcomeOut(r.Err)}
	if r.Err == 0 {
		out.Placements, out.LeaseMs = placementsOut(r.Value.Replicas), r.Value.LeaseTTLMs
		out.Size = sizeOf(out.Placements)
		if s.integrity.on && len(out.Placements) > 0 {
			out.Crc32C = s.sumOf(tenant, key, out.Placements[0].GetReplicaId())
		}
	}
	return out
}

// peek looks one object up for people.
func (s *Service) peek(tenant, key string) *mooncakev1.PlacementsResult {
	kept, code := s.keyOf(tenant, key)
	out := &mooncakev1.PlacementsResult{}
	if code == 0 {
		object, replicas, err := s.cat.Peek(kept, nil)
		if code = codeOf(err); code == 0 {
			out.Placements, out.Size = placementsOut(s.replicasOut(kept, nil, replicas)), object.Size
			if s.integrity.on && object.HasSum {
				out.Crc32C = &object.Sum
			}
		}
	}
	out.Outcome = outcomeOut(code)
	return out
}

// sumOf gives the sum of an object as long as it has the copy that was handed out.
func (s *Service) sumOf(tenant, key string, replica uint64) *uint32 {
	if kept, code := s.keyOf(tenant, key); code == 0 {
		if sum, ok := s.cat.SumOf(kept, replica); ok {
			return &sum
		}
	}
	return nil
}

func sizeOf(list []*mooncakev1.Placement) uint64 {
	for _, p := range list {
		switch v := p.GetPlace().(type) {
		case *mooncakev1.Placement_Memory:
			return v.Memory.GetSize()
		case *mooncakev1.Placement_File:
			return v.File.GetSize()
		case *mooncakev1.Placement_Disk:
			return v.Disk.GetSize()
		}
	}
	return 0
}

// Exists implements the call.
func (o objectsServer) Exists(ctx context.Context, q *mooncakev1.ExistsRequest) (*mooncakev1.ExistsReply, error) {
	if err := few("keys", len(q.GetKeys())); err != nil {
		return nil, err
	}
	reply := &mooncakev1.ExistsReply{Exists: make([]bool, len(q.GetKeys()))}
	err := o.g.decide(ctx, wire.CallBatchExistKey, func(s *Service, _ *peerConn) error {
		now := s.clock.Now()
		for i, key := range q.GetKeys() {
			reply.Exists[i], _ = s.exist(now, q.GetTenant(), key)
		}
		s.countBatch(wire.BatchExistKey.ID, len(reply.Exists), 0)
		return nil
	})
	return reply, err
}

// Remove implements the call.
func (o objectsServer) Remove(ctx context.Context, q *mooncakev1.RemoveRequest) (*mooncakev1.RemoveReply, error) {
	if err := few("keys", len(q.GetKeys())); err != nil {
		return nil, err
	}
	reply := &mooncakev1.RemoveReply{}
	err := o.g.decide(ctx, wire.CallBatchRemove, func(s *Service, _ *peerConn) error {
		for _, key := range q.GetKeys() {
			code := s.remove(q.GetTenant(), key, q.GetForce())
			s.count(wire.Remove.ID, code != 0)
			reply.Outcomes = append(reply.Outcomes, outcomeOut(code))
		}
		return nil
	})
	return reply, err
}

// List implements the call. Every page looks at all keys: the catalog keeps them in no order.
func (o objectsServer) List(ctx context.Context, q *mooncakev1.ListRequest) (*mooncakev1.ListReply, error) {
	most, err := pageSize(q.GetPageSize())
	if err != nil {
		return nil, err
	}
	reply := &mooncakev1.ListReply{}
	err = o.g.decide(ctx, wire.CallGetReplicaListByRegex, func(s *Service, _ *peerConn) error {
		prefix, after := q.GetPrefix(), q.GetPageToken()
		match, code := s.among(q.GetTenant(), func(plain string) bool { return strings.HasPrefix(plain, prefix) && plain > after })
		if code != 0 {
			return status.Errorf(codes.InvalidArgument, "no tenant can be called %.60q", q.GetTenant())
		}
		page := smallest{most: most + 1}
		for key := range s.cat.Keys {
			if match(key) {
				_, plain := s.plainKey(key)
				page.add(plain)
			}
		}
		keys := page.list
		if len(keys) > most {
			keys = keys[:most]
			reply.NextPageToken = keys[most-1]
		}
		for _, key := range keys {
			if r := s.peek(q.GetTenant(), key); r.GetOutcome().GetCode() == 0 { // it may be gone by now
				reply.Objects = append(reply.Objects, &mooncakev1.ListedObject{Key: key, Size: r.GetSize(), Copies: uint32(len(r.GetPlacements()))})
			}
		}
		return nil
	})
	return reply, err
}

// pageSize reads the size of a page.
func pageSize(asked uint32) (int, error) {
	switch {
	case asked == 0:
		return limits.GRPCPage, nil
	case asked > limits.GRPCPageMax:
		return 0, status.Errorf(codes.InvalidArgument, "page_size=%d is above %d", asked, limits.GRPCPageMax)
	}
	return int(asked), nil
}

// smallest keeps the first so many of the texts it is given, in order.
type smallest struct {
	most int
	list []string
}

func (s *smallest) add(text string) {
	if len(s.list) == s.most && text >= s.list[len(s.list)-1] {
		return
	}
	at, _ := slices.BinarySearch(s.list, text)
	if len(s.list) == s.most {
		s.list = s.list[:s.most-1]
	}
	s.list = slices.Insert(s.list, at, text)
}

// Watch implements the call.
func (o objectsServer) Watch(q *mooncakev1.WatchRequest, out grpc.ServerStreamingServer[mooncakev1.WatchReply]) error {
	return o.g.watch(out.Context(), q.GetTenant(), func(*Service) {}, func() error { return out.Send(&mooncakev1.WatchReply{}) }, func(seen []watchedKey) error {
		reply := &mooncakev1.WatchReply{}
		for _, x := range seen {
			if strings.HasPrefix(x.key, q.GetPrefix()) {
				reply.Events = append(reply.Events, &mooncakev1.ObjectEvent{Key: x.key, Gone: x.gone, Disk: x.disk})
			}
		}
		if len(reply.Events) == 0 {
			return nil
		}
		return out.Send(reply)
	})
}
