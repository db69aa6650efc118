package client

import (
	"context"
	"hash/crc32"
	"time"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/limits"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sound compares the bytes of an object with its checksum, if the master knows that. When they differ each copy is read by
// itself until one is right; the master is told of those that are not.
func (c *Client) sound(ctx context.Context, key string, r *mooncakev1.PlacementsResult, data []byte) bool {
	if r.Crc32C == nil || crc32.Checksum(data, castagnoli) == r.GetCrc32C() {
		return true
	}
	var wrong []uint64
	right := false
	for _, p := range r.GetPlacements() {
		if p.GetMemory() == nil {
			continue
		}
		group, moving := transfers(ctx)
		for _, q := range cut(0, data) {
			group.Go(func() error { return c.readAny(moving, []*mooncakev1.Placement{p}, q) })
		}
		if group.Wait() != nil {
			continue
		}
		if right = crc32.Checksum(data, castagnoli) == r.GetCrc32C(); right {
			break
		}
		wrong = append(wrong, p.GetReplicaId())
	}
	c.reportWrong(ctx, key, wrong...)
	return right
}

// inMemoryIDs lists the ids of the copies that this client can reach.
func inMemoryIDs(list []*mooncakev1.Placement) (ids []uint64) {
	for _, p := range list {
		if p.GetMemory() != nil {
			ids = append(ids, p.GetReplicaId())
		}
	}
	return ids
}

// reportWrong tells the master of copies that do not have the checksum of their object, so that it has them looked at. Whether
// that succeeds does not matter to the caller.
func (c *Client) reportWrong(ctx context.Context, key string, copies ...uint64) {
	if len(copies) == 0 {
		return
	}
	conn, _, err := c.master()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limits.ClientReportMs*time.Millisecond)
	defer cancel()
	q := &mooncakev1.ReportRequest{}
	for _, id := range copies[:min(len(copies), limits.ReportWrongCopies)] {
		q.Wrong = append(q.Wrong, &mooncakev1.WrongCopy{Tenant: c.cfg.Tenant, Key: key, ReplicaId: id})
	}
	c.calls.Add(1)
	_, _ = mooncakev1.NewSegmentsClient(conn).Report(ctx, q)
}
