package replication

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mooncake/catalog"
	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
)

// shelf is the log of a cluster as it lies in etcd.
type shelf struct {
	etcd Store
	boot func() int64 // a clock that also counts while the machine sleeps, in nanoseconds
	keys keyspace
	// revision pins what is read of the log; 0 = as it is now.
	revision int64
	cluster  string
	catalog  catalog.Config
	space    *space
	dir      *snapshotDir // nil: this member keeps no snapshots
	// partsMax bounds the parts of a snapshot in etcd; a larger one is kept by members.
	partsMax int

	log  *zap.Logger
	rare *zap.Logger // for what is tried again and again: one line in a while says it
}

func rarely(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, limits.LogComplainMs*time.Millisecond, 1, 0)
	}))
}

// errHole says that records are missing which others had in hand a moment ago: they were moved meanwhile. It passes.
var errHole = errors.New("records are missing")

// load builds the history from what is there now. Records move from log/ to roll/ and from there into a snapshot, so
// reading in this order finds each at least once, whoever writes meanwhile.
func (s *shelf) load(ctx context.Context) (h *History, err error) {
	began := time.Now()
	for try := range limits.LogLoadTries {
		if try > 0 {
			s.log.Info("the log in etcd moved while it was read", zap.Error(err))
		}
		if h, err = s.loadOnce(ctx); err == nil {
			s.log.Info("log read from etcd", zap.Uint64("records", h.Last), zap.Uint64("objects", h.Catalog.Stats().Keys),
				zap.Duration("took", time.Since(began)))
			return h, nil
		}
		if !errors.Is(err, errHole) {
			break
		}
	}
	return s.salvage(ctx, err)
}

func (s *shelf) loadOnce(ctx context.Context) (*History, error) {
	logs, err := s.all(ctx, s.keys.logs())
	if err != nil {
		return nil, err
	}
	rolls, err := s.all(ctx, s.keys.rolls())
	if err != nil {
		return nil, err
	}
	h := newHistory(s.catalog, s.log)
	err = s.loadSnapshot(ctx, h)
	for _, kv := range append(rolls, logs...) {
		if err != nil {
			break
		}
		err = h.take(&s.keys, kv.Key, kv.Value)
	}
	if err != nil {
		h.Catalog.Close()
		return nil, err
	}
	return h, nil
}

// all reads everything with a prefix, in pages.
func (s *shelf) all(ctx context.Context, prefix string) (out []etcdkv.KV, err error) {
	for from := prefix; ; {
		page, more, _, err := s.etcd.Range(ctx, from, end(prefix), etcdkv.Page{Limit: limits.LogPageKeys, Revision: s.revision})
		if err != nil {
			return nil, err
		}
		out = append(out, page...)
		if !more || len(page) == 0 {
			return out, nil
		}
		from = page[len(page)-1].Key + "\x00"
	}
}

// take applies the records of a value that the history does not have.
func (h *History) take(keys *keyspace, key string, value []byte) error {
	if _, last, ok := keys.span(key); ok && last <= h.Last {
		return nil // whatever it has
	}
	return records(key, value, func(head *header, payload []byte) error {
		switch {
		case head.number <= h.Last:
			return nil
		case head.number > h.Last+1:
			return fmt.Errorf("%d to %d: %w", h.Last+1, head.number-1, errHole)
		}
		return h.visit(head, payload)
	})
}

// currentSnapshot reads which snapshot counts.
func (s *shelf) currentSnapshot(ctx context.Context) (p pointer, found bool, err error) {
	kvs, _, _, err := s.etcd.Range(ctx, s.keys.current(), s.keys.current()+"\x00", etcdkv.Page{Revision: s.revision})
	if err != nil || len(kvs) == 0 {
		return p, false, err
	}
	p, err = parsePointer(kvs[0].Value)
	return p, err == nil, err
}

func (s *shelf) loadSnapshot(ctx context.Context, h *History) error {
	p, found, err := s.currentSnapshot(ctx)
	if err != nil || !found {
		return err
	}
	text, err := s.snapshotText(ctx, p)
	if err != nil {
		return err
	}
	return h.decodeSnapshot("snapshot "+p.ID, text)
}

// snapshotText reads a snapshot from wherever it lies.
func (s *shelf) snapshotText(ctx context.Context, p pointer) ([]byte, error) {
	if p.Place != placeMembers {
		return s.joinParts(ctx, p)
	}
	if s.dir != nil {
		text, err := s.dir.text(p)
		if err == nil {
			return text, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			s.log.Error("a snapshot that was kept cannot be used: another master is asked", zap.String("action", "snapshot_damaged"), zap.Error(err))
		}
	}
	text, err := s.fetch(ctx, p)
	if err == nil && s.dir != nil {
		err = s.dir.keep(p, text)
	}
	return text, err
}

// joinParts reads the parts of a snapshot in etcd. Those that are not there any more were replaced.
func (s *shelf) joinParts(ctx context.Context, p pointer) ([]byte, error) {
	prefix := s.keys.partsOf(p.ID)
	parts, err := s.all(ctx, prefix)
	if err != nil {
		return nil, err
	}
	text := make([]byte, 0, p.Bytes)
	for _, part := range parts {
		text = append(text, part.Value...)
	}
	if len(parts) != p.Parts || int64(len(text)) != p.Bytes {
		return nil, fmt.Errorf("etcd keys %s: %d of %d parts: %w", prefix, len(parts), p.Parts, errHole)
	}
	if err := p.matches(text); err != nil {
		return nil, fmt.Errorf("etcd keys %s: %w", prefix, err)
	}
	return text, nil
}

// decodeSnapshot starts the history with the text of a snapshot.
func (h *History) decodeSnapshot(place string, text []byte) error {
	text, err := unpackSnapshot(text)
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	head, err := parseFileHeader(text, kindSnapshot)
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return h.decode(place, head, text)
}

// catchUp applies what came after the history, and tells as of which revision that was everything.
func (s *shelf) catchUp(ctx context.Context, h *History) (revision int64, err error) {
	for {
		page, more, at, err := s.etcd.Range(ctx, s.keys.log(h.Last+1), end(s.keys.logs()), etcdkv.Page{Limit: limits.LogPageKeys})
		if err != nil {
			return 0, err
		}
		for _, kv := range page {
			if err := h.take(&s.keys, kv.Key, kv.Value); err != nil {
				return 0, err
			}
		}
		if !more {
			return at, nil
		}
	}
}

// tail keeps the history up with the log until ctx ends. applied is told how far it is. errHole means that it has to be
// loaded anew.
func (s *shelf) tail(ctx context.Context, h *History, applied func(number uint64)) error {
	for {
		revision, err := s.catchUp(ctx, h)
		if err == nil {
			applied(h.Last)
			err = s.etcd.Watch(ctx, s.keys.logs(), end(s.keys.logs()), revision+1, func(events []etcdkv.Event, _ int64) error {
				for i := range events {
					if e := &events[i]; !e.Deleted {
						if err := h.take(&s.keys, e.Key, e.Value); err != nil {
							return err
						}
					}
				}
				applied(h.Last)
				return nil
			})
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, etcdkv.ErrCompacted):
		case isDamage(err):
			return err
		default:
			s.rare.Warn("the log in etcd cannot be followed", zap.String("action", "tail_failed"), zap.Error(err))
			if !pause(ctx, limits.LogRetryMs*time.Millisecond) {
				return ctx.Err()
			}
		}
	}
}

// pause waits, and is false when ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
