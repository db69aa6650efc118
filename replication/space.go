package replication

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
)

// ErrFull says that etcd takes nothing more. Nothing is acknowledged until somebody has made room there.
var ErrFull = etcdkv.ErrFull

// space is what a member knows of the room in etcd.
type space struct {
	full        atomic.Bool
	used, quota atomic.Int64
	looked      atomic.Int64 // when, on the shelf's clock
}

// sizer is a Store that tells how full it is. Those of tests may not.
type sizer interface {
	Size(ctx context.Context) (etcdkv.Size, error)
}

// look asks etcd how full it is, now and then. An etcd that does not say is taken to have room until it refuses.
func (s *shelf) look(ctx context.Context) {
	etcd, ok := s.etcd.(sizer)
	if now := s.boot(); !ok || now-s.space.looked.Swap(now) < limits.LogSizeMs*int64(time.Millisecond) {
		return
	}
	size, err := etcd.Size(ctx)
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, etcdkv.ErrDenied) {
			s.rare.Warn("etcd does not tell this user how full it is", zap.String("action", "size_denied"), zap.Error(err))
		}
		return
	}
	if size.Quota == 0 {
		size.Quota = limits.EtcdQuotaBytes
	}
	s.space.used.Store(size.InUse)
	s.space.quota.Store(size.Quota)
	s.fills(size.Full)
}

// fills notes whether etcd is full.
func (s *shelf) fills(full bool) {
	switch was := s.space.full.Swap(full); {
	case full && !was:
		s.log.Error("etcd is full: nothing is acknowledged until there is room and its alarm NOSPACE is disarmed", zap.String("action", "etcd_full"),
			zap.Int64("bytes", s.space.used.Load()), zap.Int64("quota", s.space.quota.Load()))
	case was && !full:
		s.log.Warn("etcd has room again", zap.String("action", "etcd_has_room"))
	}
}

// crowded tells whether half of what etcd may hold is taken: then the log is made as short as it can be.
func (p *space) crowded() bool {
	quota := p.quota.Load()
	return quota > 0 && p.used.Load() > quota/2
}

// Room is that of every log; but a full etcd has none, and who asks is not kept waiting.
func (t *Term) Room(ctx context.Context) error {
	if t.space.full.Load() {
		return ErrFull
	}
	return t.core.Room(ctx)
}
