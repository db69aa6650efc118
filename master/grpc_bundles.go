package master

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/bundle"
	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// bundlesServer implements mooncake.v1.Bundles.
type bundlesServer struct {
	mooncakev1.UnimplementedBundlesServer
	g *grpcServer
}

// bundleID refuses what is no id of a bundle.
func bundleID(id string) error {
	if prefix, part := bundle.Parse(id + "/manifest"); part != bundle.Manifest || prefix != id+"/" {
		return status.Errorf(codes.InvalidArgument, "%.200q is no id of a bundle: PREFIX/PARTITION/UUID, UUID being 32 lower hex digits", id)
	}
	return nil
}

// Begin implements the call.
func (b bundlesServer) Begin(ctx context.Context, q *mooncakev1.BeginRequest) (*mooncakev1.BeginReply, error) {
	members := q.GetMembers()
	if err := few("members", len(members)); err != nil {
		return nil, err
	}
	client, err := writerIn(q.GetClient())
	if err != nil {
		return nil, err
	}
	if err := bundleID(q.GetId()); err != nil {
		return nil, err
	}
	keys, sizes := make([]string, len(members)), make([]uint64, len(members))
	for i, m := range members {
		keys[i], sizes[i] = q.GetId()+"/"+m.GetName(), m.GetSize()
		if prefix, part := bundle.Parse(keys[i]); part == bundle.NoPart || prefix != q.GetId()+"/" {
			return nil, status.Errorf(codes.InvalidArgument, "members[%d]: %.200q is no name of a member", i, m.GetName())
		}
	}
	reply := &mooncakev1.BeginReply{Members: make([]*mooncakev1.MemberPlacements, len(members))}
	err = b.g.decide(ctx, wire.CallBatchPutStart, func(s *Service, p *peerConn) error {
		failed := failures{text: "nothing was reserved"}
		var begun []string
		for i, r := range s.startBatch(p, s.clock.Now(), nil, new(bag), catalog.Turn.PutStart, client, keys, sizes, q.GetTenant(), policyIn(q.GetPolicy(), len(keys))) {
			if r.Err != 0 {
				failed.add(keys[i], r.Err)
				continue
			}
			begun = append(begun, keys[i])
			reply.Members[i] = &mooncakev1.MemberPlacements{Name: members[i].GetName(), Placements: placementsOut(r.Value), Size: sizes[i]}
		}
		if failed.first == 0 {
			return nil
		}
		p.refused()
		if len(begun) > 0 {
			s.revokeBatch(s.cat.PutRevoke, client, begun, wire.ReplicaTypeAll, q.GetTenant())
		}
		return failed.status(failed.code())
	})
	return reply, err
}

// failures gathers what went wrong with members of a bundle.
type failures struct {
	text  string
	first wire.ErrorCode
	list  mooncakev1.FailedMembers
}

func (f *failures) add(key string, code wire.ErrorCode) {
	if f.first == 0 {
		f.first = code
		f.text = shortened(key) + ": " + code.String() + "; " + f.text
	}
	if len(f.list.Members) < limits.GRPCFailedMembers {
		f.list.Members = append(f.list.Members, &mooncakev1.FailedMember{Key: key, Outcome: outcomeOut(code)})
	}
}

// code is that of the first failure.
func (f *failures) code() codes.Code {
	for e, c := range wireCodes {
		if c == f.first {
			return codeFor(e)
		}
	}
	return codes.FailedPrecondition
}

func (f *failures) status(code codes.Code) error {
	st := status.New(code, f.text)
	if with, err := st.WithDetails(&f.list); err == nil {
		st = with
	}
	return st.Err()
}

// Commit implements the call.
func (b bundlesServer) Commit(ctx context.Context, q *mooncakev1.CommitRequest) (*mooncakev1.CommitReply, error) {
	client, err := writerIn(q.GetClient())
	if err != nil {
		return nil, err
	}
	reply := &mooncakev1.CommitReply{}
	err = b.g.onBundle(ctx, wire.CallBatchPutEnd, q.GetTenant(), q.GetId(), func(s *Service, p *peerConn, id string) error {
		s.families.bind(p, client)
		info, err := s.commitBundle(client, q.GetTenant(), q.GetId(), id)
		if err != nil {
			return err
		}
		reply.Bundle = s.bundleOut(&info)
		return nil
	})
	return reply, err
}

