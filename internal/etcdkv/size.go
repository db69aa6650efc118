package etcdkv

import (
	"context"
	"errors"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrFull says that etcd takes nothing any more: its database has reached the quota, and nobody has disarmed the alarm yet.
// Deleting and compacting go on.
var ErrFull = errors.New("etcd has no space left (alarm NOSPACE)")

// Size is how much of etcd's database is taken, as the member says that was asked.
type Size struct {
	Bytes int64 // of the file
	InUse int64 // of it: the rest is used again before the file grows
	Quota int64 // 0: it does not say
	Full  bool  // the alarm is raised
}

// Size asks for the size of the database. By the way it learns who leads etcd.
func (c *Cluster) Size(ctx context.Context) (Size, error) {
	answer, err := ask(ctx, c, "status", c.hedge, func(ctx context.Context, etcd *clientv3.Client) (*clientv3.StatusResponse, error) {
		return etcd.Status(ctx, etcd.Endpoints()[0])
	})
	if err != nil {
		return Size{}, err
	}
	c.prefer(ctx, answer.Leader)
	size := Size{Bytes: answer.DbSize, InUse: answer.DbSizeInUse, Quota: answer.DbSizeQuota}
	for _, text := range answer.Errors {
		size.Full = size.Full || strings.Contains(text, "NOSPACE")
	}
	return size, nil
}