// onBundle is decide for a call about one bundle; do gets the id that the catalog knows it by.
func (g *grpcServer) onBundle(ctx context.Context, call wire.CallID, tenant, id string, do func(s *Service, p *peerConn, kept string) error) error {
	if err := bundleID(id); err != nil {
		return err
	}
	return g.decide(ctx, call, func(s *Service, p *peerConn) error {
		kept, code := s.keyOf(tenant, id)
		if code != 0 {
			return status.Errorf(codes.InvalidArgument, "no tenant can be called %.60q", tenant)
		}
		return statusOf(do(s, p, kept), id)
	})
}

// commitBundle ends the writes of a bundle, its manifest last.
func (s *Service) commitBundle(client wire.UUID, tenant, id, kept string) (catalog.BundleInfo, error) {
	info, members, ok := s.cat.Bundle(s.clock.Now(), kept)
	if !ok || info.Keys == 0 {
		return info, catalog.ErrObjectNotFound
	}
	failed := failures{text: "the manifest is not published"}
	var open []string
	manifest, published := "", false
	for i := range members {
		_, plain := s.plainKey(members[i].Key)
		switch {
		case members[i].Part == bundle.Manifest:
			manifest, published = plain, members[i].Complete
		case !members[i].Complete:
			open = append(open, plain)
		}
	}
	switch {
	case manifest == "":
		failed.add(id+"/manifest", wire.ErrObjectNotFound)
		return info, failed.status(codes.FailedPrecondition)
	case info.LostKeys > 0:
		return info, status.Errorf(codes.FailedPrecondition, "%s: %d members went with their segments; the manifest is not published", shortened(id), info.LostKeys)
	case !published:
		open = append(open, manifest) // the last to end, if nothing failed before
	}
	for len(open) > 0 && failed.first == 0 {
		batch := open[:max(len(open)-1, 1)]
		for i, o := range s.endPlain(catalog.Turn.PutEnd, client, batch, tenant) {
			if o.GetCode() != 0 {
				failed.add(batch[i], wire.ErrorCode(o.GetCode()))
			}
		}
		open = open[len(batch):]
	}
	if failed.first != 0 {
		return info, failed.status(codes.FailedPrecondition)
	}
	info, _, _ = s.cat.Bundle(s.clock.Now(), kept)
	return info, nil
}

// Abort implements the call.
func (b bundlesServer) Abort(ctx context.Context, q *mooncakev1.AbortRequest) (*mooncakev1.AbortReply, error) {
	err := b.g.onBundle(ctx, wire.CallBatchRemove, q.GetTenant(), q.GetId(), func(s *Service, _ *peerConn, id string) error {
		info, _, ok := s.cat.Bundle(s.clock.Now(), id)
		switch {
		case !ok:
			return nil
		case info.Published != 0:
			return status.Errorf(codes.FailedPrecondition, "%s is published: Reclaim removes it", shortened(id))
		}
		_, err := s.cat.ReclaimBundle(s.clock.Now(), id)
		return err
	})
	return &mooncakev1.AbortReply{}, err
}

// Open implements the call.
func (b bundlesServer) Open(ctx context.Context, q *mooncakev1.OpenRequest) (*mooncakev1.OpenReply, error) {
	reply := &mooncakev1.OpenReply{}
	err := b.g.onBundle(ctx, wire.CallBatchGetReplicaList, q.GetTenant(), q.GetId(), func(s *Service, p *peerConn, id string) error {
		info, members, ok := s.cat.Bundle(s.clock.Now(), id)
		switch {
		case !ok || info.Manifest.CompleteKeys == 0 && info.State != catalog.BundleStaging:
			return catalog.ErrObjectNotFound
		case info.Manifest.CompleteKeys == 0:
			return status.Errorf(codes.FailedPrecondition, "%s is not published yet", shortened(q.GetId()))
		}
		reply.LeaseMs = uint64(s.cfg.LeaseTTL.Milliseconds())
		failed := 0
		for i := range members {
			_, plain := s.plainKey(members[i].Key)
			r := s.placements(p, q.GetTenant(), plain)
			if r.GetOutcome().GetCode() != 0 {
				failed++
			}
			reply.Members = append(reply.Members, &mooncakev1.MemberPlacements{
				Name: strings.TrimPrefix(plain, q.GetId()+"/"), Placements: r.GetPlacements(), Size: members[i].Size,
			})
		}
		s.countBatch(wire.BatchGetReplicaList.ID, len(members), failed)
		return nil
	})
	return reply, err
}

// Reclaim implements the call.
func (b bundlesServer) Reclaim(ctx context.Context, q *mooncakev1.ReclaimRequest) (*mooncakev1.ReclaimReply, error) {
	reply := &mooncakev1.ReclaimReply{}
	err := b.g.onBundle(ctx, wire.CallBatchRemove, q.GetTenant(), q.GetId(), func(s *Service, _ *peerConn, id string) error {
		info, err := s.cat.ReclaimBundle(s.clock.Now(), id)
		if err == nil {
			reply.Bundle = s.bundleOut(&info)
			s.log.Info("bundle reclaimed over gRPC", bundleFields("bundle_reclaimed", &info)...)
		}
		return err
	})
	return reply, err
}

// Get implements the call.
func (b bundlesServer) Get(ctx context.Context, q *mooncakev1.GetRequest) (*mooncakev1.GetReply, error) {
	reply := &mooncakev1.GetReply{}
	err := b.g.onBundle(ctx, wire.CallBatchGetReplicaListForAdmin, q.GetTenant(), q.GetId(), func(s *Service, _ *peerConn, id string) error {
		info, members, ok := s.cat.Bundle(s.clock.Now(), id)
		if !ok {
			return catalog.ErrObjectNotFound
		}
		reply.Bundle = s.bundleOut(&info)
		for i := range members {
			m := &members[i]
			_, plain := s.plainKey(m.Key)
			reply.Members = append(reply.Members, &mooncakev1.Member{
				Name: strings.TrimPrefix(plain, q.GetId()+"/"), Size: m.Size, Complete: m.Complete, Placements: placementsOut(s.replicasOut(m.Key, nil, m.Replicas)),
			})
		}
		return nil
	})
	return reply, err
}

// List implements the call.
func (b bundlesServer) List(ctx context.Context, q *mooncakev1.ListBundlesRequest) (*mooncakev1.ListBundlesReply, error) {
	most, err := pageSize(q.GetPageSize())
	if err != nil {
		return nil, err
	}
	reply := &mooncakev1.ListBundlesReply{}
	err = b.g.decide(ctx, wire.CallBatchGetReplicaListForAdmin, func(s *Service, _ *peerConn) error {
		f := q.GetFilter()
		list, next := s.Bundles(catalog.BundleFilter{
			Prefix: f.GetPrefix(), Partition: f.GetPartition(), Group: f.GetGroup(), Workload: f.GetWorkload(),
			State: catalog.BundleState(f.GetState()), OlderThanMs: f.GetOlderThanMs(),
		}, q.GetPageToken(), most)
		reply.Bundles, reply.NextPageToken = s.bundlesOut(list), next
		return nil
	})
	return reply, err
}

// Totals implements the call.
func (b bundlesServer) Totals(ctx context.Context, _ *mooncakev1.TotalsRequest) (*mooncakev1.TotalsReply, error) {
	reply := &mooncakev1.TotalsReply{}
	err := b.g.decide(ctx, wire.CallBatchGetReplicaListForAdmin, func(s *Service, _ *peerConn) error {
		for _, t := range s.cat.BundleTotals(s.clock.Now()) {
			reply.Totals = append(reply.Totals, &mooncakev1.BundleTotal{
				State: mooncakev1.BundleState(t.State), Workload: t.Workload, Bundles: t.Bundles, Keys: t.Keys, Bytes: t.Bytes, AllocatedBytes: t.Allocated,
			})
		}
		return nil
	})
	return reply, err
}

// Collect implements the call.
func (b bundlesServer) Collect(ctx context.Context, q *mooncakev1.CollectRequest) (*mooncakev1.CollectReply, error) {
	reply := &mooncakev1.CollectReply{}
	err := b.g.decide(ctx, wire.CallBatchRemove, func(s *Service, _ *peerConn) error {
		reply.Bundles = s.bundlesOut(s.cat.CollectBundles(s.clock.Now(), q.GetDryRun()))
		return nil
	})
	return reply, err
}

// Watch implements the call.
func (b bundlesServer) Watch(q *mooncakev1.WatchBundlesRequest, out grpc.ServerStreamingServer[mooncakev1.WatchBundlesReply]) error {
	var there []*mooncakev1.BundleEvent
	look := func(s *Service) {
		if q.GetExisting() {
			there = s.publishedBundles(q.GetTenant(), q.GetPrefix())
		}
	}
	first := func() error {
		if err := out.Send(&mooncakev1.WatchBundlesReply{}); err != nil || len(there) == 0 {
			return err
		}
		return out.Send(&mooncakev1.WatchBundlesReply{Events: there})
	}
	return b.g.watch(out.Context(), q.GetTenant(), look, first, func(seen []watchedKey) error {
		reply := &mooncakev1.WatchBundlesReply{}
		for _, x := range seen {
			if prefix, part := bundle.Parse(x.key); part == bundle.Manifest && !x.disk && strings.HasPrefix(prefix, q.GetPrefix()) {
				reply.Events = append(reply.Events, &mooncakev1.BundleEvent{Id: strings.TrimSuffix(prefix, "/"), Withdrawn: x.gone})
			}
		}
		if len(reply.Events) == 0 {
			return nil
		}
		return out.Send(reply)
	})
}

// publishedBundles lists the bundles of a tenant that can be read.
func (s *Service) publishedBundles(tenant, prefix string) (list []*mooncakev1.BundleEvent) {
	kept, code := s.keyOf(tenant, prefix)
	if code != 0 {
		return nil
	}
	for after := ""; ; {
		page, next := s.Bundles(catalog.BundleFilter{Prefix: kept}, after, limits.GRPCPageMax)
		for i := range page {
			if owner, plain := s.plainKey(page[i].ID); page[i].Manifest.CompleteKeys > 0 && (owner == s.tenantOf(tenant) || !s.cfg.MultiTenants || tenant == "" && owner == defaultTenant) {
				list = append(list, &mooncakev1.BundleEvent{Id: plain})
			}
		}
		if after = next; next == "" {
			return list
		}
	}
}

func (s *Service) bundlesOut(list []catalog.BundleInfo) []*mooncakev1.Bundle {
	out := make([]*mooncakev1.Bundle, len(list))
	for i := range list {
		out[i] = s.bundleOut(&list[i])
	}
	return out
}

func (s *Service) bundleOut(b *catalog.BundleInfo) *mooncakev1.Bundle {
	_, id := s.plainKey(b.ID)
	return &mooncakev1.Bundle{
		Id: id, State: mooncakev1.BundleState(b.State), Group: b.Group, Writer: uuidOut(b.Writer.Hi, b.Writer.Lo), Workload: b.Workload,
		Keys: b.Keys, LostKeys: b.LostKeys, Bytes: b.Payload.Bytes + b.Meta.Bytes + b.Manifest.Bytes, AllocatedBytes: b.AllocatedBytes,
		Reads: b.Reads, Evicted: b.Evicted, CreatedMs: int64(b.Created), LastWriteMs: int64(b.LastWrite), PublishedMs: int64(b.Published),
		LastReadMs: int64(b.LastRead), ReclaimedMs: int64(b.Reclaimed),
	}
}
